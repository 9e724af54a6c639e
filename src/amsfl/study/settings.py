# ruff: noqa: RUF012 (defaults of a NamedTuple, which nobody changes in place)
"""What a study is: a few words, the settings all methods share, and what each method adds to them."""

from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from amsfl.core import UserError, nearest
from amsfl.core.records import Json, JsonMapping
from amsfl.data import Dataset
from amsfl.planning.planner import policy_of
from amsfl.record import Damaged, from_plain, safe_name
from amsfl.settings.checks import whole_rounds
from amsfl.simulation import CustomParts, RunConfig, make_config, read_toml
from amsfl.simulation.components import federation_of

BUILT_IN = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.toml"))}
TRIALS = 10_000  # of one method, at most
CHUNK = 10  # trials that run as one batch and are saved together
FOR_ALL = {  # what a comparison needs, whatever its file says
    "stop_at_target": False,  # times to a target come from whole curves
}

ELSEWHERE = {  # settings of a run that stand in another place of a study's file, or in none
    "method": "an entry names its method",
    "seed": "a study's stands at the top of its file",
    "checkpoint_every": "a study keeps whole trials",
} | dict.fromkeys(FOR_ALL, "it is the same in every study")


class Study(NamedTuple):
    """Trial k of every method has the seed `seed + k`: the same partition, first model and sampling."""

    title: str = ""  # "": methods and data
    kind: Literal["reproduce", "compare"] = "compare"  # the paper's numbers belong beside the first
    trials: Annotated[int, Field(strict=True, ge=1, le=TRIALS)] = 5
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**32 - TRIALS)] = 0
    reference: str = ""  # the entry that the others are tested against
    run: Json = {}  # settings of `amsfl run` for everybody
    methods: dict[str, Json] = {}  # entry -> its own settings; `method` is the entry's name if absent
    searched: Json = {}  # entry -> what tune.py tried and found

    def config(self, entry: str) -> RunConfig:
        own = {"method": entry, **self.methods[entry]}
        config = make_config(self.run | own | FOR_ALL | {"seed": self.seed})
        whole = whole_rounds(config, federation_of(config, CustomParts()).method)
        also = ["models"] if whole else []  # every study has them where all clients come in
        return config.model_copy(update={"details": ",".join(filter(None, [config.details, *also]))})


def read_study(file: str | Path) -> Study:
    """A study's TOML file, or a built-in one by its bare name, every method's settings checked."""
    path = BUILT_IN.get(str(file), Path(file))
    return study_of(read_toml(path), path)


def study_of(raw: Json, path: Path) -> Study:
    """The study that a file says."""
    for key in raw:
        if key not in Study._fields:
            like = nearest(key, Study._fields)
            raise UserError(f"Unknown setting {key!r} in {path.name}{like}; a run's go under [run].")
    study = _valid(raw, f"In {path.name}")
    if not study.methods:
        raise UserError(f"{path.name} names no method; add a table such as [methods.fedavg].")
    for key in [*study.run, *(key for own in study.methods.values() for key in own if key != "method")]:
        if key in ELSEWHERE:
            raise UserError(f"Setting {key!r} has no place in {path.name}: {ELSEWHERE[key]}; leave it out.")
    usual = "amsfl" if "amsfl" in study.methods else next(iter(study.methods))
    return checked(study._replace(reference=study.reference or usual))


def _valid(fields: Json, where: str) -> Study:
    try:
        return from_plain(Study, fields)
    except Damaged as why:
        raise UserError(f"{where}, {why}.") from None


def with_changes(
    study: Study,
    methods: list[str] | None = None,
    trials: int | None = None,
    settings: JsonMapping | None = None,
) -> Study:
    """The study with what the command line says: these settings hold for every method."""
    settings = dict(settings or {})
    seed = settings.pop("seed", study.seed)
    entries = study.methods
    if methods:
        # a method that the file does not tune runs with its own defaults; a user's own module:attribute goes
        # by a name that can be a folder's
        entries = {
            name.replace(":", "."): study.methods.get(name, {"method": name} if ":" in name else {})
            for name in methods
        }
    entries = {
        name: {key: value for key, value in own.items() if key not in settings}
        for name, own in entries.items()
    }
    reference = study.reference if study.reference in entries else next(iter(entries))
    return checked(
        study._replace(
            methods=entries,
            reference=reference,
            trials=study.trials if trials is None else trials,
            seed=seed,
            run=study.run | settings,
        )
    )


def without_unable(study: Study, dataset: Dataset) -> tuple[Study, list[str]]:
    """Without the methods that cannot learn from this data, and a line about each."""
    methods, lines = dict(study.methods), []
    for entry in study.methods:
        method = federation_of(study.config(entry), CustomParts()).method
        if not dataset.classes and method.objective is not None:
            del methods[entry]
            lines.append(f"Left out {entry}: it learns from a teacher's classes, and numbers are predicted.")
    return study._replace(methods=methods), lines


def checked(study: Study) -> Study:
    study = _valid(study._asdict(), "In this study")
    if study.reference not in study.methods:
        raise UserError(
            f"The reference {study.reference!r} is no method here{nearest(study.reference, study.methods)}."
        )
    for entry in study.methods:
        safe_name(entry, "The method's entry")  # it becomes a folder's
        config = study.config(entry)
        policy_of(config, federation_of(config, CustomParts()).method)  # raises for an unknown name
        if not config.ends:
            raise UserError(
                "A study needs an end for every method: give it --seconds, --rounds, --joules or --megabytes."
            )
    return study
