"""A trial, round after round: from its plan to its record, until rounds, seconds or a target end it.

What an engine is to compute is yielded and comes back computed, so nothing here knows of other trials: those
that run beside this one have their work done in the same calls (`together`).
"""

import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import score
from amsfl.core.records import Array, Json
from amsfl.core.scores import judge_round, worth
from amsfl.engines import Work, metrics
from amsfl.planning.planner import learn, start
from amsfl.record import RoundRecord
from amsfl.simulation import contributions
from amsfl.simulation.detailed_scores import ranked
from amsfl.simulation.plan_round import plan_round
from amsfl.simulation.server_move import RoundResult, begin_round, end_round, follow_verdict, round_record
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.trial import TrialState, first_vectors


class Scoring(NamedTuple):
    """Models [m, dim] whose scores on a split are asked for."""

    models: Array
    split: str


Asked = Work | Scoring | RoundRecord
OTHERS_EVERY = (
    10  # scored rounds of the hold-out for one of the other splits; the last round's are all scored
)
Steps = Generator[Asked, Any, Any]


def rounds(setup: RunSetup, trial: TrialState) -> Steps:
    """Yield what is to be computed, and every round's record when it is over."""
    while trial.status == "running":
        plan = plan_round(setup, trial)  # who works how much: planning/, and when: clock/, event_queue.py
        found = []
        for work in begin_round(setup, trial, plan):
            found.append((work, (yield work)))  # local steps: engines/
        result = end_round(setup, trial, plan, found)  # the server's move: protocol.py
        if setup.learns:  # what readings, as clients report them, say of the next plan: planning/
            cohort, context = plan.jobs["client"], setup.contexts[trial.index]
            reading = setup.attackers.report(trial.index, cohort, result.reading)
            trial.memory = learn(context, trial.memory, cohort, plan.decision, reading)
        if setup.judges:  # back to a better model: planning/judge.py
            follow_verdict(setup, trial)
        scores = yield from evaluate(setup, trial)
        yield from end_trial(setup, trial, result, scores)
        if "worth" in setup.config.details:  # whose uploads moved the model
            contributions.follow(setup, trial, plan, result)
        yield round_record(setup, trial, plan, result, scores)


def together(setup: RunSetup, trials: Sequence[TrialState]) -> Iterator[list[tuple[TrialState, RoundRecord]]]:
    """All trials' rounds, side by side; yields the trials and their records after each."""
    steps = {trial.index: rounds(setup, trial) for trial in trials}
    asked: dict[int, Asked] = {}

    def go_on(index: int, answer: Any) -> None:
        try:
            asked[index] = steps[index].send(answer)
        except StopIteration:
            asked.pop(index, None)

    started = time.perf_counter()
    for index in steps:
        go_on(index, None)
    while asked:
        if work := {index: each for index, each in asked.items() if isinstance(each, Work)}:
            answers = setup.engine.work(list(work.values()))
            for index, answer in zip(work, answers, strict=True):
                go_on(index, answer)
        elif scoring := {index: each for index, each in asked.items() if isinstance(each, Scoring)}:
            for index, answer in _scores(setup, scoring).items():  # type: ignore[assignment]
                go_on(index, answer)
        else:
            wall = {"seconds": (time.perf_counter() - started) / len(asked)}
            records: dict[int, Any] = asked  # nobody asks for anything any more
            news = [(each, records[each.index]._replace(wall=wall)) for each in trials if each.index in asked]
            yield news
            started = time.perf_counter()
            for trial, _ in news:
                go_on(trial.index, None)


def _scores(setup: RunSetup, asked: dict[int, Scoring]) -> dict[int, list[Json]]:
    """Of all models that are asked for on the split that the first one names."""
    split = next(iter(asked.values())).split
    some = {index: each.models for index, each in asked.items() if each.split == split}
    found = metrics(setup.engine.evaluate(np.concatenate([*some.values()]), split))
    ends = np.cumsum([len(models) for models in some.values()]).tolist()
    return {
        index: found[end - len(models) : end] for (index, models), end in zip(some.items(), ends, strict=True)
    }


def begin(setup: RunSetup) -> list[TrialState]:
    """Every trial before its first round."""
    clients = setup.task.shards.size.shape[1]
    each = zip(setup.task.seeds, setup.contexts, setup.task.start(), strict=True)
    return [
        TrialState(
            index,
            seed,
            start(context),
            first_vectors(setup.federation, anchor, clients),
            steps=[0] * clients,
            begun=[0] * clients,
        )
        for index, (seed, context, anchor) in enumerate(each)
    ]


def model_of(setup: RunSetup, trial: TrialState) -> Array:
    """The model that is scored and exported."""
    return np.asarray(setup.federation.method.model(trial.vectors.anchor, trial.vectors.server))


def evaluate(setup: RunSetup, trial: TrialState) -> Steps:
    """The round's scores by split: as often as set, and at the end; {} where none are due."""
    often, over = setup.config.eval_every, trial.status != "running"
    if trial.round % often and not over:
        return {}
    rare, scores = trial.round % (often * OTHERS_EVERY) == 0, dict[str, Json]()
    model = model_of(setup, trial)
    for split in setup.task.evals:
        if split == "holdout" or rare or over:
            (scores[split],) = yield Scoring(model[None], split)
            if setup.score.ranks:
                scores[split] |= ranked(setup, model, split)
    return scores


def end_trial(setup: RunSetup, trial: TrialState, result: RoundResult, scores: dict[str, Json]) -> Steps:
    """Note a reached target, divergence and the best round; score clients' own models where a trial ends."""
    config = setup.configs[trial.index]
    if not scores:
        return
    holdout = scores["holdout"]
    if not np.isfinite(holdout["loss"]):
        trial.status = "diverged"
        return
    if judge_round(trial, worth(holdout, setup.score, setup.by_loss), config.stop_after):
        trial.status = "finished"
    if trial.reached is None and config.target is not None and setup.score.met(holdout, config.target):
        trial.reached = {**trial.seconds, **trial.spent, "rounds": trial.round}
        if config.stop_at_target:
            trial.status = "finished"
    if trial.status == "finished" and "models" in config.details and result.deltas is not None:
        # ACC_Ci of the paper (R² of numbers): client i's own model after its steps, on the global splits
        usual, models = score("", setup.data.classes), result.began + result.deltas
        trial.local = {}
        for split in setup.task.evals:
            trial.local[split] = [usual.of(each) for each in (yield Scoring(models, split))]
