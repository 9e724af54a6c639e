"""`amsfl.run`: settings in, a result out; with a folder, written as it goes and able to continue.

`run_batch` runs many trials at once, by the same engine; nothing of them is on record.
"""

import gc
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from amsfl import record
from amsfl.core import Remark, UserError
from amsfl.core.records import JsonMapping
from amsfl.data import Dataset, Frame
from amsfl.data.files import is_table
from amsfl.engines.models import Model
from amsfl.privacy.mechanisms import check_longer
from amsfl.record import RoundRecord, RunWriter, Summary, check_same
from amsfl.settings.checks import privacy_remarks, remarks
from amsfl.settings.custom import CustomParts, check_dataset, split_custom
from amsfl.settings.definitions import RunConfig
from amsfl.settings.parse import check_alike, make_config, merge_settings, takes
from amsfl.simulation import provenance
from amsfl.simulation.components import precision
from amsfl.simulation.observers import Watch, observers, stoppable
from amsfl.simulation.result import Result, model_files
from amsfl.simulation.rounds import begin, decide_now, is_over, model_of, together
from amsfl.simulation.setup import RunSetup, assemble
from amsfl.simulation.summary import detailed_scores, summarise
from amsfl.simulation.trial import TrialState, load_trial
from amsfl.track import TrackerSpec, trackers_of

LEAST_PATIENCE, MOST_PATIENCE = 25, 100  # scored rounds without a better one that end a run on a table


@takes(RunConfig)
def run(
    *,
    out: str | Path | None = None,
    force: bool = False,
    watch: Watch | None = None,
    before: Callable[[Dataset], None] | None = None,
    track: TrackerSpec = None,
    progress: bool | None = None,
    dataset: Dataset | Frame | None = None,
    network: Model | None = None,
    **settings: Any,
) -> Result:
    """Train one federated model: `amsfl.run(method="amsfl", data="digits", rounds=30).accuracy`.

    Args:
        out: A folder for the record.
        force: Overwrite a run that the folder holds.
        watch: `watch(record)` is called after every round.
        before: `before(dataset)` is called once there is data to look at.
        track: Names of trackers, as in "tensorboard,mlflow" (docs/trackers.md), or one of your own.
        progress: False keeps a notebook quiet, where a line says how far it has come.
        dataset: Your own data, in place of what `data` names: a data frame (with label=), or a Dataset.
        network: Your own model, in place of what `model` names.
        **settings: Those of docs/settings.md; method, policy, robust, transmit, round_end and privacy may
            also be objects of your own.

    Returns:
        What the run leaves. A mistake raises a UserError; what has no effect is a warning.
    """
    trackers = trackers_of(track)
    own, named = split_custom(settings, dataset, network)
    config = with_patience(make_config(named | own.names()), named, own.dataset)
    where = Path(out) if out else None
    if where:
        record.check_free(where, force)  # before the work, and once more when the folder is ours
    with precision(config):
        setup = assemble([config], own)
        if before:
            before(setup.data)
        on_data = () if before or setup.data.recipe is None else setup.data.recipe.remarks
        on_privacy = privacy_remarks(
            config, setup.mechanism, setup.federation.method, setup.ledgers[0], setup.task.shards.size[0]
        )
        for line in (*on_data, *setting_remarks(setup), *on_privacy):
            warnings.warn(line, Remark, stacklevel=2)
        (trial,) = begin(setup)
        decide_now(setup, trial)  # too small a budget raises before a folder is made
        with ExitStack() as stack:
            writer = None
            if where:
                writer = stack.enter_context(
                    record.create(where, provenance.manifest(setup, trial.anchor), force)
                )
            hears = stack.enter_context(observers(config, watch, trackers, progress, where))
            return _drive(setup, trial, [], writer, *hears)


def setting_remarks(setup: RunSetup, place: int = 0) -> list[str]:
    """On the settings of one of its trials that have no effect, or not the one that is expected."""
    clients = setup.task.shards.size.shape[1]
    parts = setup.federation, setup.policy, clients, setup.end, setup.profiles[place]
    return list(remarks(setup.configs[place], *parts))


def with_patience(config: RunConfig, named: Mapping[str, Any], dataset: Dataset | None = None) -> RunConfig:
    """A run on a table ends when half of its rounds brought no better one, unless `named` settings say when.

    A private run does not: where it ends by its data, it could claim less. Less patience would end runs
    whose learning rate has not cooled yet (docs/tables.md).
    """
    plain = config.epsilon is None and config.noise is None
    patience = min(max(config.last_round // 2, LEAST_PATIENCE), MOST_PATIENCE)
    table = is_table(config.data) if dataset is None else dataset.recipe is not None
    if "stop_after" in named or not table or not plain or config.last_round <= patience:
        return config
    return config.model_copy(update={"stop_after": patience})


def resume(
    where: str | Path,
    watch: Watch | None = None,
    dataset: Dataset | Frame | None = None,
    network: Model | None = None,
    anyway: bool = False,
    track: TrackerSpec = None,
    progress: bool | None = None,
    **changes: Any,
) -> Result:
    """Continue a run from its folder; it ends with the same bits as one that was never stopped.

    A method that cools its learning rate towards the planned end (AMSFL) has cooled it by the first end. So
    `rounds=4` continued to `rounds=8` gives another model than 8 rounds at once.

    Args:
        where: The run's folder.
        watch: `watch(record)` is called after every further round.
        dataset: Your own data, if the run had it: the folder does not hold it.
        network: Your own model, likewise.
        anyway: Go on where the machine is another and the bits will not be the same.
        track: As in `run`.
        progress: As in `run`.
        **changes: Make it longer or shorter (rounds, seconds, stop_at_target), and go on record;
            a method, policy, rule or other part of your own is needed again.

    Returns:
        What the run leaves.
    """
    trackers = trackers_of(track)
    own, changes = split_custom(changes, dataset, network)
    with record.reopen(Path(where), "run") as writer, ExitStack() as stack:
        config = make_config(merge_settings(writer.manifest, changes | own.names()))
        point = writer.last_checkpoint()
        if point and "rounds" in changes and config.rounds is not None and config.rounds < point.round:
            raise UserError(  # its settings would say fewer rounds than it has, wherever it is compared
                f"The run has {point.round} rounds on record, and rounds is {config.rounds}; with "
                f"{point.round} it ends where it is."
            )
        stack.enter_context(precision(config))
        setup = assemble([config], own)
        check_longer(writer.manifest.settings, config, setup.ledgers[0])
        (trial,) = begin(setup)
        machine = provenance.machine(setup, trial.anchor)
        check_same(writer.manifest, provenance.made_from(setup), machine, anyway)
        done = writer.rewind(point)
        if point:
            trial = load_trial(point)
        writer.change(config.model_dump(), machine, trial.round)
        update_status(setup, trial)
        ended = writer.ended()
        if ended and (ended.status, ended.rounds) == (trial.status, trial.round):
            result = Result(ended, done, model_of(setup, trial), setup, trial.best_model)
            writer.end(ended, model_files(result))  # should somebody have lost or changed the model
            return result
        writer.remove_summary()
        hears = stack.enter_context(observers(config, watch, trackers, progress, Path(where)))
        return _drive(setup, trial, done, writer, *hears)


def _drive(
    setup: RunSetup,
    trial: TrialState,
    done: list[RoundRecord],
    writer: RunWriter | None,
    listeners: Sequence[Watch],
    on_end: Callable[[Summary | None], None],
) -> Result:
    """Run a trial to its end; every round is recorded, and its observers hear of it, as it comes."""
    started, saved = time.perf_counter() - sum(each.wall.get("seconds", 0.0) for each in done), trial.round
    with stoppable() as interrupted:
        for _, fresh in chain.from_iterable(together(setup, [trial])):
            done.append(fresh)
            if trial.best_score is not None and trial.best_round == fresh.round:
                trial.best_model = model_of(setup, trial)
            there = fresh.round == trial.round  # else it is ahead of its records
            stop = there and interrupted.is_set() and trial.status == "running"
            if writer:
                writer.append(fresh)
                due = trial.round // setup.config.checkpoint_every > saved // setup.config.checkpoint_every
                if there and (stop or due or trial.status != "running"):
                    writer.checkpoint(trial.checkpoint())
                    saved = trial.round
            for hear in listeners:
                hear(fresh)
            if stop:
                raise KeyboardInterrupt
    params, wall = model_of(setup, trial), time.perf_counter() - started
    summary = summarise(setup, trial, done, wall, params, detailed_scores(setup, [params], True)[0])
    result = Result(summary, done, params, setup, trial.best_model)
    if writer:
        writer.end(summary, model_files(result))
    on_end(summary)
    return result


def update_status(setup: RunSetup, trial: TrialState) -> None:
    """Whether a trial has ended by the settings it goes on with: its end may have moved."""
    config = setup.config
    over = (
        is_over(setup, trial)
        or (config.stop_after > 0 and trial.stale >= config.stop_after)
        or (trial.reached is not None and config.stop_at_target)
    )
    if trial.status != "diverged":
        trial.status = "finished" if over else "running"


def run_batch(
    trials: Sequence[RunConfig | JsonMapping],
    own: CustomParts | None = None,
    watch: Callable[[int, RoundRecord], None] | None = None,
) -> list[Result]:
    """Many trials at once: `run_batch([{"data": "digits", "seed": seed} for seed in range(10)])`.

    Args:
        trials: Settings, a dict or a RunConfig each, that differ in nothing but seed, partition, profile,
            clock, steps, lr, budget and when they end.
        own: What of them is your own (amsfl.simulation.CustomParts).
        watch: `watch(place, record)` is called after every round of every trial.

    Returns:
        Their Results, in order.
    """
    configs = [each if isinstance(each, RunConfig) else make_config({**each}) for each in trials]
    started, records = time.perf_counter(), [list[RoundRecord]() for _ in configs]
    with begun(configs, own) as (setup, running):
        train_all(setup, running, records, watch)
        wall = (time.perf_counter() - started) / len(configs)
        models = [model_of(setup, trial) for trial in running]
        details = detailed_scores(setup, models)
        return [
            Result(
                summarise(setup, trial, records[trial.index], wall, model, scores),
                records[trial.index],
                model,
                setup,
                place=trial.index,
            )
            for trial, model, scores in zip(running, models, details, strict=True)
        ]


@contextmanager
def begun(
    configs: Sequence[RunConfig], own: CustomParts | None = None
) -> Iterator[tuple[RunSetup, list[TrialState]]]:
    """Many trials before their first round."""
    check_alike(configs)
    if configs[0].engine == "auto":  # whatever their number: a trial's bits are the same beside others
        configs = [config.model_copy(update={"engine": "jax"}) for config in configs]
    if own and own.dataset:
        own = own._replace(dataset=check_dataset(own.dataset))
    with precision(configs[0]):
        setup = assemble(configs, own)
        yield setup, begin(setup)


def train_all(
    setup: RunSetup,
    trials: Sequence[TrialState],
    records: Sequence[list[RoundRecord]],
    watch: Callable[[int, RoundRecord], None] | None = None,
) -> None:
    """All of these to their ends, or to Ctrl-C; every round's record is added to its trial's."""
    with stoppable() as stop, garbage_seldom():
        for news in together(setup, trials):
            for trial, fresh in news:
                records[trial.index].append(fresh)
                if watch:
                    watch(trial.index, fresh)
            if stop.is_set():
                raise KeyboardInterrupt


@contextmanager
def garbage_seldom() -> Iterator[None]:
    """Python looks for garbage among all records after some 50,000 new objects, not after 700: of a thousand
    trials on a GPU that took half of the time between rounds."""
    often = gc.get_threshold()
    gc.set_threshold(50_000, *often[1:])
    try:
        yield
    finally:
        gc.set_threshold(*often)
