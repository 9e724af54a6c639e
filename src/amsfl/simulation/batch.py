"""Many trials at once: the same engine, one axis more."""

import time
from collections.abc import Callable, Sequence

from amsfl.core.records import JsonMapping
from amsfl.record import RoundRecord
from amsfl.settings.custom import CustomParts, check_dataset
from amsfl.settings.definitions import RunConfig
from amsfl.settings.parse import check_alike, make_config
from amsfl.simulation.components import precision
from amsfl.simulation.detailed_scores import detailed_scores
from amsfl.simulation.interrupt import stoppable
from amsfl.simulation.result import Result
from amsfl.simulation.rounds import begin, model_of, together
from amsfl.simulation.setup import assemble
from amsfl.simulation.summary import summarise


def run_trials(
    config: RunConfig,
    seeds: list[int],
    own: CustomParts | None = None,
    watch: Callable[[int, RoundRecord], None] | None = None,
) -> list[Result]:
    """The same settings with many seeds, as one batch: partition, initial model and sampling differ."""
    return run_batch([config.model_copy(update={"seed": seed}) for seed in seeds], own, watch)


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
    check_alike(configs)
    if configs[0].engine == "auto":  # whatever their number: a trial's bits are the same beside others
        configs = [config.model_copy(update={"engine": "jax"}) for config in configs]
    if own and own.dataset:
        own = own._replace(dataset=check_dataset(own.dataset))
    started = time.perf_counter()
    with precision(configs[0]):
        setup = assemble(configs, own)
        running = begin(setup)
        records: list[list[RoundRecord]] = [[] for _ in configs]
        with stoppable() as stop:
            for news in together(setup, running):
                for trial, fresh in news:
                    records[trial.index].append(fresh)
                    if watch:
                        watch(trial.index, fresh)
                if stop.is_set():
                    raise KeyboardInterrupt
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
