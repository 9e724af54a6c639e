"""A trial, round after round: from its plan to its record, until rounds, seconds or a target end it.

What an engine is to compute is yielded and comes back computed, so nothing here knows of other trials: those
that run beside this one have their work done in the same calls (`together`).
Every job has a model of its own to begin from: the newest one, or, where rounds do not wait for everybody,
the one that there was when it began. A synchronous round is the case in which they are all the same.
"""

import time
from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from amsfl import protocol, sampling
from amsfl.clock.profile import Account
from amsfl.core import Reading, Upload, Verdict, score
from amsfl.core.records import Array, Json, Number
from amsfl.core.scores import worth
from amsfl.engines import MOST, Ahead, Models, Results, Vectors, Work
from amsfl.planning.planner import Decision, decide, learn, rate_now, start
from amsfl.record import RoundRecord
from amsfl.simulation.events import DRAWS, aged_uploads, allowance, models_of, next_round
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.summary import ranked
from amsfl.simulation.trial import JOB, NOBODY, Round, TrialState, first_state

Scoring = tuple[Array, str]  # models [m, dim] whose scores on a split are asked for
Done = list[RoundRecord]  # of one call: what they took on this machine is one dict, filled in by `together`
Asked = Work | Ahead | Scoring | Done
LR = RoundRecord._fields.index("lr")
OTHERS_EVERY = 10  # scored rounds of the hold-out for one of the other splits; the last round has all
Steps = Generator[Asked, Any, Any]


def rounds(setup: RunSetup, trial: TrialState) -> Steps:
    """Yield what is to be computed, and the records of rounds when they are over."""
    while trial.status == "running":
        this = plan_round(setup, trial)  # who works how much: planning/, and when: clock/, events.py
        if setup.ahead and setup.whole_rounds[trial.index]:
            yield from rounds_ahead(setup, trial, this)
            continue
        asked, found = begin_round(setup, trial, this), []
        for work in asked:
            found.append((yield work))  # local steps: engines/
        end_round(setup, trial, this, asked, found)  # the server's move: protocol.py
        if setup.learns:  # what readings, as clients report them, say of the next plan: planning/
            cohort = this.jobs["client"]
            reading = this.reading
            if setup.attackers.attacks:
                reading = setup.attackers.report(trial.index, cohort, reading)
            context = setup.contexts[trial.index]
            trial.memory = learn(context, trial.memory, cohort, this.decision, reading)
        if setup.judges and trial.memory.judge.verdict:  # back to a better model: planning/learning.py
            follow_verdict(setup, trial, trial.memory.judge.verdict)
        scores = yield from evaluate(setup, trial)
        if scores:
            yield from end_trial(setup, trial, asked, scores)
        yield [round_record(setup, trial, this, scores)]


def rounds_ahead(setup: RunSetup, trial: TrialState, this: Round) -> Steps:
    """Rounds until the next scores in one call of the engine: nothing of one decides the next."""
    everybody, often, first = setup.cohort == len(trial.steps), setup.config.eval_every, trial.round - 1
    planned, works = [this], begin_round(setup, trial, this)
    done = [round_record(setup, trial, this, {})]
    if everybody and trial.status == "running":  # whose plan stays
        done += repeat_round(setup, trial, this, done[0], min(MOST - 1, -trial.round % often))
    while not everybody and trial.status == "running" and len(done) < MOST and trial.round % often:
        planned.append(plan_round(setup, trial))
        works += begin_round(setup, trial, planned[-1])
        done.append(round_record(setup, trial, planned[-1], {})._replace(wall=done[0].wall))
    rates = np.array([[record.lr] for record in done], float)
    numbers = first + np.arange(len(done))[:, None]
    client, steps, shares = (
        np.stack([getattr(work, name) for work in works]) for name in ("client", "steps", "shares")
    )
    weights, shape = np.stack([each.weights for each in planned]), (len(done), client.shape[1])
    columns = (np.broadcast_to(each, shape) for each in (client, steps, rates, numbers, shares, weights))
    vectors = Vectors(trial.anchor, trial.server, trial.step, trial.client, trial.kept)
    moved = yield Ahead(trial.index, vectors, works[0].begin, *columns)
    trial.anchor, trial.server, trial.step, trial.client, trial.kept = moved
    scores = yield from evaluate(setup, trial)
    if scores:
        yield from end_trial(setup, trial, works, scores)
    yield [*done[:-1], done[-1]._replace(metrics=scores)]


def repeat_round(setup: RunSetup, trial: TrialState, this: Round, first: RoundRecord, most: int) -> Done:
    """Let a planned round pass again, `most` times or to the trial's end."""
    each, now = this.seconds | this.spent, trial.seconds | trial.spent
    passed = {name: np.cumsum([now[name], *[value] * most]).tolist() for name, value in each.items()}
    passed["rounds"] = [*range(trial.round, trial.round + most + 1)]
    limited = passed | {"seconds": passed[setup.configs[trial.index].clock]}
    limits = setup.limits[trial.index].items()
    end = min(bisect_left(limited[what], limit, 1) for what, limit in limits)
    times = min(most, end - setup.own_models)  # clients' own models are those of a round by itself
    trial.round += times
    trial.seconds, trial.spent = (
        {name: passed[name][times] for name in part} for part in (trial.seconds, trial.spent)
    )
    for counted in (trial.steps, trial.begun):
        counted[this.jobs["client"]] += times * this.jobs["steps"]
    if is_over(setup, trial):
        trial.status = "finished"
    rate = partial(rate_now, setup.contexts[trial.index], trial.memory)
    rows = zip(*(passed[name][1 : times + 1] for name in ("rounds", "sum", "makespan")), strict=True)
    before, after = first[2:LR], first[LR + 1 :]  # a third of the time of _replace
    return [
        RoundRecord._make((number, {"sum": total, "makespan": end}, *before, rate(number - 1), *after))
        for number, total, end in rows
    ]


def together(setup: RunSetup, trials: Sequence[TrialState]) -> Iterator[list[tuple[TrialState, RoundRecord]]]:
    """All trials' rounds, side by side; yields the trials and their new records."""
    steps = {trial.index: rounds(setup, trial) for trial in trials}
    asked: dict[int, Asked] = {}

    def go_on(indices: Sequence[int], answers: Sequence[Any]) -> None:
        for index, answer in zip(indices, answers, strict=True):
            try:
                asked[index] = steps[index].send(answer)
            except StopIteration:
                asked.pop(index, None)

    started = time.perf_counter()
    go_on([*steps], [None] * len(steps))
    while asked:
        work, ahead, scoring = dict[int, Work](), dict[int, Ahead](), dict[int, Scoring]()
        for index, each in asked.items():
            if isinstance(each, Work):
                work[index] = each
            elif isinstance(each, Ahead):
                ahead[index] = each
            elif not isinstance(each, list):
                scoring[index] = each
        if work:
            go_on([*work], setup.engine.work([*work.values()]))
        elif ahead and setup.engine.ahead:
            go_on([*ahead], setup.engine.ahead([*ahead.values()]))
        elif scoring:
            go_on(*score_together(setup, scoring))
        else:  # nobody asks for anything any more: all have records
            done: dict[int, Any] = asked
            wall = (time.perf_counter() - started) / sum(map(len, done.values()))
            for records in done.values():
                records[0].wall["seconds"] = wall
            yield [(trial, record) for trial in trials for record in done.get(trial.index, ())]
            started = time.perf_counter()
            go_on([*asked], [None] * len(asked))


def score_together(setup: RunSetup, asked: dict[int, Scoring]) -> tuple[list[int], list[list[Json]]]:
    """Of all models that are asked for on the first one's split: whose they are, and their scores."""
    first, indices, models, ends = next(iter(asked.values()))[1], list[int](), list[Array](), [0]
    for index, (own, split) in asked.items():
        if split == first:
            indices.append(index)
            models.append(own)
            ends.append(ends[-1] + len(own))
    found = setup.engine.evaluate(np.concatenate(models), first)
    return indices, [found[begin:end] for begin, end in pairwise(ends)]


def begin(setup: RunSetup) -> list[TrialState]:
    """Every trial before its first round."""
    clients = setup.task.shards.size.shape[1]
    each = zip(setup.task.seeds, setup.contexts, setup.task.start(), strict=True)
    return [
        first_state(index, seed, start(context), setup.federation, anchor, clients)
        for index, (seed, context, anchor) in enumerate(each)
    ]


def model_of(setup: RunSetup, trial: TrialState) -> Array:
    """The model that is scored and exported."""
    return np.asarray(setup.federation.method.model(trial.anchor, trial.server))


def evaluate(setup: RunSetup, trial: TrialState) -> Steps:
    """The round's scores by split: as often as set, and at the end; {} where none are due."""
    often, over = setup.config.eval_every, trial.status != "running"
    if trial.round % often and not over:
        return {}
    rare, scores = trial.round % (often * OTHERS_EVERY) == 0, dict[str, Json]()
    model = model_of(setup, trial)
    for split in setup.task.evals:
        if split == "holdout" or rare or over:
            (scores[split],) = yield model[None], split
            if setup.score.ranks:
                scores[split] |= ranked(setup, model, split)
    return scores


def end_trial(setup: RunSetup, trial: TrialState, asked: Sequence[Work], scores: dict[str, Json]) -> Steps:
    """Note a reached target, divergence and the best round; score clients' own models where a trial ends."""
    config, holdout = setup.configs[trial.index], scores["holdout"]
    if not np.isfinite(holdout["loss"]):
        trial.status = "diverged"
        return
    value = worth(holdout, setup.score, setup.by_loss)
    if value is not None and (trial.best_score is None or value > trial.best_score):
        trial.best_score, trial.best_round, trial.stale = value, trial.round, 0
    elif value is not None:
        trial.stale += 1
        if 0 < config.stop_after <= trial.stale:
            trial.status = "finished"
    if trial.reached is None and config.target is not None and setup.score.met(holdout, config.target):
        trial.reached = {**trial.seconds, **trial.spent, "rounds": trial.round}
        if config.stop_at_target:
            trial.status = "finished"
    if trial.status == "finished" and setup.own_models:
        # ACC_Ci of the paper (R² of numbers): client i's own model after its steps, on the global splits
        usual, trial.local = score("", setup.data.classes), {}
        (last,) = asked  # also where rounds are computed ahead: that one by itself
        again = yield last._replace(shares=None)
        models = last.models.anchor[last.begin] + again.uploads.delta
        for split in setup.task.evals:
            trial.local[split] = [usual.of(each) for each in (yield models, split)]


def plan_round(setup: RunSetup, trial: TrialState) -> Round:
    """The trial's next round; moves the trial to its end, as far as that is known before it is computed."""
    if setup.whole_rounds[trial.index]:
        this = _whole_cohort(setup, trial)
    else:
        this = next_round(setup, trial, partial(draw_cohort, setup, trial))
    for name, each in setup.costs[trial.index].accounts.items():
        wasted = spent_by(each, this.dropped, came=False).sum() if len(this.dropped) else 0.0
        this.spent[name] = float(spent_by(each, this.jobs).sum() + wasted)
    pass_time(setup, trial, this)
    return this


def pass_time(setup: RunSetup, trial: TrialState, this: Round) -> None:
    """Count a planned round, and see whether the trial ends with it."""
    for name, each in this.spent.items():
        trial.spent[name] = trial.spent.get(name, 0.0) + each
    trial.round += 1
    trial.seconds = {"sum": trial.seconds["sum"] + this.seconds["sum"], "makespan": this.end}
    np.add.at(trial.steps, this.jobs["client"], this.jobs["steps"])
    if is_over(setup, trial):
        trial.status = "finished"


def _whole_cohort(setup: RunSetup, trial: TrialState) -> Round:
    """A cohort that begins from the newest model, and all of it arrives."""
    decision, cohort = decide_now(setup, trial)
    jobs = np.zeros(len(cohort), JOB)
    jobs["client"], jobs["steps"], jobs["lr"] = cohort, decision.steps, decision.lr
    jobs["number"] = jobs["version"] = trial.round
    trial.begun[cohort] += decision.steps
    costs = setup.costs[trial.index]
    took = costs.step_seconds[cohort] * decision.steps + costs.comm_seconds[cohort]
    seconds = {"sum": float(took.sum()), "makespan": float(took.max())}
    end = trial.seconds["makespan"] + seconds["makespan"]
    return Round(jobs, NOBODY, decision, took, seconds, end, trial.round)


def decide_now(setup: RunSetup, trial: TrialState) -> tuple[Decision, Array]:
    """What it would do now with the cohort that is drawn next, and that cohort."""
    allowed = allowance(setup, trial) if setup.mechanism else None
    cohort = draw_cohort(setup, trial, allowed)
    context, allows = setup.contexts[trial.index], None if allowed is None else allowed[cohort]
    return decide(context, trial.memory, trial.round, cohort, allows), cohort


def spent_by(account: Account, jobs: Array, came: bool = True) -> Array:
    """What each of these jobs spends: t steps, the download, and the upload where it came in."""
    who = jobs["client"]
    begun = account.per_step[who] * jobs["steps"] + account.start[who]
    return np.asarray(begun + account.upload[who] if came else begun)


def is_over(setup: RunSetup, trial: TrialState) -> bool:
    """Whether rounds, seconds, another limit or spent privacy end a trial here."""
    seconds, ledger = trial.seconds[setup.configs[trial.index].clock], setup.ledgers[trial.index]
    now = {"rounds": trial.round, "seconds": seconds, **trial.spent}
    for what, most in setup.limits[trial.index].items():
        if now.get(what, 0.0) >= most:
            return True
    return setup.mechanism is not None and ledger.exhausted(ledger.units(trial.begun, trial.round))


def draw_cohort(setup: RunSetup, trial: TrialState, allowed: Array | None = None) -> Array:
    """A whole cohort, in order, of those who may take a step: by seed and round alone, so that a resumed run
    draws the same."""
    if setup.federation.private_clients is not None:
        some = draw_by_chance(setup, trial.seed, trial.round)
        return some if len(some) else np.zeros(1, np.int64)  # one whose work will count nothing
    pool = np.arange(len(trial.steps)) if allowed is None else np.flatnonzero(allowed > 0)
    if setup.cohort >= len(pool):
        return pool
    rng = np.random.default_rng([trial.seed, trial.round, DRAWS])
    return np.sort(rng.choice(pool, setup.cohort, replace=False))


def draw_by_chance(setup: RunSetup, seed: int, version: int) -> Array:
    """A cohort that each client joins with the same chance, independently of the others; it may be empty."""
    assert setup.federation.private_clients is not None
    rng = np.random.default_rng([seed, version, DRAWS])
    coins = rng.random(setup.task.shards.size.shape[1])
    return np.flatnonzero(coins < setup.federation.private_clients.part)[: setup.cohort]


def begin_round(setup: RunSetup, trial: TrialState, this: Round) -> list[Work]:
    """What an engine is to compute. Who has two results begins the second round with what it remembers of the
    first: in a further turn."""
    method, jobs, whole = setup.federation.method, this.jobs, setup.whole_rounds[trial.index]
    clients, turns = jobs["client"], np.zeros(len(jobs), int)
    sent = protocol.sent_state(method, trial.server, trial.anchor)
    models, begin = Models(trial.anchor[None], sent[None], trial.step[None]), turns
    if not whole:
        models, begin = models_of(trial, Models(trial.anchor, sent, trial.step), this)
        if trial.client.size + trial.kept.size:  # how many jobs of the same client are before each
            turns = np.arange(len(jobs)) - np.searchsorted(clients, clients)
    weights = setup.weights[trial.index, clients]
    if setup.federation.private_clients is not None:  # who was not drawn counts nothing
        weights = weights * np.isin(clients, draw_by_chance(setup, trial.seed, this.version))
    this.weights, this.steps = weights.astype(setup.task.dtype), jobs["steps"].astype(setup.task.dtype)
    if not setup.compares_uploads:
        mix = np.asarray(method.mix(setup.weights[trial.index, clients], jobs["steps"]), float)
        this.counted = mix.tolist()
    shares = None  # how much each upload counts, where their sum is all that the server needs
    if not setup.compares_uploads and (whole or (jobs["version"] == this.version).all()):
        shares = np.asarray(method.mix(this.weights, this.steps))
    asked = []
    for turn in range(turns.max() + 1):
        mine, own = (jobs, begin) if whole else (jobs[turns == turn], begin[turns == turn])
        who, rest = mine["client"], (mine["steps"], mine["lr"], mine["number"])
        memory = trial.client[who], trial.kept[who]
        asked.append(Work(trial.index, who, *rest, models, own, *memory, shares))  # type: ignore[call-arg]
    return asked


def end_round(
    setup: RunSetup, trial: TrialState, this: Round, asked: Sequence[Work], found: Sequence[Results]
) -> None:
    """Move the server; changes the trial, and the round that came to this."""
    federation, jobs, clients = setup.federation, this.jobs, this.jobs["client"]
    ages = this.version - jobs["version"]
    for work, results in zip(asked, found, strict=True):
        if results.state.size + results.memory.size:
            trial.client[work.client], trial.kept[work.client] = results.state, results.memory
    order: Any = slice(None)
    if len(asked) > 1:  # further turns back to where the plan has them
        numbers, whose = (
            np.concatenate([getattr(work, name) for work in asked]) for name in ("number", "client")
        )
        order = np.lexsort([numbers, whose])
    fields = found[0].readings.astype(float)
    if len(found) > 1:
        fields = np.concatenate([results.readings for results in found])[order].astype(float)
    reading = Reading(*(fields.T if fields.size else np.zeros((len(Reading._fields), len(jobs)))))
    for judged in (reading.held_loss, reading.spread):
        judged[ages > 0] = np.nan  # of an older model
    total: Upload | None = found[0].uploads
    this.reading, sent = reading, list[Upload]()
    if asked[0].shares is None:
        pairs = [
            pair
            for each in zip(asked, found, strict=True)
            for pair in aged_uploads(setup, trial, this, *each)
        ]
        pairs = [pairs[place] for place in np.arange(len(pairs))[order]]
        total, sent = None, [each for each, _ in pairs]
    moved, trial.server, weighed, history = protocol.settle(
        federation,
        trial.anchor,
        trial.server,
        this.weights,
        this.steps,
        sent,
        total=total,
        attackers=setup.attackers.forging(this.version, trial.index, clients) if federation.attacks else None,
        private=_private(setup, trial, this) if federation.private_clients else None,
        age=float(ages.mean()),
        history=trial.history[clients],
    )
    trial.anchor, trial.step, trial.history[clients] = moved, moved - trial.anchor, history
    if federation.rule and weighed:
        this.weighed = {name: np.asarray(each, float) for name, each in weighed.items()}


def _private(setup: RunSetup, trial: TrialState, this: Round) -> tuple[Number, protocol.Draw]:
    """The largest share of all clients, and the server's own noise, where it keeps whole clients private: a
    hash of seed and round, as all chance is."""

    def noise(size: int) -> Array:
        with np.errstate(over="ignore"):
            places = np.arange(size, dtype=np.uint32)
            drawn = sampling.noise_of_round(sampling.words(trial.seed), sampling.words(this.version), places)
        return np.asarray(drawn, setup.task.dtype)

    return setup.weights[trial.index].max().astype(setup.task.dtype), noise


def follow_verdict(setup: RunSetup, trial: TrialState, verdict: int) -> None:
    """The trial after the judge's verdict on its last round."""
    before = trial.anchor
    trial.anchor, trial.server = setup.federation.method.revise(trial.anchor, trial.server, verdict)
    trial.step = trial.step + (trial.anchor - before)


def round_record(setup: RunSetup, trial: TrialState, this: Round, scores: dict[str, Json]) -> RoundRecord:
    """The round as its record has it; how long it took on this machine is said by who knows."""
    index, jobs, costs = trial.index, this.jobs, setup.costs[trial.index]
    clients, steps, ages = jobs["client"], jobs["steps"], this.version - jobs["version"]
    timeline: Json = {}
    if not setup.whole_rounds[index]:  # when each worked, how old its model was, and whose work was not used
        lost = zip(*(this.dropped[name].tolist() for name in ("client", "started", "arrives")), strict=True)
        timeline = {"staleness": ages.tolist(), "dropped": [*map(list, lost)]}
        timeline |= {"started": jobs["started"].tolist(), "arrived": jobs["arrives"].tolist()}
    explained = this.decision.explain | {"client_seconds": this.took.tolist()}
    if setup.judges:
        judge = trial.memory.judge
        explained |= {"held_loss": judge.held_loss, "verdict": Verdict(judge.verdict).name.lower()}
    if "joules" in this.spent:
        explained["client_joules"] = spent_by(costs.accounts["joules"], jobs).tolist()
    weighed, ledger, counted = this.weighed, setup.ledgers[index], [*this.counted]
    if ages.any() and counted:
        counted = [share * setup.end.weight(age) for share, age in zip(counted, ages.tolist(), strict=True)]
    if weighed:  # how much each counts by what it claims, and after each link of the rule
        shares = setup.weights[index, clients]
        weighed = {"claimed": shares / np.sum(shares), **weighed}
    read = this.reading is not None and this.reading.grad_sq.any()  # all zero when none were taken
    return RoundRecord(
        round=trial.round,
        seconds=trial.seconds,
        round_seconds=this.seconds,
        predicted_seconds=float(this.decision.predicted_seconds),
        metrics=scores,
        cohort=clients.tolist(),
        steps=steps.tolist(),
        lr=float(np.mean(this.decision.lr)),
        bytes_up=setup.work.bytes_up * len(jobs),
        bytes_down=setup.work.bytes_down * (len(jobs) + len(this.dropped)),
        readings=_known(this.reading._asdict()) if read else {},
        plan=explained,
        mix=counted,
        weighed=_known(weighed) if weighed else {},
        joules=this.spent.get("joules"),
        epsilon=ledger.bounds(ledger.units(trial.begun, trial.round)) if setup.mechanism else [],
        wall={},
        **timeline,
    )


def _known(columns: dict[str, Array]) -> dict[str, list[float | None]]:
    """As JSON has them: None where a client has no such number."""
    known = {name: column.tolist() for name, column in columns.items()}
    for name, here in zip(columns, np.isfinite([*columns.values()]), strict=True):
        if not here.all():
            known[name] = [each if fine else None for each, fine in zip(known[name], here, strict=True)]
    return known
