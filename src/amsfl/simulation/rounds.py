"""A trial, round after round: from its plan to its record, until rounds, seconds or a target end it.

What an engine is to compute is yielded and comes back computed, so nothing here knows of other trials: those
that run beside this one have their work done in the same calls (`together`).
Every job has a model of its own to begin from: the newest one, or, where rounds do not wait for everybody,
the one that there was when it began. A synchronous round is the case in which they are all the same.
"""

import time
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from amsfl import clock, protocol, sampling
from amsfl.combine.chain import link_names
from amsfl.core import Reading, Upload, Verdict, score
from amsfl.core.records import Array, Json
from amsfl.core.scores import judge_round, worth
from amsfl.engines import Models, Results, Work, metrics
from amsfl.planning.planner import learn, start
from amsfl.record import RoundRecord
from amsfl.simulation.plan_round import TrialPlan, draw_by_chance, plan_round
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.summary import enter_uploads, ranked
from amsfl.simulation.trial import TrialState, first_vectors, still_needed


class Scoring(NamedTuple):
    """Models [m, dim] whose scores on a split are asked for."""

    models: Array
    split: str


Asked = Work | Scoring | RoundRecord
OTHERS_EVERY = 10  # scored rounds of the hold-out for one of the other splits; the last round has all
Steps = Generator[Asked, Any, Any]


class RoundResult(NamedTuple):
    """What a round came to, besides the trial's new vectors."""

    reading: Reading
    mix: list[float]  # how much each upload counts; [] under a rule that compares uploads
    weighed: Json  # how much each of the cohort counts after each link of a rule
    deltas: Array | None = None  # [cohort, dim] and what they began from, where somebody wants to know
    began: Array | None = None


def rounds(setup: RunSetup, trial: TrialState) -> Steps:
    """Yield what is to be computed, and every round's record when it is over."""
    while trial.status == "running":
        plan = plan_round(setup, trial)  # who works how much: planning/, and when: clock/, trial.py
        found = []
        for work in begin_round(setup, trial, plan):
            found.append((work, (yield work)))  # local steps: engines/
        result = end_round(setup, trial, plan, found)  # the server's move: protocol.py
        if setup.learns:  # what readings, as clients report them, say of the next plan: planning/
            cohort, context = plan.jobs["client"], setup.contexts[trial.index]
            reading = result.reading
            if setup.attackers.attacks:
                reading = setup.attackers.report(trial.index, cohort, reading)
            trial.memory = learn(context, trial.memory, cohort, plan.decision, reading)
        if setup.judges:  # back to a better model: planning/judge.py
            follow_verdict(setup, trial)
        scores = yield from evaluate(setup, trial)
        yield from end_trial(setup, trial, result, scores)
        if "worth" in setup.config.details:  # whose uploads moved the model
            enter_uploads(setup, trial, plan.jobs, result.mix, result.deltas)
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


def begin_round(setup: RunSetup, trial: TrialState, plan: TrialPlan) -> list[Work]:
    """What an engine is to compute. Who has two results begins the second round with what it remembers of the
    first: in a further turn."""
    method, config, jobs, vectors = setup.federation.method, setup.config, plan.jobs, trial.vectors
    sent = protocol.sent_state(method, vectors.server, vectors.anchor)
    models = trial.queue.models | {plan.version: Models(vectors.anchor, sent, vectors.step)}
    if not setup.whole_rounds[trial.index]:
        trial.queue.models = still_needed(trial.queue, models)
    versions, begin = np.unique(jobs["version"], return_inverse=True)
    from_ = Models(*map(np.stack, zip(*(models[each] for each in versions.tolist()), strict=True)))
    shares = None  # how much each upload counts, where their sum is all that the server needs
    one_by_one = {"models", "worth"} & {*config.details.split(",")} or setup.federation.compares_uploads
    if not one_by_one and (jobs["version"] == plan.version).all():
        shares = np.asarray(method.mix(*_weights_and_steps(setup, trial, plan)))
    turns = np.zeros(len(jobs), int)
    if vectors.client.size + vectors.memory.size:  # how many jobs of the same client are before each
        turns = np.arange(len(jobs)) - np.searchsorted(jobs["client"], jobs["client"])
    asked = []
    for turn in range(turns.max() + 1):
        mine = jobs[turns == turn]
        who, steps, lr, number = (mine[name] for name in ("client", "steps", "lr", "number"))
        own = vectors.client[who], vectors.memory[who]
        asked.append(Work(trial.index, who, steps, lr, number, from_, begin[turns == turn], *own, shares))
    return asked


def _weights_and_steps(setup: RunSetup, trial: TrialState, plan: TrialPlan) -> tuple[Array, Array]:
    clients, dtype = plan.jobs["client"], setup.task.dtype
    weights = setup.weights[trial.index, clients]
    if setup.federation.private_clients is not None:  # who was not drawn counts nothing
        weights = weights * np.isin(clients, draw_by_chance(setup, trial.seed, plan.version))
    return weights.astype(dtype), plan.jobs["steps"].astype(dtype)


def end_round(
    setup: RunSetup, trial: TrialState, plan: TrialPlan, found: Sequence[tuple[Work, Results]]
) -> RoundResult:
    """Move the server; changes the trial."""
    federation, index, version = setup.federation, trial.index, plan.version
    jobs, vectors = plan.jobs, trial.vectors
    clients, ages = jobs["client"], version - jobs["version"]
    for work, results in found:
        if results.state.size + results.memory.size:
            vectors.client[work.client], vectors.memory[work.client] = results.state, results.memory
    numbers = (np.concatenate([getattr(work, name) for work, _ in found]) for name in ("number", "client"))
    order = np.lexsort([*numbers])  # further turns back to where the plan has them
    fields = zip(*(results.readings for _, results in found), strict=True)
    reading = Reading(*(np.concatenate(part)[order].astype(float) for part in fields))
    for judged in (reading.held_loss, reading.spread):
        judged[ages > 0] = np.nan  # of an older model
    weights, steps = _weights_and_steps(setup, trial, plan)
    forging = setup.attackers.forging(version, index, clients) if federation.attacks else None
    private = None
    if federation.private_clients is not None:
        largest = setup.weights[index].max().astype(setup.task.dtype)
        private = largest, partial(_noise, setup, trial.seed, version)
    history = vectors.history[clients]
    cohort = protocol.CohortWork((), weights, steps, forging, private, float(np.mean(ages)), history)
    deltas = began = None
    if found[0][0].shares is not None:
        cohort = cohort._replace(total=found[0][1].uploads)
    else:
        sent = [each for some in found for each in _uploads(setup, plan, vectors.anchor, *some)]
        cohort = cohort._replace(uploads=[sent[place][0] for place in order])
        deltas = np.stack([sent[place][0].delta for place in order])
        began = np.stack([sent[place][1] for place in order])
    moved, server, weighed, history = protocol.settle(federation, vectors.anchor, vectors.server, cohort)
    vectors.history[clients] = history
    trial.vectors = vectors._replace(anchor=moved, server=server, step=moved - vectors.anchor)
    mix: list[float] = []
    if not federation.compares_uploads:
        mix = np.asarray(federation.method.mix(setup.weights[index, clients], jobs["steps"]), float).tolist()
    links = link_names(federation.rule) if federation.rule and weighed else ()
    return RoundResult(
        reading, mix, {name: np.asarray(weighed[name], float) for name in links}, deltas, began
    )


def _uploads(
    setup: RunSetup, plan: TrialPlan, anchor: Array, work: Work, results: Results
) -> list[tuple[Upload, Array]]:
    """Each by what its age leaves of it, and the model that it began from."""
    method, versions, sent = setup.federation.method, np.unique(plan.jobs["version"]), []
    for nth, begin in enumerate(work.begin):
        own, began = Upload(*(part[nth] for part in results.uploads)), work.models.anchor[begin]
        age = int(plan.version - versions[begin])
        counts = setup.task.dtype(setup.end.weight(age))
        sent.append(
            (
                protocol.weigh_by_age(method, own, counts, anchor, began if age else None),
                began,
            )
        )
    return sent


def _noise(setup: RunSetup, seed: int, version: int, size: int) -> Array:
    """The server's own, where it keeps whole clients private: a hash of seed and round, as all chance is."""
    with np.errstate(over="ignore"):
        places = np.arange(size, dtype=np.uint32)
        noise = sampling.noise_of_round(sampling.words(seed), sampling.words(version), places)
    return np.asarray(noise, setup.task.dtype)


def follow_verdict(setup: RunSetup, trial: TrialState) -> None:
    """The trial after the judge's verdict on its last round."""
    verdict = trial.memory.judge.verdict
    if not verdict:
        return
    vectors = trial.vectors
    anchor, server = setup.federation.method.revise(vectors.anchor, vectors.server, verdict)
    step = vectors.step + (anchor - vectors.anchor)
    trial.vectors = vectors._replace(anchor=anchor, server=server, step=step)


def round_record(
    setup: RunSetup, trial: TrialState, plan: TrialPlan, result: RoundResult, scores: dict[str, Json]
) -> RoundRecord:
    """The round as its record has it; how long it took on this machine is said by who knows."""
    index, jobs, costs = trial.index, plan.jobs, setup.costs[trial.index]
    clients, steps, ages = jobs["client"], jobs["steps"], (plan.version - jobs["version"]).tolist()
    seconds = planned = clock.client_seconds(costs, clients, steps)
    timeline: Json = {}
    if not setup.whole_rounds[index]:  # when each worked, how old its model was, and whose work was not used
        seconds = jobs["arrives"] - jobs["started"]
        lost = zip(*(plan.dropped[name].tolist() for name in ("client", "started", "arrives")), strict=True)
        timeline = {"staleness": ages, "dropped": [list(each) for each in lost]}
        timeline |= {"started": jobs["started"].tolist(), "arrived": jobs["arrives"].tolist()}
    explained = plan.decision.explain | {"client_seconds": seconds.tolist()}
    if costs.fedavg_seconds is not None and not setup.policy.constant:
        fedavg = costs.fedavg_seconds[clients] + setup.profiles[index].step_seconds[clients] * steps
        explained["extra_seconds"] = (planned - fedavg).tolist()
    if setup.judges:
        judge = trial.memory.judge
        explained |= {"held_loss": judge.held_loss, "verdict": Verdict(judge.verdict).name.lower()}
    if "joules" in plan.spent:
        explained["client_joules"] = costs.accounts["joules"].of(clients, steps).tolist()
    reading, weighed, ledger = result.reading, result.weighed, setup.ledgers[index]
    if weighed:  # how much each counts by what it claims, and after each link of the rule
        shares = setup.weights[index, clients]
        weighed = {"claimed": shares / np.sum(shares), **weighed}
    read = bool(reading.grad_sq.any())  # all zero when none were taken
    return RoundRecord(
        round=trial.round,
        seconds=dict(trial.seconds),
        round_seconds=plan.seconds,
        predicted_seconds=float(plan.decision.predicted_seconds),
        metrics=scores,
        cohort=clients.tolist(),
        steps=steps.tolist(),
        lr=float(np.mean(plan.decision.lr)),
        bytes_up=setup.work.bytes_up * len(jobs),
        bytes_down=setup.work.bytes_down * (len(jobs) + len(plan.dropped)),
        readings={name: _finite(column) for name, column in reading._asdict().items()} if read else {},
        plan=explained,
        mix=[
            share * (setup.end.weight(age) if age else 1.0)
            for share, age in zip(result.mix, ages, strict=bool(result.mix))
        ],
        weighed={name: _finite(column) for name, column in weighed.items()},
        joules=plan.spent.get("joules"),
        cost=plan.spent.get("cost"),
        epsilon=ledger.bounds(ledger.units(trial.begun, trial.round)) if setup.mechanism else [],
        **timeline,
    )


def _finite(column: Any) -> list[float | None]:
    """None where a client has no such number."""
    return [each if np.isfinite(each) else None for each in np.asarray(column, float).tolist()]
