"""`amsfl.run`: settings in, a result out; with a folder, written as it goes and able to continue."""

import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np

from amsfl.core import Combine, Remark, RoundRecord, Transmit, UserError
from amsfl.data import Dataset
from amsfl.engines import State
from amsfl.engines.models import Model
from amsfl.federation import folder
from amsfl.federation.checks import made_from, trial_of
from amsfl.federation.config import RunConfig
from amsfl.federation.given import check_alike, make_config
from amsfl.federation.keywords import RunKeywords
from amsfl.federation.own_data import check_dataset
from amsfl.federation.remarks import remarks
from amsfl.federation.rounds import Trial, begin, rehearse, rounds
from amsfl.federation.setup import Own, Parts, assemble, check_precision, prepare
from amsfl.methods import Method
from amsfl.schedule import Policy

Watch = Callable[[RoundRecord], None]
Array = np.ndarray[Any, np.dtype[Any]]


class Result(NamedTuple):
    """What a run leaves: the summary that the command prints, every round, and the trained model."""

    summary: dict[str, Any]
    rounds: list[RoundRecord]
    params: Array  # flat
    parts: Parts

    @property
    def accuracy(self) -> float:
        """Share of the hold-out that the final model gets right."""
        return float(self.summary["accuracy"])

    def predict(self, x: Any) -> Array:
        """Class numbers of rows `x` ([rows, features], as the data has them), as an array [rows]."""
        import jax.numpy as jnp  # here: the engines set jax up before anybody imports it

        task = self.parts.task
        logits = task.model.apply(task.unravel(jnp.asarray(self.params)), jnp.asarray(x, task.dtype))
        return np.asarray(np.asarray(logits).argmax(-1))

    def __repr__(self) -> str:
        told = self.summary
        return (
            f"<Result: {told['method']} on {told['data']}, {told['rounds']} rounds, "
            f"{told['virtual_seconds']:.1f} virtual seconds, accuracy {self.accuracy:.4f}, {told['status']}>"
        )


def run(
    *,
    out: str | Path | None = None,
    force: bool = False,
    watch: Watch | None = None,
    dataset: Dataset | None = None,
    network: Model | None = None,
    **settings: Unpack[RunKeywords],
) -> Result:
    """Train one federated model: `amsfl.run(method="amsfl", data="digits", rounds=30).accuracy`.

    Arguments: `out` names a folder for the record, which `force` may overwrite; `watch(record)` is called
    after every round; `dataset` and `network` are your own data and model in place of the named ones; the
    rest are the settings of docs/settings.md, of which `method`, `policy`, `combine` and `transmit` may also
    be objects of your own. Returns a Result. A mistake raises a UserError; what has no effect is a warning.
    """
    own, given = brought(settings, dataset, network)
    config = make_config(given | own.names())
    check_precision(config)
    parts = prepare(config, [config.seed], own)
    for line in remarks(config, parts.method, parts.policy):
        warnings.warn(line, Remark, stacklevel=2)
    state, trials = begin(parts)
    rehearse(parts, trials[0])
    where = Path(out) if out else None
    if where:
        folder.create(where, config, force)
    return _drive(parts, state, trials[0], [], where, watch)


def brought(
    settings: Mapping[str, Any], dataset: Dataset | None = None, network: Model | None = None
) -> tuple[Own, dict[str, Any]]:
    """What among the settings is an object and no name, and the settings without it."""
    kinds = {"method": Method, "policy": Policy, "combine": Combine, "transmit": Transmit}
    objects = {key: settings[key] for key, kind in kinds.items() if isinstance(settings.get(key), kind)}
    rest = {key: value for key, value in settings.items() if key not in objects}
    return Own(dataset and check_dataset(dataset), network, **objects), rest


def resume(
    where: str | Path,
    watch: Watch | None = None,
    dataset: Dataset | None = None,
    network: Model | None = None,
    **objects: Any,
) -> Result:
    """Continue a run from its folder; it ends with the same bits as one that was never stopped.

    Arguments: `where` is the folder; `watch(record)` is called after every further round; what the run had of
    your own (`dataset`, `network`, `method`, `policy`, `combine`, `transmit`) it needs again, for the folder
    does not hold it. Returns a Result.
    """
    where = Path(where)
    config = folder.read_config(where)
    if not isinstance(config, RunConfig):
        raise UserError(f"The run in {str(where)!r} was made by real clients; continue it with Flower.")
    point = folder.load_checkpoint(where)
    check_precision(config)
    parts = prepare(config, [config.seed], brought(objects, dataset, network)[0])
    state, trials = begin(parts)
    if point:
        trials = [trial_of(point, parts)]
        state = parts.engine.place(State(*(point.arrays[name] for name in State._fields)))
    done = folder.keep_rounds(where, point.round if point else 0)
    return _drive(parts, state, trials[0], done, where, watch)


def _drive(
    parts: Parts,
    state: State,
    trial: Trial,
    done: list[RoundRecord],
    where: Path | None,
    watch: Watch | None,
) -> Result:
    started = time.perf_counter()
    origin = made_from(parts) if where else {}
    for state, news in rounds(parts, state, [trial]):  # noqa: B020 (the state moves on)
        record = news[0][1]
        done.append(record)
        if where:
            folder.append(where, [record])
            if trial.round % parts.config.checkpoint_every == 0 or trial.status != "running":
                arrays = {name: np.asarray(part) for name, part in state._asdict().items()}
                host = vars(trial) | {"memory": trial.memory.dump(), "made_from": origin}
                folder.save_checkpoint(where, folder.Checkpoint(trial.round, arrays, host))
        if watch:
            watch(record)
    result = summarise(parts, trial, done, time.perf_counter() - started)
    if where:
        folder.write_atomically(where / folder.SUMMARY, folder.as_json(result, indent=1).encode())
    return Result(result, done, np.asarray(parts.method.model(state.anchor, state.server))[0], parts)


def summarise(parts: Parts, trial: Trial, records: list[RoundRecord], wall: float) -> dict[str, Any]:
    """The machine-readable end of a run. All that depends on the machine's speed is under `wall`."""
    config = parts.configs[trial.index]
    last: dict[str, Any] = next((r.metrics for r in reversed(records) if r.metrics), {})
    reached = trial.reached
    client_steps = sum(trial.steps)
    return {
        "method": config.method,
        "data": parts.data.name,
        "synthetic": parts.data.synthetic,
        "note": " ".join(filter(None, [parts.data.note, parts.method.note])),
        "seed": trial.seed,
        "status": trial.status,
        "rounds": trial.round,
        "accuracy": last.get("holdout", {}).get("accuracy"),
        "test_accuracy": last.get("test", {}).get("accuracy"),
        "metrics": last,
        "local_accuracy": trial.local,
        "clock": config.clock,
        "virtual_seconds": trial.seconds[config.clock],
        "virtual_seconds_by_clock": trial.seconds,
        "target": config.target,
        "seconds_to_target": reached[config.clock] if reached else None,
        "rounds_to_target": reached["rounds"] if reached else None,
        "steps": {str(who): steps for who, steps in enumerate(trial.steps)},
        "bytes_up": sum(r.bytes_up for r in records),
        "bytes_down": sum(r.bytes_down for r in records),
        "wall": {
            "seconds": wall,
            "client_steps_per_second": client_steps / wall if wall else None,
            "peak_mb": _peak_mb(),
        },
    }


def _peak_mb() -> float | None:
    """The most memory this process has held; None where the system does not say (Windows)."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # bytes there, kilobytes elsewhere


def run_trials(
    config: RunConfig,
    seeds: list[int],
    own: Own | None = None,
    watch: Callable[[int, RoundRecord], None] | None = None,
) -> list[Result]:
    """The same settings with many seeds, as one batch: partition, initial model and sampling differ."""
    return run_batch([config.model_copy(update={"seed": seed}) for seed in seeds], own, watch)


def run_batch(
    trials: Sequence[RunConfig | RunKeywords],
    own: Own | None = None,
    watch: Callable[[int, RoundRecord], None] | None = None,
) -> list[Result]:
    """Many trials at once: `run_batch([{"data": "digits", "seed": seed} for seed in range(10)])`.

    Arguments: `trials` are settings, a dict or a RunConfig each, that differ in nothing but seed, partition,
    profile, clock, steps, lr, budget, policy_options and when they end; `own` holds what of them is your own
    (amsfl.federation.Own); `watch(place, record)` is called after every round of every trial. Returns their
    Results, in order.
    """
    configs = [each if isinstance(each, RunConfig) else make_config({**each}) for each in trials]
    check_alike(configs)
    if own and own.dataset:
        own = own._replace(dataset=check_dataset(own.dataset))
    check_precision(configs[0])
    started = time.perf_counter()
    parts = assemble(configs, own)
    state, running = begin(parts)
    records: list[list[RoundRecord]] = [[] for _ in configs]
    for state, news in rounds(parts, state, running):  # noqa: B007, B020 (the state moves on)
        for trial, record in news:
            records[trial.index].append(record)
            if watch:
                watch(trial.index, record)
    wall = (time.perf_counter() - started) / len(configs)
    models = np.asarray(parts.method.model(state.anchor, state.server))
    return [
        Result(summarise(parts, trial, records[trial.index], wall), records[trial.index], model, parts)
        for trial, model in zip(running, models, strict=True)
    ]
