"""What all studies share: units of work on disk, one kind of table, one command line.

A study is a list of units. A unit is a batch of trials that is kept in one file, so a stopped study goes on
with the same command, and several processes may work on one folder. Results are rows (column -> value), shown
as tables in NAME.md, kept in NAME.json and drawn in NAME.png.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from rich.console import Console
from rich.markdown import Markdown

from amsfl.core import UserError
from amsfl.data import Dataset, load
from amsfl.planning import Policy
from amsfl.record import Busy, Lock, dumps, read_sealed, write_sealed
from amsfl.simulation import CustomParts, Result, RunConfig, run_batch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCH = 256  # trials that run at once: a limit on memory
Row = dict[str, Any]  # one line of a table: column -> value


# Units


class Unit(NamedTuple):
    """One batch of trials, and what is kept of each."""

    name: str  # of its file, and shown while it runs
    labels: Row  # kept in its file beside the trials
    configs: list[RunConfig]
    load: Callable[[], Dataset]
    keep: Callable[[RunConfig, Result], Row]
    policy: Policy | None = None  # in place of the one that the configuration names


def run_units(folder: Path, units: Iterable[Unit]) -> None:
    """Run the units that are not finished. One that another process works on is left to it."""
    every = list(units)
    for number, unit in enumerate(every, 1):
        path, made_from = unit_path(folder, unit.name), _identity(unit)
        with suppress(Busy), Lock(folder, f".{path.stem}-lock"):
            if path.exists() and _read(path)["made_from"] == made_from:
                continue
            print(f"{number} of {len(every)}: {unit.name}", file=sys.stderr)
            parts, trials = CustomParts(dataset=unit.load(), policy=unit.policy), list[Row]()
            for first in range(0, len(unit.configs), BATCH):
                configs = unit.configs[first : first + BATCH]
                results = run_batch(configs, parts)
                trials += [unit.keep(*pair) for pair in zip(configs, results, strict=True)]
            write_sealed(path, {**unit.labels, "made_from": made_from, "trials": trials})


def read_units(folder: Path) -> list[Row]:
    """The labels and `trials` of every finished unit."""
    return [_read(path) for path in sorted(folder.glob("unit-*.json"))]


def unit_path(folder: Path, name: str) -> Path:
    return folder / f"unit-{''.join(c if c.isalnum() else '-' for c in name.lower())}.json"


def _read(path: Path) -> Row:
    return dict(read_sealed(path, "remove it, and the study runs it again."))


def _identity(unit: Unit) -> str:
    """Changes with the settings: a finished unit of other settings is run again."""
    settings = [config.model_dump(mode="json", exclude={"data_dir"}) for config in unit.configs]
    return sha256(dumps([unit.labels, settings]).encode()).hexdigest()


def holdout_loader(data: str, data_dir: str | None, rows: int | None = None) -> Callable[[], Dataset]:
    """Loads the data once; of its evaluation sets only the hold-out, and of that the first rows."""

    def read() -> Dataset:
        dataset = load(data, data_dir=data_dir)
        if dataset.note:
            print(dataset.note, file=sys.stderr)
        x, y = dataset.evals["holdout"]
        return dataset._replace(evals={"holdout": (x[:rows], y[:rows])})

    loaded: list[Dataset] = []
    return lambda: loaded[0] if loaded else loaded.append(read()) or loaded[0]


def time_to_target(result: Result) -> Row:
    """Virtual seconds to the target; of a trial that did not reach it, those until it ended."""
    summary = result.summary
    reached = summary.seconds_to_target is not None
    seconds = summary.seconds_to_target if reached else summary.virtual_seconds
    return {"seconds": float(seconds or 0.0), "reached": reached}


def grouped(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows that agree in these columns, in the order in which they come."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def mean(rows: Sequence[Row], key: str) -> float:
    return float(np.mean([row[key] for row in rows]))


def best_with_hindsight(
    trials: Iterable[Row], names: Sequence[str], tried: Sequence[str], measured: Sequence[str] = ("seconds",)
) -> list[Row]:
    """Of every group by `names`, what was best there of all that was `tried`, as means over its seeds.

    What reached the target with all seeds is better than anything else; then the fewest seconds.
    """
    keys = (*names, *tried)
    rows = [
        dict(zip(keys, values, strict=True))
        | {key: mean(group, key) for key in measured}
        | {"reached": all(row["reached"] for row in group)}
        for values, group in grouped(trials, *keys).items()
    ]
    groups = grouped(rows, *names).values()
    return [min(group, key=lambda row: (not row["reached"], row["seconds"])) for group in groups]


# Tables and pictures


class Table(NamedTuple):
    """Rows and how they are shown: a heading and a template such as `{accuracy:.3f}`, or a function."""

    columns: Mapping[str, str | Callable[[Row], str]]
    rows: Sequence[Row]
    title: str = ""
    note: str = ""

    def markdown(self) -> str:
        lines = [f"| {' | '.join(self.columns)} |", "| --- " * len(self.columns) + "|"]
        for row in self.rows:
            cells = (
                show.format(**row) if isinstance(show, str) else show(row) for show in self.columns.values()
            )
            lines.append(f"| {' | '.join(cells)} |")
        return "\n\n".join(filter(None, [self.title, "\n".join(lines), self.note])) + "\n"


def present(
    folder: Path,
    tables: Sequence[Table],
    draw: "Callable[[Sequence[Row]], Figure] | None" = None,
    rows: Sequence[Row] | None = None,
) -> None:
    """NAME.md, NAME.json and NAME.png in the folder; the tables on the screen.

    `rows` are kept and drawn: by default those of the first table.
    """
    import matplotlib

    from amsfl.report import style

    rows = tables[0].rows if rows is None else rows
    folder.mkdir(parents=True, exist_ok=True)
    page, data, vector, picture = (folder / f"{folder.name}.{kind}" for kind in ("md", "json", "svg", "png"))
    text = "\n".join(table.markdown() for table in tables)
    page.write_text(text, encoding="utf-8")
    data.write_text(dumps(rows, indent=1), encoding="utf-8")
    if draw and rows:
        with matplotlib.rc_context(style.RC):
            drawn = style.render(folder.name, "", "", draw(rows))
        vector.write_text(drawn.svg, encoding="utf-8")
        picture.write_bytes(drawn.png)
    Console(width=140, markup=False, highlight=False).print(Markdown(text))
    print(page)


# The command line


def option(default: Any, explanation: str) -> Any:
    """A field of a study's settings: its default, and what --help says about it."""
    return field(default=default, metadata={"help": explanation})


@dataclass(frozen=True, kw_only=True)
class StudySettings:
    """What every study can be told; scripts add their own."""

    data_dir: str | None = option(None, "folder of the NSL-KDD files")
    seeds: int = option(3, "seeds of every setting")
    first_seed: int = option(100, "the first of them")
    out: Path = option(Path("results"), "folder of the results; the same command continues it")
    only_report: bool = option(False, "run nothing; show what is finished")

    def every_seed(self) -> range:
        if self.seeds < 1 or self.first_seed < 0:
            raise UserError("--seeds is at least 1 and --first-seed at least 0.")
        return range(self.first_seed, self.first_seed + self.seeds)


def finished_units(settings: StudySettings, units: Iterable[Unit]) -> list[Row]:
    """The units that are on disk; those that are not are run first, but for --only-report."""
    if not settings.only_report:
        run_units(settings.out, units)
    return read_units(settings.out)


Chosen = TypeVar("Chosen", bound=StudySettings)


def main(
    settings: type[Chosen], study: Callable[[Chosen], None], arguments: Sequence[str] | None = None
) -> None:
    """Run a study with the settings of the command line. A user's mistake is one sentence and exit code 2."""
    chosen = parse(settings, arguments)
    try:
        study(chosen)
    except UserError as mistake:
        print(f"{sys.argv[0]}: {mistake}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print(f"\nStopped. The same command continues it; --only-report shows {chosen.out}.", file=sys.stderr)
        sys.exit(130)


def parse(settings: type[Chosen], arguments: Sequence[str] | None = None) -> Chosen:
    """One flag for each field."""
    parser = argparse.ArgumentParser(
        description=sys.modules[settings.__module__].__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    types = get_type_hints(settings)
    for each in fields(settings):
        flag, kind = "--" + each.name.replace("_", "-"), types[each.name]
        if isinstance(kind, UnionType):
            kind = get_args(kind)[0]
        shown = ",".join(map(str, each.default)) if isinstance(each.default, tuple) else each.default
        default = "" if shown in (None, "", False) else f" ({'yes' if shown is True else shown})"
        about: dict[str, Any] = {"default": each.default, "help": each.metadata["help"] + default}
        if kind is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, **about)
        elif get_origin(kind) is tuple:
            parser.add_argument(flag, type=partial(_list, get_args(kind)[0]), metavar="A,B", **about)
        else:
            parser.add_argument(flag, type=kind, metavar=kind.__name__.upper(), **about)
    return settings(**vars(parser.parse_args(arguments)))


def _list(kind: Callable[[str], Any], text: str) -> tuple[Any, ...]:
    try:
        return tuple(kind(part.strip()) for part in text.split(",") if part.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list with commas, as in 1,2,4") from None


def named(contestants: Mapping[str, Any], part: str) -> list[str]:
    """Contestants that have this in their names."""
    names = [name for name in contestants if part.lower() in name.lower()]
    if not names:
        raise UserError(f"No contestant has {part!r} in its name. There are: {'; '.join(contestants)}.")
    return names
