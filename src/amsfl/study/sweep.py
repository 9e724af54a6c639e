"""`amsfl.sweep`: every combination of some settings, runs that can share a batch in one, back as a table."""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from hashlib import sha256
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from amsfl.core import DiskError, Remark, UserError
from amsfl.core.records import Json, JsonMapping
from amsfl.core.scores import LESS
from amsfl.data import Dataset, Frame
from amsfl.engines.models import Model
from amsfl.record import Lock, dumps, flatten, read_sealed, write_sealed
from amsfl.settings.checks import chosen_round_end
from amsfl.settings.custom import split_custom, table_of
from amsfl.settings.definitions import OF_ROWS, marked
from amsfl.simulation import CustomParts, Result, RunConfig, make_config, provenance, run_batch
from amsfl.simulation.api import setting_remarks
from amsfl.simulation.components import federation_of, load_data
from amsfl.simulation.observers import line

if TYPE_CHECKING:
    import pandas

CHUNK = 64  # runs of one batch: what is kept at once, and what a stopped sweep may lose
RUNS = 100_000  # of one sweep
FILES = "sweep-*.json"  # a batch each
Row = Json
Watch = Callable[[int, int], None]


class SweepRun(NamedTuple):
    swept: Json
    config: RunConfig
    own: CustomParts

    @property
    def of_data(self) -> str:
        """The settings that say which rows there are."""
        return dumps(self.config.model_dump(include=OF_ROWS))


def sweep(
    over: Mapping[str, Iterable[Any]],
    *,
    out: str | Path | None = None,
    dataset: Dataset | Frame | None = None,
    network: Model | None = None,
    watch: Watch | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> "pandas.DataFrame":
    """Run every combination: `sweep({"method": ["fedavg", "amsfl"], "seed": range(5)}, data="digits")`.

    Runs that differ in seed, partition, profile, clock, steps, lr or their end are one batch.

    Args:
        over: Names of settings (docs/settings.md) and the values to try.
        out: A folder that keeps finished runs: the same call goes on where it was stopped, and a longer one
            runs only what is new. Objects of your own are known by their names there.
        dataset: Your own data: a data frame (with label=), or a Dataset.
        network: Your own model.
        watch: `watch(done, of)` is called after every batch.
        progress: False keeps a notebook's line of progress away.
        **settings: For all runs.

    Returns:
        A data frame, one row a run in the order of the combinations: what was swept, the last scores, the
        time to the target, what it cost.
    """
    import pandas

    runs = combinations(over, dataset, network, settings)
    with line(progress) as show:

        def after(done: int, of: int) -> None:
            if watch:
                watch(done, of)
            if show:
                show(done / of, f"{done} of {of} runs")

        rows = run_all(runs, out, after)
    return pandas.DataFrame([{**run.swept, **row} for run, row in zip(runs, rows, strict=True)])


def run_all(
    runs: Sequence[SweepRun], out: str | Path | None = None, watch: Watch = lambda *_: None
) -> list[Row]:
    """What every run came to, in their order. What `out` holds is not run again, unless it is damaged."""
    data: dict[str, Dataset] = {}  # each once
    for run in runs:
        if run.of_data not in data:
            data[run.of_data] = run.own.dataset or load_data(run.config)
    made = {key: provenance.of_data(each) for key, each in data.items()}
    names = [_name(run, made[run.of_data]) for run in runs]
    _check_names(runs, names)
    where, finished = Path(out) if out else None, dict[str, Row]()
    with Lock(where) if where else nullcontext():
        for path in where.glob(FILES) if where else ():
            with suppress(DiskError):
                finished |= read_sealed(path, "these are run again.")["runs"]
        left = [(name, run) for name, run in zip(names, runs, strict=True) if name not in finished]
        done = len(runs) - len(left)
        for batch in batches(left):
            first = batch[0][1]
            configs, own = [run.config for _, run in batch], first.own._replace(dataset=data[first.of_data])
            results = run_batch(configs, own)
            for text in dict.fromkeys(text for r in results for text in setting_remarks(r.parts, r.place)):
                warnings.warn(text, Remark, stacklevel=3)
            fresh = {name: measured(r) for (name, _), r in zip(batch, results, strict=True)}
            if where:
                write_sealed(where / FILES.replace("*", batch[0][0]), {"runs": fresh})
            finished |= fresh
            done += len(batch)
            watch(done, len(runs))
    return [finished[name] for name in names]


def best_of(rows: Iterable[Row], over: Iterable[str], settings: JsonMapping) -> list[Json]:
    """The best settings of every method, as means over seeds: sooner at the target, then the better score."""
    config = make_config({key: value for key, value in settings.items() if key not in over})
    keys, sign = [key for key in over if key != "seed"], -1.0 if config.score in LESS else 1.0
    alike: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        alike.setdefault(tuple(row[key] for key in keys), []).append(row)
    best: dict[str, tuple[tuple[float, float], Json]] = {}
    for values, some in alike.items():
        seconds = [row["seconds_to_target"] for row in some]
        score = sum(row["score"] for row in some) / len(some)
        rank = (-math.inf if None in seconds else -sum(seconds) / len(some), sign * score)
        own = dict(zip(keys, values, strict=True))
        method = str(own.pop("method", config.method))
        candidate = {"method": method, "settings": own, "score": score, "runs": len(some)}
        if method not in best or rank > best[method][0]:
            best[method] = rank, candidate
    return [candidate for _, candidate in best.values()]


def combinations(
    over: Mapping[str, Iterable[Any]],
    dataset: Dataset | Frame | None,
    network: Model | None,
    settings: JsonMapping,
) -> list[SweepRun]:
    """Every one checked before anything runs."""
    if not isinstance(over, Mapping):
        raise UserError(f"sweep takes settings and their values, as in {{'lr': [0.1, 0.5]}}, not {over!r}.")
    values = {key: _values(key, values) for key, values in over.items()}
    twice = [key for key in values if key in settings]
    if twice:
        raise UserError(f"Setting {twice[0]!r} is swept over and fixed, too; leave one of them out.")
    count = prod(map(len, values.values()))
    if count > RUNS:
        raise UserError(f"These are {count:,} runs, and a sweep has {RUNS:,} at most; take it in parts.")
    runs = []
    settings, dataset = table_of(settings, dataset)
    shared, _ = split_custom({key: None for key in (*settings, *values)}, dataset, network)
    for chosen in product(*values.values()):
        swept = dict(zip(values, chosen, strict=True))
        own, rest = split_custom({**settings, **swept})
        own = own._replace(dataset=shared.dataset, network=shared.network)
        shown = {key: getattr(value, "name", value) for key, value in swept.items()}
        runs.append(SweepRun(shown, make_config(rest | own.names()), own))
    return runs


def _values(key: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UserError(f"What {key!r} is swept over is {values!r}; give a list, as in [{values!r}].")
    listed = list(values)
    if not listed:
        raise UserError(f"There is nothing to sweep {key!r} over; give it at least one value.")
    return listed


def batches(runs: Sequence[tuple[str, SweepRun]]) -> Iterator[list[tuple[str, SweepRun]]]:
    """Runs that an engine can hold at once, with their names, in the order of the first of each."""
    alike: dict[str, list[tuple[str, SweepRun]]] = {}
    for name, run in runs:
        objects = [id(part) for part in run.own]  # the data set, too, is one object for all
        config, method = run.config, federation_of(run.config, run.own).method
        end = chosen_round_end(config, method, config.cohort or config.clients, run.own.round_end)
        # by the clock a method's own round end is used or not; uploads are added up otherwise under attack
        facts = [end.name, bool(config.attack), objects]
        shared = dumps([config.model_dump(exclude={*marked(RunConfig, "trial")}, mode="json"), facts])
        alike.setdefault(shared, []).append((name, run))
    for group in alike.values():
        for first in range(0, len(group), CHUNK):
            yield group[first : first + CHUNK]


def measured(result: Result) -> Row:
    """What a run came to, as a table's cells."""
    summary = result.summary
    scores = {key.replace("/", "_"): value for key, value in flatten(summary.metrics).items()}
    return {
        "score": result.score,
        **scores,
        "status": summary.status,
        "rounds": summary.rounds,
        "virtual_seconds": summary.virtual_seconds,
        "seconds_to_target": summary.seconds_to_target,
        "rounds_to_target": summary.rounds_to_target,
        "client_steps": sum(summary.steps.values()),
        "megabytes": (summary.bytes_up + summary.bytes_down) / 1e6,
        "joules": summary.joules,
        "joules_to_target": summary.joules_to_target,
        "wall_seconds": summary.wall.get("seconds"),
    }


def _name(run: SweepRun, data: Json) -> str:
    """The same for the same settings, data and versions: such a run need not be run again."""
    settings, files = run.config.model_dump(mode="json"), provenance.of_files(run.config)
    return sha256(dumps([settings, data, files, provenance.versions()]).encode()).hexdigest()[:24]


def _check_names(runs: Sequence[SweepRun], names: Sequence[str]) -> None:
    """Objects are known by their names: two of one name would be taken for one run."""
    first: dict[str, SweepRun] = {}
    for run, name in zip(runs, names, strict=True):
        other = first.setdefault(name, run)
        for key, one, two in zip(run.own._fields, run.own, other.own, strict=True):
            if one is not two:
                raise UserError(
                    f"Two values of {key!r} have one name, by which runs go; use different names."
                )
