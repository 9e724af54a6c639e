"""`amsfl.run`: settings in, a result out; with a folder, written as it goes and able to continue."""

import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from amsfl import record
from amsfl.core import Combine, Remark, Score, Transmit, UserError
from amsfl.data import Dataset
from amsfl.engines import State
from amsfl.engines.models import Model
from amsfl.federation import facts, private
from amsfl.federation.audience import Watch, audience
from amsfl.federation.config import RunConfig
from amsfl.federation.details import details
from amsfl.federation.flight import Flight
from amsfl.federation.given import check_alike, make_config
from amsfl.federation.interrupt import stoppable
from amsfl.federation.keywords import RunKeywords
from amsfl.federation.moves import Trial
from amsfl.federation.own_data import check_dataset
from amsfl.federation.planner import Memory
from amsfl.federation.remarks import remarks
from amsfl.federation.result import Best, Result, better, from_kept, kept, model_files, model_of
from amsfl.federation.rounds import begin, rehearse, rounds
from amsfl.federation.setup import Own, Parts, assemble, client_names, precision, prepare
from amsfl.methods import Method
from amsfl.record import Checkpoint, RoundRecord, RunWriter, Summary, fingerprint
from amsfl.schedule import Policy
from amsfl.track import Given, Told
from amsfl.track import make as track_by

TABLE = "flight."  # in a checkpoint: what is under way
OF_NAMED_DATA = ("data", "data_dir", "label", "client_column", "binary", "task")


def run(
    *,
    out: str | Path | None = None,
    force: bool = False,
    watch: Watch | None = None,
    before: Callable[[Dataset], None] | None = None,
    track: Given = None,
    progress: bool | None = None,
    dataset: Dataset | None = None,
    network: Model | None = None,
    **settings: Unpack[RunKeywords],
) -> Result:
    """Train one federated model: `amsfl.run(method="amsfl", data="digits", rounds=30).accuracy`.

    Arguments: `out` names a folder for the record, which `force` may overwrite; `watch(record)` is called
    after every round, `before(dataset)` once there is data to look at; `track` names trackers, as in
    "tensorboard,mlflow" (docs/trackers.md), or is one of your own; `progress=False` keeps a notebook quiet,
    where a line says how far it has come; `dataset` and `network` are your own data and model in place of the
    named ones; the rest are the settings of docs/settings.md, of which `method`, `policy`, `combine` and
    `transmit` may also be objects of your own. Returns a Result. A mistake raises a UserError; what has no
    effect is a warning.
    """
    trackers = track_by(track)
    own, given = brought(settings, dataset, network)
    config = make_config(given | own.names())
    where = Path(out) if out else None
    if where:
        record.check_free(where, force)  # before the work, and once more when the folder is ours
    with precision(config):
        parts = prepare(config, [config.seed], own)
        if before:
            before(parts.data)
        clients = parts.task.shards.size.shape[1]
        for line in remarks(config, parts.method, parts.policy, clients, parts.profiles[0]):
            warnings.warn(line, Remark, stacklevel=2)
        for line in private.remarks(config, parts.method, parts.ledgers[0], parts.task.shards.size[0]):
            warnings.warn(line, Remark, stacklevel=2)
        state, trials = begin(parts)
        rehearse(parts, trials[0])
        with ExitStack() as stack:
            writer = None
            if where:
                writer = stack.enter_context(record.create(where, facts.manifest(parts, state), force))
            heard = stack.enter_context(audience(config, watch, trackers, progress, where))
            return _drive(parts, state, trials[0], [], writer, heard)


def brought(
    settings: Mapping[str, Any], dataset: Dataset | None = None, network: Model | None = None
) -> tuple[Own, dict[str, Any]]:
    """What among the settings is an object and no name, and the settings without it."""
    kinds = {"method": Method, "policy": Policy, "combine": Combine, "transmit": Transmit}
    objects = {key: settings[key] for key, kind in kinds.items() if isinstance(settings.get(key), kind)}
    rest = {key: value for key, value in settings.items() if key not in objects}
    for key in [*(OF_NAMED_DATA if dataset else ()), *(("model",) if network else ())]:
        if key in rest:
            raise UserError(f"Setting {key!r} and an object of your own in its place: leave one of them out.")
    return Own(dataset and check_dataset(dataset), network, **objects), rest


def resume(
    where: str | Path,
    watch: Watch | None = None,
    dataset: Dataset | None = None,
    network: Model | None = None,
    anyway: bool = False,
    track: Given = None,
    progress: bool | None = None,
    **changes: Any,
) -> Result:
    """Continue a run from its folder; it ends with the same bits as one that was never stopped.

    Arguments: `where` is the folder; `watch(record)` is called after every further round; `changes` make it
    longer or shorter (rounds, seconds, target, stop_at_target) and go on record; what the run had of your own
    (`dataset`, `network`, `method`, `policy`, `combine`, `transmit`) it needs again, for the folder does not
    hold it; `anyway` goes on where the machine is another and the bits will not be the same; `track` and
    `progress` as in `run`.
    Returns a Result.
    """
    trackers = track_by(track)
    own, changes = brought(changes, dataset, network)
    with record.reopen(Path(where), "run") as writer, ExitStack() as stack:
        config = make_config(fingerprint.settings_now(writer.manifest, changes | own.names()))
        point = writer.last_checkpoint()
        stack.enter_context(precision(config))
        parts = prepare(config, [config.seed], own)
        state, (trial,) = begin(parts)
        machine = facts.machine(parts, state)
        fingerprint.check(writer.manifest, facts.made_from(parts), machine, anyway)
        done, best = writer.go_on(point), None
        if point:
            trial, best = _trial(point), from_kept(point)
            state = parts.engine.place(State(*(point.arrays[name] for name in State._fields)))
        writer.change(config.model_dump(), machine, trial.round)
        stand(trial, config, parts.score, done, private.spent(parts.ledgers[0], trial.begun))
        ended = writer.ended()
        now = (trial.status, trial.round, config.target, parts.score.name)
        if ended and (ended.status, ended.rounds, ended.target, ended.score) == now:
            result = Result(ended, done, model_of(parts, state)[0], parts, best)
            writer.end(ended, model_files(result))  # should somebody have lost or changed the model
            return result
        writer.reopen_end()
        heard = stack.enter_context(audience(config, watch, trackers, progress, Path(where)))
        return _drive(parts, state, trial, done, writer, heard, best)


def stand(
    trial: Trial, config: RunConfig, score: Score, done: Sequence[RoundRecord], spent: bool = False
) -> None:
    """Where a trial stands by the settings it goes on with: its end and its target may have moved.

    `spent`: nobody has any privacy left.
    """
    first = next((r for r in done if score.met(r.metrics.get("holdout", {}), config.target)), None)
    trial.reached = {**first.seconds, "rounds": first.round} if first else None
    late = config.seconds is not None and trial.seconds[config.clock] >= config.seconds
    late = late or spent
    over = trial.round >= config.last_round or late or (trial.reached is not None and config.stop_at_target)
    if trial.status != "diverged":
        trial.status = "finished" if over else "running"


def _trial(point: Checkpoint) -> Trial:
    own = {key: value for key, value in point.host.items() if key != "best"}
    table = {
        name.removeprefix(TABLE): np.array(part)
        for name, part in point.arrays.items()
        if name.startswith(TABLE)
    }
    flight = Flight.load(own["flight"], table)
    return Trial(**own | {"memory": Memory.load(own["memory"]), "flight": flight})


def _drive(
    parts: Parts,
    state: State,
    trial: Trial,
    done: list[RoundRecord],
    writer: RunWriter | None,
    heard: Told,
    best: Best | None = None,
) -> Result:
    started = time.perf_counter() - sum(each.wall.get("seconds", 0.0) for each in done)
    with stoppable() as asked:
        for state, news in rounds(parts, state, [trial]):  # noqa: B020 (the state moves on)
            fresh = news[0][1]
            done.append(fresh)
            best = better(best, parts, state, fresh)
            stop = asked() and trial.status == "running"
            if writer:
                writer.append(fresh)
                if stop or trial.round % parts.config.checkpoint_every == 0 or trial.status != "running":
                    arrays, told = kept(best)
                    arrays |= {name: np.asarray(part) for name, part in state._asdict().items()}
                    arrays |= {TABLE + name: part for name, part in trial.flight.table.items()}
                    own = {"memory": trial.memory.dump(), "flight": trial.flight.dump()}
                    host = vars(trial) | own | told
                    writer.checkpoint(Checkpoint(trial.round, arrays, host))
            heard.on_round(fresh)
            if stop:
                raise KeyboardInterrupt
    params = model_of(parts, state)[0]
    summary = summarise(parts, trial, done, time.perf_counter() - started, params)
    result = Result(summary, done, params, parts, best)
    if writer:
        writer.end(summary, model_files(result))
    heard.on_end(summary)
    return result


def summarise(parts: Parts, trial: Trial, records: list[RoundRecord], wall: float, params: Any) -> Summary:
    """The machine-readable end of a run. All that depends on the machine's speed is under `wall`."""
    config = parts.configs[trial.index]
    last: dict[str, Any] = next((r.metrics for r in reversed(records) if r.metrics), {})
    reached = trial.reached
    client_steps = sum(trial.steps)
    names = client_names(config, parts.data) or tuple(map(str, range(len(trial.steps))))
    book = parts.ledgers[trial.index]
    spent = private.spent(book, trial.begun)
    over = f"Every client's epsilon was spent after {trial.round} rounds." if spent else ""
    return Summary(
        method=config.method,
        data=parts.data.name,
        synthetic=parts.data.synthetic,
        note=" ".join(filter(None, [parts.data.note, parts.method.note, over])),
        seed=trial.seed,
        status=trial.status,
        rounds=trial.round,
        accuracy=last.get("holdout", {}).get("accuracy"),
        test_accuracy=last.get("test", {}).get("accuracy"),
        metrics=last,
        local_accuracy=trial.local if parts.data.classes else None,
        local_scores=None if parts.data.classes else trial.local,
        score=parts.score.name,
        details=details(parts, trial.index, params) if config.details else {},
        clock=config.clock,
        virtual_seconds=trial.seconds[config.clock],
        virtual_seconds_by_clock=trial.seconds,
        target=config.target,
        seconds_to_target=reached[config.clock] if reached else None,
        rounds_to_target=int(reached["rounds"]) if reached else None,
        steps=dict(zip(names, trial.steps, strict=True)),
        epsilon=dict(zip(names, book.spent(trial.begun), strict=False)),
        bytes_up=sum(r.bytes_up for r in records),
        bytes_down=sum(r.bytes_down for r in records),
        wall={
            "seconds": wall,
            "client_steps_per_second": client_steps / wall if wall else None,
            "peak_mb": _peak_mb(),
        },
    )


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
    started = time.perf_counter()
    with precision(configs[0]):
        parts = assemble(configs, own)
        state, running = begin(parts)
        records: list[list[RoundRecord]] = [[] for _ in configs]
        with stoppable() as asked:
            for state, news in rounds(parts, state, running):  # noqa: B007, B020 (the state moves on)
                for trial, fresh in news:
                    records[trial.index].append(fresh)
                    if watch:
                        watch(trial.index, fresh)
                if asked():
                    raise KeyboardInterrupt
        wall = (time.perf_counter() - started) / len(configs)
        return [
            Result(
                summarise(parts, trial, records[trial.index], wall, model),
                records[trial.index],
                model,
                parts,
                place=trial.index,
            )
            for trial, model in zip(running, model_of(parts, state), strict=True)
        ]
