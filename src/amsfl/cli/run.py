"""`amsfl run` and `amsfl resume`."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import Parameter

from amsfl.cli import flags
from amsfl.cli.output import AsJson, print_json, say
from amsfl.core import UserError
from amsfl.core.records import Json
from amsfl.settings.definitions import ROUNDS_AT_MOST, RunConfig, Training, marked

if TYPE_CHECKING:
    from amsfl.record import RoundRecord, Summary
    from amsfl.simulation import Result

NAME_AT_MOST = 60  # characters of a data file's name in a folder's
T = TypeVar("T")
Track = Annotated[
    str, Parameter(help="also send rounds to tensorboard, mlflow, wandb, prometheus or module:attribute")
]


@flags.takes(RunConfig)
def run(
    settings: Json,
    *files: flags.TableFile,
    out: Annotated[
        Path | None,
        Parameter(help="folder of the record; a new one under runs/ by default", group=flags.MOST_USED),
    ] = None,
    config: Annotated[
        Path | None, Parameter(help="a TOML file with the same settings; flags override it"), flags.RARE
    ] = None,
    force: Annotated[bool, Parameter(help="overwrite a run in that folder"), flags.RARE] = False,
    track: Annotated[Track, flags.RARE] = "",
    as_json: Annotated[AsJson, flags.RARE] = False,
) -> None:
    """Train one federated model on a virtual clock and leave a record of every round."""
    from amsfl import simulation
    from amsfl.cli.progress import watching

    settings = flags.with_tables(settings, files)
    settings = flags.merged(simulation.read_toml(config) if config else {}, settings)
    checked = simulation.make_config(settings)
    if force and out is None:
        raise UserError("--force overwrites the run that --out names; name its folder: --out runs/NAME.")
    where = out or new_folder(checked)
    with watching(checked, as_json) as watch:
        result = _interruptible(
            lambda: simulation.run(
                out=where,
                force=force,
                watch=watch,
                before=None if as_json else lambda _: None,  # remarks on the table are counted at the end
                track=track,
                **settings,
            ),
            where,
        )
    _print(result, where, as_json)


@flags.takes(RunConfig, only=(*marked(RunConfig, "later"), *marked(RunConfig, "own")))
def resume(
    settings: Json,
    folder: Annotated[Path, Parameter(help="the folder that `amsfl run` wrote")],
    /,
    *,
    anyway: Annotated[
        bool, Parameter(help="continue where the bits will not be the same; the record says so")
    ] = False,
    track: Track = "",
    as_json: AsJson = False,
) -> None:
    """Continue a run that was stopped; it ends with the same bits as one that was not stopped.

    A run can also be made longer (--rounds, --seconds). AMSFL lowers its learning rate towards the planned
    end, so 4 rounds made 8 give another model than 8 rounds at once.
    """
    from amsfl import simulation
    from amsfl.cli.progress import watching
    from amsfl.record import read_manifest
    from amsfl.settings.parse import merge_settings

    config = simulation.make_config(merge_settings(read_manifest(folder, "run"), settings))
    had_ended, fresh = (folder / "summary.json").exists(), list["RoundRecord"]()
    with watching(config, as_json) as watch:

        def heard(record: "RoundRecord") -> None:
            fresh.append(record)
            if watch:
                watch(record)

        result = _interruptible(
            lambda: simulation.resume(folder, watch=heard, anyway=anyway, track=track, **settings), folder
        )
    if had_ended and not fresh:
        say(f"amsfl: this run had ended before; {_longer(config, result.summary)}.", stderr=True)
    _print(result, folder, as_json)


def _longer(config: RunConfig, summary: "Summary") -> str:
    """What makes a run longer that had ended."""
    if config.stop_at_target and summary.seconds_to_target is not None:
        return "its target is reached: --no-stop-at-target goes on"
    since = summary.rounds - summary.best.get("round", summary.rounds)
    if 0 < config.stop_after <= since // config.eval_every:
        return f"the last {since} rounds were no better: --stop-after 0 goes on"
    return "--rounds or --seconds makes it longer"


def new_folder(config: Training) -> Path:
    """runs/DATA-METHOD-SEED, with a number behind it if that is taken: no run is ever overwritten."""
    from amsfl.data.files import source_name

    words = (source_name(config.data)[:NAME_AT_MOST], config.method[:NAME_AT_MOST], str(config.seed))
    name = "-".join(re.sub(r"[^\w.-]+", "-", word) for word in words)
    folder, number = Path("runs") / name, 1
    while folder.exists():
        number += 1
        folder = Path("runs") / f"{name}-{number}"
    return folder


def _interruptible(work: Callable[[], T], folder: Path) -> T:
    from amsfl.record import holds_record

    try:
        return work()
    except KeyboardInterrupt:
        then = f"continue with 'amsfl resume {folder}'" if holds_record(folder) else "nothing was written yet"
        say(f"\namsfl: stopped; {then}.", stderr=True)
        raise SystemExit(130) from None


def _print(result: "Result", folder: Path, as_json: bool) -> None:
    from amsfl.cli import progress
    from amsfl.record import read_manifest

    summary = result.summary
    if as_json:
        print_json(summary._asdict())
    else:
        recipe = result.parts.data.recipe
        remarks = 0 if recipe is None else len(recipe.remarks)
        for line in progress.lines(summary, result.rounds, folder, read_manifest(folder, "run"), remarks):
            say(line)
    if summary.rounds == ROUNDS_AT_MOST:
        say(f"amsfl: stopped after {ROUNDS_AT_MOST:,} rounds, the most that a run does.", stderr=True)
    if summary.status == "diverged":
        say(
            f"amsfl: the model stopped being finite in round {summary.rounds}; lower --lr, or run with "
            "--engine loop, which names the client and the step.",
            stderr=True,
        )
        raise SystemExit(1)
