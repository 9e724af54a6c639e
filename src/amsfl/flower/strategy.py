"""AMSFL as a Flower Strategy: a wrapper around any other one that plans every node's local steps.

    strategy = AMSFL(lr=0.1)                                  # FedAvg inside
    strategy = AMSFL(FedProx(proximal_mu=0.1), lr=0.1)        # FedMedian, Krum, DP wrappers, ... likewise
    result = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=30)

A client reads `config["local-steps"]` and `config["lr"]` and replies as to FedAvg: arrays, and a MetricRecord
with `num-examples`. It may say more, and what it says is taken out again before anybody averages it
(docs/protocol.md): `train-seconds`, `local-steps`, `fading`, `held-loss`, `output-spread`.

This file is the server's side of an order, from the plan to the average; client.py is the site's.
"""

import math
import uuid
from collections.abc import Callable, Iterable, Sequence
from logging import INFO, WARNING
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import FedAvg, Strategy
from flwr.supercore import log

from amsfl import planning
from amsfl.core import Reading, UserError, Verdict
from amsfl.core.algorithm import NUMBERS
from amsfl.core.records import Json
from amsfl.flower.arrays import Part, changed, difference, like, norm, size_of, wrong_form
from amsfl.flower.client import LONGEST_TEXT
from amsfl.flower.nodes import Nodes, mixed
from amsfl.flower.round_grid import RoundGrid
from amsfl.flower.rounds import Rounds
from amsfl.flower.site_policy import SPENT
from amsfl.record import RoundRecord

KEPT = 20  # rounds whose late replies can still be used
SAID = ("train-seconds", "local-steps", "fading", "held-loss", "output-spread", "epsilon")  # to us
MOST_METRICS = 1_000  # numbers of a reply besides its arrays
SECAGG = (  # tried with 1.41 and 1.42: Flower's own FedAvg ends there with no arrays at all
    "SecAgg+ is of Flower's old workflows, for which no Strategy of its message API is made: take its mod "
    "out of the ClientApp, and begin by strategy.start(grid, ...) in @app.main()."
)
LARGEST = 1e9  # of a number that a node says of its training


class Sent(NamedTuple):
    """A round that was sent out."""

    round: int
    anchor: ArrayRecord  # where its nodes begin
    steps: dict[int, int]  # by node
    lr: float
    at: float


class Taken(NamedTuple):
    """A reply that may be used, without what its node said for us alone."""

    message: Message
    sent: Sent
    change: dict[str, Part]  # of its float arrays, as doubles
    steps: int
    seconds: float  # from the order to the reply
    said: dict[str, float]  # what it said besides, as far as it can be believed
    notes: tuple[str, ...]

    @property
    def node(self) -> int:
        return self.message.metadata.src_node_id

    @property
    def metrics(self) -> MetricRecord:
        return next(iter(self.message.content.metric_records.values()))

    @property
    def size(self) -> float:
        return norm(self.change) / (self.sent.lr * math.sqrt(self.steps))


class AMSFL(Rounds):
    """Local steps by what a second is worth; Nesterov's momentum, cooling and a judge at the server.

    Args:
        strategy: Who samples, averages and evaluates. None: FedAvg, with those of `settings` that are its
            own.
        lr: Of the clients, in the first round.
        steps: Of every node in every round; None: planned.
        momentum: The server's most look-ahead.
        balance: The power of its steps by which a node's change is shortened: 0 as in FedAvg, 1 as in
            FedNova.
        cooling: Whether lr falls to a tenth over the run.
        judge: Whether to go back to the best arrays where held-back rows say so.
        policy: Who plans, by its name or as an object.
        batch_size: Of the clients: limits passes over their rows, and is sent to them.
        limit: Times its usual size at which a change is refused.
        seconds: After which no further round begins.
        out: A folder for the run's record.
        resume: Whether to go on with the run that `out` holds.
        force: Whether to replace it.
        stop: Called with every round; the run ends when it says so.
        settings: FedAvg's.
    """

    kept_arrays: tuple[str, ...] = ("model", "before", "anchor", "best", "first", "step")
    kept_numbers = ("round", "moves", "age", "scale", "overhead", "elapsed", "totals", "epsilon", "run")

    def __init__(
        self,
        strategy: Strategy | None = None,
        *,
        lr: float = 0.1,
        steps: int | None = None,
        momentum: float = NUMBERS.momentum,
        balance: float = NUMBERS.balance,
        cooling: bool = True,
        judge: bool = True,
        policy: str | planning.Policy = "price",
        batch_size: int = 32,
        limit: float = 10.0,
        seconds: float | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        force: bool = False,
        stop: Callable[[RoundRecord], bool] = lambda record: False,
        **settings: Any,
    ):
        if strategy is not None and settings:
            raise UserError(f"Give {', '.join(settings)} to {type(strategy).__name__}, which is inside.")
        chosen = planning.policy(policy) if isinstance(policy, str) else policy
        inside, nodes = FedAvg(**settings) if strategy is None else strategy, Nodes(chosen, batch_size, limit)
        private = check_composes(inside, momentum)
        super().__init__(inside, nodes)
        self.seconds, self.out, self.resume, self.force, self.stop = seconds, out, resume, force, stop
        self.lr, self.steps, self.momentum, self.balance = lr, steps, momentum, balance
        self.cooling, self.judging, self.read = cooling, judge, not private
        # x, the x before, what is sent, ...
        self.model = self.before = self.anchor = self.best = self.first = None
        self.step: ArrayRecord | None = None  # how the anchor moved last
        self.round = self.moves = 0  # rounds sent; moves since the start, or since it went back
        self.scale, self.overhead, self.longest = 1.0, 0.0, 0.0
        self.age = 0.0  # of the last round's work on average: late work is a momentum itself
        self.sent: dict[str, Sent] = {}
        self.run = uuid.uuid4().hex[:16]  # its name: the same when a killed server goes on
        self.private_steps = 0  # of a node in a run
        self.taken: list[Taken] = []  # the last round's

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Plan: to each node how many steps, at which rate, from where."""
        rounds = self.ended_by(grid)
        now = rounds.now()
        self.began = now - self.elapsed if math.isnan(self.began) else self.began
        if self.longest:  # polling, averaging, evaluation: what a round takes besides its slowest node
            spent = max(now - self.sent[str(self.round)].at - self.longest, 0.0)
            self.overhead = mixed(self.overhead, spent, NUMBERS.memory if self.overhead else 0.0)
        self._look_ahead(arrays)
        messages = list(self.strategy.configure_train(server_round, self.anchor, config, grid))
        messages = [each for each in messages if each.metadata.dst_node_id not in self.spent]
        ids, lr = [each.metadata.dst_node_id for each in messages], self._rate(now)
        asked = self._planned(ids, lr, rounds)
        self.round += 1
        for message in messages:  # FedAvg's share one content: each gets its own, of the same arrays
            content = RecordDict(dict(message.content))
            key, given = next(iter(content.config_records.items()))
            node = message.metadata.dst_node_id
            mine: dict[str, Any] = {"local-steps": asked[node], "lr": lr, "run": self.run}
            mine["batch-size"] = self.nodes.batch
            if self.private_steps:
                mine["privacy-begun"] = self.nodes.each[node].taken > 0
            content[key] = ConfigRecord(dict(given) | mine)
            message.content = content
            message.metadata.group_id = str(self.round)  # a reply has it, too
        predicted = self._predicted(asked, rounds)
        self.sent[str(self.round)] = Sent(self.round, self.anchor, asked, lr, rounds.now())
        self.sent.pop(str(self.round - KEPT), None)
        entry: Json = {"steps": asked, "lr": lr, "predicted": predicted, "refused": {}, "notes": []}
        self.log.append(entry | {"down": size_of(self.anchor) * len(messages), "up": 0})
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Check, learn, average (that is the strategy's inside), judge."""
        every = list(replies)
        self.taken = taken = self._checked([each for each in every if each.has_content()])
        self._learn(taken)
        self._prepare(taken)
        failed = [each for each in every if each.has_error()]
        for each in failed:
            if "secaggplus_configs" in each.error.reason:
                raise UserError(SECAGG)
            self._refuse(each.metadata.src_node_id, f"failed: {each.error.reason}")
        usable = [*(each.message for each in taken), *failed]
        arrays, metrics = self.strategy.aggregate_train(server_round, usable)
        return self._judge(taken, arrays), metrics

    def _rate(self, now: float) -> float:
        """The clients' learning rate of this round."""
        over = self.round / self.num_rounds if self.num_rounds else 0.0
        if self.seconds is not None:
            over = max(over, (now - self.began) / self.seconds)
        return self.lr * self.scale * (max(1 - over, NUMBERS.least) if self.cooling else 1.0)

    def _planned(self, ids: Sequence[int], lr: float, grid: RoundGrid) -> dict[int, int]:
        """How many steps each takes: all together, or each by itself where nobody waits for the others."""
        self.nodes.places(ids)
        steps: dict[int, int] = dict.fromkeys(ids, self.steps or 0)
        if not self.steps:
            stale = grid.weight if grid.overlaps else None
            for group in [[node] for node in ids] if grid.overlaps else [ids]:
                steps |= zip(group, self.nodes.plan(group, lr, self.overhead, stale).tolist(), strict=True)
        return {node: self._allowed(node, count) for node, count in steps.items()}

    def _predicted(self, steps: dict[int, int], grid: RoundGrid) -> float:
        """Seconds that the slowest takes of those who begin now."""
        begin = [node for node in steps if node not in grid.busy]
        predicted = self.nodes.seconds(begin, np.array([steps[node] for node in begin]))
        grid.predicted = predicted if math.isfinite(predicted) else None
        return predicted

    def _allowed(self, node: int, steps: int) -> int:
        """Under privacy what a run may ask of a node is spread over its rounds; what one leaves is for the
        next."""
        if not self.private_steps:
            return steps
        due = math.ceil(self.private_steps * (self.round + 1) / max(self.num_rounds or 1, self.round + 1))
        return max(min(steps, due - self.nodes.each[node].done), 1)

    def _look_ahead(self, arrays: ArrayRecord) -> None:
        """Clients begin beyond the model x, at a = x + m (x - x before); x itself is scored and delivered."""
        if self.first is None:
            self.first = arrays
        if arrays is not self.model:
            self.before, self.model = self.model, arrays
            self.moves += self.before is not None
        old, self.anchor = self.anchor, arrays
        m = min(self.moves / (self.moves + NUMBERS.delay), 1 - (1 - self.momentum) * (1 + self.age))
        if m > 0 and self.before is not None:
            self.anchor = changed(arrays, difference(arrays, self.before), m)
        if old is not None and self.read:
            self.step = ArrayRecord({key: Array(part) for key, part in difference(self.anchor, old).items()})

    def _checked(self, replies: Sequence[Message]) -> list[Taken]:
        """Those that may be used, each node's once."""
        taken: dict[str, Taken] = {}  # by the message that it answers
        now, pushed = self.grid.now(), self.grid.pushed
        for message in replies:
            about = message.metadata
            node, key, sent = about.src_node_id, about.reply_to_message_id, self.sent.get(about.group_id)
            if sent is None or key in taken:
                why = "a reply to no round that is remembered" if sent is None else "a second reply"
                self._refuse(node, why)
                continue
            sent = sent._replace(at=pushed.get(key, sent.at))  # of an order that was repeated, later
            self.log[-1]["up"] += sum(map(size_of, message.content.array_records.values()))
            seconds = min(max(about.created_at - sent.at, 1e-6), max(now - sent.at, 1e-6))
            said = read(message, sent, self.weight_key, seconds)
            if isinstance(said, str):
                self._refuse(node, said)
                continue
            taken[key] = said
            self.log[-1]["notes"] += [f"node {node}: {note}" for note in said.notes]
        sizes = {key: (each.node, each.size) for key, each in taken.items()}
        wrong = self.nodes.oversized(sizes, self.round) if self.read else {}
        for key, why in wrong.items():
            self._refuse(taken.pop(key).node, why)
        return sorted(taken.values(), key=lambda each: (each.node, each.sent.round))

    def _refuse(self, node: int, why: str) -> None:
        if SPENT in why:  # it is asked no more
            self.spent.add(node)
        why = "".join(sign if sign.isprintable() else " " for sign in why[:LONGEST_TEXT])
        log(WARNING, "AMSFL: refused node %s: %s", node, why)
        self.log[-1]["refused"][node] = why

    def _learn(self, taken: Sequence[Taken]) -> None:
        """Rows, seconds, gains and fadings."""
        ids, least = [each.node for each in taken], min((each.seconds for each in taken), default=0.0)
        self.nodes.places(ids)
        for each in taken:
            node = self.nodes.each[each.node]
            node.rows, node.size, node.taken = float(each.metrics[self.weight_key]), each.size, self.round
            node.done += each.steps
            node.time(each.steps, each.seconds, each.said.get("train-seconds"), least)
        self.longest = max((each.seconds for each in taken), default=0.0)
        if self.read and taken:
            steps, lr = np.array([each.steps for each in taken]), np.array([each.sent.lr for each in taken])
            self.nodes.learn(ids, steps, lr, self._reading(taken))

    def _reading(self, taken: Sequence[Taken]) -> Reading:
        """What replies say of their steps and of the anchor, one array a field."""
        step = {} if self.step is None else {key: each.numpy() for key, each in self.step.items()}
        ways = [sum(float(np.vdot(each.change[key], part)) for key, part in step.items()) for each in taken]
        squares = [norm(each.change) ** 2 for each in taken]

        def said(name: str) -> Any:
            return np.array([each.said.get(name, math.nan) for each in taken])

        kept = np.exp(-said("fading") * np.array([each.steps * each.sent.lr for each in taken]))
        nothing = np.zeros(len(taken))
        held = {"held_loss": said("held-loss"), "spread": said("output-spread")}
        moved = {"delta_sq": np.array(squares), "delta_dir": np.array(ways)}
        return Reading(nothing, nothing + 1, kept - 1, nothing, **held, **moved)

    def _prepare(self, taken: Sequence[Taken]) -> None:
        """Replies as the strategy inside averages them: changes of unequal steps shortened, late ones from
        where clients begin now and damped by their age, rows as far as they are believed, metrics that all
        have."""
        rows = self.nodes.rows([each.node for each in taken])
        powers = np.array([each.steps**self.balance for each in taken], float)
        level = float(rows @ powers / rows.sum()) if taken else 1.0
        common = set.intersection(*(set(each.metrics) for each in taken)) if taken else set()
        for each, believed, power in zip(taken, rows, powers, strict=True):
            if believed < float(each.metrics[self.weight_key]):  # type: ignore[arg-type]
                self.log[-1]["notes"].append(f"node {each.node}: its rows count as {believed:.0f}")
                each.metrics[self.weight_key] = float(believed)
            for key in set(each.metrics) - common:
                del each.metrics[key]
            age = self.round - each.sent.round
            factor = level / power * (self.grid.weight(age) if age else 1.0)
            if factor != 1 or age:
                name, came = next(iter(each.message.content.array_records.items()))
                begun = {key: self.anchor[key] if key in each.change else part for key, part in came.items()}  # type: ignore[index]
                each.message.content[name] = changed(ArrayRecord(begun), each.change, factor)
        now = self.sent[str(self.round)]
        ages = [self.round - each.sent.round for each in taken]
        weights = [self.grid.weight(age) for age in ages]
        arrived = max((each.sent.at + each.seconds for each in taken), default=self.grid.now())
        everybody = {each.node for each in taken} >= now.steps.keys()
        self.age = float(np.mean(ages)) if ages else self.age
        self.log[-1] |= {
            "took": max((arrived if everybody else self.grid.now()) - now.at, 0.0),
            "mix": [float(part) for part in rows / rows.sum() * np.array(weights)] if taken else [],
            "nodes": [each.node for each in taken],
            "done": [each.steps for each in taken],
            "seconds": [each.seconds for each in taken],
            "step_seconds": [self.nodes.each[each.node].step_seconds for each in taken],
            "age": ages,
            "epsilon": {each.node: each.said["epsilon"] for each in taken if "epsilon" in each.said},
        }

    def _judge(self, taken: Sequence[Taken], arrays: ArrayRecord | None) -> ArrayRecord | None:
        """The arrays that were made, or those to go back to."""
        arrays = None if arrays is None or self.first is None else like(arrays, self.first)
        whole = arrays is None or all(np.isfinite(each.numpy()).all() for each in arrays.values())
        now = [each for each in taken if each.sent.round == self.round]
        if not (self.judging and self.read and now) and whole:
            return arrays
        reading = self._reading(now)
        if not whole:
            reading = reading._replace(loss=reading.loss * math.nan)
        judge = self.nodes.judged([each.node for each in now], reading)
        self.scale *= judge.factor
        self.log[-1] |= {"verdict": Verdict(judge.verdict).name.lower(), "passes": judge.passes}
        self.log[-1]["held_loss"] = judge.held_loss
        if judge.verdict == Verdict.BETTER:
            self.best = self.anchor
        if judge.verdict not in (Verdict.BACK, Verdict.RESTART):
            return arrays
        log(WARNING, "AMSFL: back to the best arrays; lr is now %g", self.lr * self.scale)
        if judge.verdict == Verdict.RESTART or self.best is None:
            self.best = self.first
        self.model = self.before = None
        self.moves = 0
        for inside in chain(self.strategy):
            for name in ("current_arrays", "momentum_vector", "m_t", "v_t"):
                if getattr(inside, name, None) is not None:
                    setattr(inside, name, None)
        return self.best

    @property
    def weight_key(self) -> str:
        """The metric that says how much a node counts."""
        names = (getattr(each, "weighted_by_key", None) for each in chain(self.strategy))
        return next((name for name in names if name), "num-examples")

    def initialize_parameters(self, **_: Any) -> None:
        """What Flower's old workflows ask for first."""
        raise UserError(SECAGG)

    def summary(self) -> None:
        plan = f"{self.steps} steps" if self.steps else "planned steps"
        log(INFO, "\t├──> AMSFL: lr %g, %s, momentum %g", self.lr, plan, self.momentum)
        self.strategy.summary()


def read(message: Message, sent: Sent, weight_key: str, seconds: float) -> Taken | str:
    """What a reply says, or why nothing of it can be used."""
    content, node = message.content, message.metadata.src_node_id
    if node not in sent.steps:
        return "a reply of a node that was not asked"
    if len(content.array_records) != 1 or len(content.metric_records) != 1:
        return "a reply has one ArrayRecord and one MetricRecord"
    arrays, metrics = (next(iter(each.values())) for each in (content.array_records, content.metric_records))
    if len(metrics) > MOST_METRICS:
        return f"{len(metrics)} metrics, and {MOST_METRICS:,} are taken at most"
    rows = metrics.get(weight_key)
    if not isinstance(rows, int | float) or not 0 < rows < math.inf:
        return f"{weight_key} is {str(rows)[:40]}, and should be a number above 0"
    if why := wrong_form(arrays, sent.anchor):
        return why
    with np.errstate(all="ignore"):
        change = difference(arrays, sent.anchor)
    for name, part in change.items():
        if not np.isfinite(part).all():
            return f"not finite: {name[:60]} holds {int((~np.isfinite(part)).sum())} NaN or infinite numbers"
    claims = {key: metrics.pop(key) for key in SAID if key in metrics}
    said = {key: float(value) for key, value in claims.items() if _good(key, value)}
    odd = claims.keys() - said
    notes = [f"{key} is {str(claims[key])[:40]}, which is not believed" for key in odd]
    asked = sent.steps[node]
    steps = int(said.pop("local-steps", asked))
    if not 1 <= steps <= asked:
        return f"{steps} steps were run, and {asked} were asked for"
    if said.get("train-seconds", 0.0) > seconds:
        claim = said.pop("train-seconds")
        notes.append(f"train-seconds is {claim:.3g}, and the whole reply took {seconds:.3g}")
    return Taken(message, sent, change, steps, seconds, said, tuple(notes))


def _good(key: str, value: object) -> bool:
    if not isinstance(value, int | float) or not math.isfinite(value):
        return False
    return abs(value) <= LARGEST and (value > 0 or key not in ("train-seconds", "local-steps", "fading"))


def chain(strategy: Strategy) -> Iterable[Strategy]:
    """A strategy and those inside of it."""
    inside: Any = strategy
    while inside is not None:
        yield inside
        inside = getattr(inside, "strategy", None)


def check_composes(strategy: Strategy, momentum: float) -> bool:
    """Whether the strategy keeps single changes private; a UserError where it cannot be inside of AMSFL."""
    private = False
    for each in chain(strategy):
        name = type(each).__name__
        if isinstance(each, AMSFL):
            raise UserError("AMSFL is inside of AMSFL: leave one of them out.")
        if isinstance(each, flower.QFedAvg):
            raise UserError("QFedAvg weighs clients by losses that it asks for itself: leave AMSFL out.")
        if isinstance(each, flower.FedXgbBagging | flower.FedXgbCyclic):
            raise UserError(f"{name} collects trees, which have no local steps: leave AMSFL out.")
        own = any(getattr(each, part, False) for part in ("server_momentum", "beta_1", "server_opt"))
        if own and momentum:
            write = f"write AMSFL({name}(...), momentum=0)"
            raise UserError(f"{name} moves the server by itself, and two momenta multiply: {write}.")
        private |= name.startswith("DifferentialPrivacy")
    return private
