"""The round on real clients: plan -> orders out, replies in -> aggregate -> observe -> record.

The same methods, planners and record as in simulation; time is measured instead of virtual. Nothing a
client does ends the run: who is late, gone or wrong is left out of the round, with a reason on record.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import MessageType
from flwr.serverapp import Grid

from amsfl import protocol
from amsfl.core import Reading, UserError
from amsfl.federation import ServeConfig
from amsfl.federation.planner import Decision, Planner, planner, policy_of
from amsfl.federation.rounds import counted
from amsfl.federation.setup import Own, method_of, takes_readings
from amsfl.flower import wire
from amsfl.flower.server import checks, costs, late, progress, roster, scoring
from amsfl.flower.server.accept import Good, combine, judge, oversized
from amsfl.flower.server.door import Door
from amsfl.flower.server.explain import explain
from amsfl.flower.server.orders import Desk, predicted
from amsfl.flower.server.post import Post
from amsfl.flower.server.progress import Progress
from amsfl.record import RoundRecord, RunWriter, check_free, create, dumps, reopen

Evaluate = Callable[[wire.Vector, wire.Buffers], dict[str, dict[str, Any]]]
Watch = Callable[[RoundRecord], None]
Tell = Callable[[str], None]


class Server:
    """One run over a Grid: `Server(grid, config).run()`.

    `evaluate(params, buffers)` scores the model on the server; `start` is the first model, asked of a
    client if None; `plan_by(weights)` replaces the planner that the settings name; `own` has what of the
    settings is an object and no name. `watch` sees every round's record, `tell` hears at once of whatever
    goes wrong at a client. With `force`, a run that `out` holds is replaced.
    """

    def __init__(
        self,
        grid: Grid,
        config: ServeConfig,
        evaluate: Evaluate | None = None,
        start: wire.Vector | None = None,
        plan_by: Callable[[Any], Planner] | None = None,
        out: Path | None = None,
        watch: Watch | None = None,
        own: Own | None = None,
        tell: Tell | None = None,
        force: bool = False,
    ):
        self.config = config
        self.evaluate, self.start, self.out, self.watch, self.tell = evaluate, start, out, watch, tell
        self.names: list[str] = []
        self.force = force
        own = own or Own()
        self.method = method_of(config, own)
        policy = policy_of(config, self.method, own.policy)
        self.desk = Desk(config, self.method, takes_readings(config, self.method, policy))
        self.post = Post(grid, self.config.poll)
        self.door = Door(
            self.post, config.clients, config.seed, self.config.patience, self.config.keyed, self._trouble
        )
        self.writer: RunWriter | None = None
        self.plan_for = plan_by or (lambda weights: planner(config, self.method, policy, weights))

    def run(self, resume: bool = False) -> tuple[Progress, list[RoundRecord]]:
        """All rounds, until rounds, seconds or target say stop."""
        with ExitStack() as stack:
            stand, records = self._begin(resume, stack)
            self._work(stand, records)
        return stand, records

    def _work(self, stand: Progress, records: list[RoundRecord]) -> None:
        began, last_good = self.post.now() - stand.elapsed, self.post.now()
        while stand.status == "running":
            record = self._round(stand, began)
            if record is None:
                if self.post.now() - last_good > self.config.patience:
                    stand.status = "abandoned"
                self.post.sleep(self.config.poll)
                continue
            last_good = self.post.now()
            records.append(record)
            if self.writer:
                self.writer.append(record)
                progress.save(self.writer, stand)
            if self.watch:
                self.watch(record)
        if self.writer:
            self.writer.end(progress.summary(self.config, stand, records, self.method.note))
        if stand.status == "abandoned":
            raise UserError(
                f"No good reply came for {self.config.patience:g} seconds after round {stand.round}"
                + (f" ({self.door.refused[0]['reason']})" if self.door.refused else "")
                + "; the record is kept: look at the SuperNodes, then run again with resume."
            )

    def _trouble(self, item: dict[str, Any]) -> None:
        """A refusal, said and written at once: the round that it belongs to may never end."""
        place = item["client"]
        name = self.names[place] if place is not None and place < len(self.names) else None
        if self.writer:
            with (self.writer.where / progress.TROUBLE).open("a", encoding="utf-8") as file:
                file.write(dumps({**item, "name": name}) + "\n")
        if self.tell:
            who = "somebody" if place is None else f"client {place}"
            named = "" if name in (None, str(place)) else f" ({name})"
            self.tell(f"  refused {who}{named}: {item['reason']}")

    def _begin(self, resume: bool, stack: ExitStack) -> tuple[Progress, list[RoundRecord]]:
        stand, records = None, list[RoundRecord]()
        if self.out and resume:
            self.writer = stack.enter_context(reopen(self.out, "flower"))
            stand, records = progress.load(self.writer)
        elif self.out:
            check_free(self.out, self.force)
        if stand is None:
            stand = self._fresh()
            if self.out and not resume:
                described = progress.manifest(self.config, stand, self.method)
                self.writer = stack.enter_context(create(self.out, described, self.force))
            return stand, records
        self.names = [seat.name for seat in stand.seats]
        self.planner = self.plan_for(roster.weights(stand.seats))
        stand.status = "finished" if stand.round >= self.config.last_round else "running"
        if self.writer:
            self.writer.change(self.config.model_dump(), {}, stand.round)
            self.writer.reopen_end()
        if stand.status == "running":
            self.door.regather(stand.seats)
        return stand, records

    def _fresh(self) -> Progress:
        seats = self.door.gather()
        self.names = [seat.name for seat in seats]
        anchor, buffers = (self.start, {}) if self.start is not None else self.door.first_model(seats)
        anchor = np.ascontiguousarray(anchor, np.float32)
        server = np.asarray(self.method.init(anchor)[0], np.float32)
        self.planner, measured = self.plan_for(roster.weights(seats)), costs.start(len(seats))
        memory = self.planner.start()
        stand = Progress(anchor, server, 0 * anchor, buffers, seats, memory, measured, self.config.seed)
        stand.steps = [0] * len(seats)
        return stand

    def _round(self, stand: Progress, began: float) -> RoundRecord | None:
        """One round; None when nobody was there or nobody's work could be taken: then it is tried again."""
        started, config = self.post.now(), self.config
        cohort = roster.draw(
            stand.seats, self.door.meet(stand.seats), config.cohort, config.seed, stand.round
        )
        self._hear_late(stand)
        if not len(cohort):
            return None
        expected = costs.costs(stand.measured)
        planned = self.planner.decide(stand.memory, stand.round, cohort, expected)
        decision = predicted(planned, cohort, expected)
        model = wire.Model(stand.anchor, stand.server, stand.step, stand.buffers)
        known = any(stand.measured.rest)
        deadline = self.desk.deadline(float(decision.predicted_seconds) if known else None)
        decision, within = self.desk.fitted(stand, decision, cohort, expected, deadline)
        orders = [
            self.desk.order(stand, int(who), int(steps), seconds, decision.lr)
            for who, steps, seconds in zip(cohort, decision.steps, within, strict=True)
        ]
        pushed = self.post.now()
        sent = self.desk.sent(model)
        letters = [(stand.seats[o.client].node, o, wire.pack_order(o, sent)) for o in orders]
        ids = self.post.send(MessageType.TRAIN, letters, self.desk.lifetime(deadline))
        good = self._collect(stand, ids, orders, model, deadline)
        self._hear_late(stand)
        if not good:
            return None
        # a full round ends with its last reply, one that somebody missed when the server stopped waiting
        over = max(item.at for item in good) if len(good) == len(cohort) else self.post.now()
        kept = [list(cohort).index(item.place) for item in good]
        taken = decision._replace(steps=np.array([item.reply.steps for item in good]))
        reading = self._learn(stand, model, cohort[kept], taken, good)
        spent = {"sum": float(sum(item.seconds for item in good)), "makespan": float(over - pushed)}
        stand.seconds = {key: stand.seconds[key] + spent[key] for key in spent}
        metrics = self._scores(stand, began)
        sizes = [protocol.weight(part) for item in good for part in item.reply.parts.values()]
        down = 4.0 * (sent.anchor.size + sent.server.size + sent.direction.size) * len(cohort)
        record = RoundRecord(
            stand.round,
            dict(stand.seconds),
            spent,
            float(decision.predicted_seconds),
            metrics,
            [item.place for item in good],
            [item.reply.steps for item in good],
            decision.lr,
            float(sum(sizes)),
            float(down),
            {name: column.tolist() for name, column in reading._asdict().items() if self.desk.readings},
            self._explained(explain(decision, cohort, kept, good, expected)),
            {"seconds": self.post.now() - started, "elapsed": stand.elapsed},
            counted(self.method, roster.weights(stand.seats)[cohort[kept]], taken.steps),
        )
        self.door.refused, self.door.notes = [], []
        return record

    def _explained(self, own: dict[str, Any]) -> dict[str, Any]:
        return own | {"refused": list(self.door.refused), "notes": list(self.door.notes)}

    def _collect(
        self, stand: Progress, ids: set[str], orders: list[wire.Order], model: wire.Model, deadline: float
    ) -> list[Good]:
        """Replies of this round that pass every check, in seat order."""
        found: list[Good] = []
        for arrival in self.post.collect(ids, deadline, self.config.quorum):
            order = arrival.sent.order
            if order is None or not any(order is ours for ours in orders):
                self.door.stray(stand.seats, arrival)
                continue
            verdict = judge(self.method, order, model, arrival)
            if isinstance(verdict, str):
                self.door.refuse(order.client, verdict)
            else:
                found.append(verdict)
        for sent in [self.post.waiting[key] for key in ids & self.post.waiting.keys()]:
            assert sent.order is not None
            gone = "gone" if sent.node not in self.post.nodes() else "late"
            self.door.refuse(sent.order.client, f"{gone}: no reply within {self.post.now() - sent.at:.1f} s")
        wild = oversized(found, model, stand.sizes, self.config.norm_limit)
        for place, why in wild.items():
            self.door.refuse(place, why)
        return sorted((item for item in found if item.place not in wild), key=lambda item: item.place)

    def _hear_late(self, stand: Progress) -> None:
        """What late replies say of their clients' costs: who was late is planned to make it."""
        for arrival in self.door.late:
            stand.measured = late.learn(stand.measured, arrival, self.config.poll)
        self.door.late = []

    def _learn(
        self, stand: Progress, model: wire.Model, who: Any, taken: Decision, good: list[Good]
    ) -> Reading:
        """All that one round's good replies change."""
        shares = roster.weights(stand.seats)[who]
        stand.anchor, stand.server, stand.buffers = combine(self.method, model, good, shares, taken.steps)
        stand.step = stand.anchor - model.anchor
        columns = zip(*(item.reply.reading for item in good), strict=True)
        reading = Reading(*(np.array(column, float) for column in columns))
        stand.memory = self.planner.learn(stand.memory, who, taken, reading)
        for item in good:
            reply = item.reply
            stand.measured = costs.observe(
                stand.measured, item.place, reply.steps, reply.step_seconds, item.seconds, self.config.poll
            )
            stand.seats[item.place] = stand.seats[item.place]._replace(accepted=stand.round)
            stand.steps[item.place] += reply.steps
            if reply.lost_state:
                self.door.notes.append(f"client {item.place} had lost its state and began anew")
        for part in stand.sizes:
            sizes = [item.size(part) for item in good if item.lr is not None]
            stand.sizes[part] = checks.remember(stand.sizes[part], sizes)
        stand.refused += len(self.door.refused)
        stand.round += 1
        return reading

    def _scores(self, stand: Progress, began: float) -> dict[str, dict[str, Any]]:
        """Metrics where they are due, and what follows from them and from the time: whether to stop."""
        config = self.config
        over = stand.round >= config.last_round
        over |= config.seconds is not None and self.post.now() - began >= config.seconds
        metrics: dict[str, dict[str, Any]] = {}
        if self.evaluate and (over or stand.round % config.eval_every == 0):
            scores = self.evaluate(self.method.model(stand.anchor, stand.server), stand.buffers)
            metrics |= scoring.checked(scores)
        if self.config.evaluate_clients and (over or stand.round % self.config.evaluate_clients == 0):
            scored = self.method.model(stand.anchor, stand.server)
            quorum = self.config.evaluate_quorum
            metrics |= scoring.ask(self.post, self.door, self.desk, stand, scored, quorum)
        stand.elapsed = self.post.now() - began
        accuracy = progress.deciding_split(metrics).get("accuracy")
        if config.target is not None and accuracy is not None and accuracy >= config.target:
            reached = {**stand.seconds, "elapsed": stand.elapsed, "rounds": stand.round}
            stand.reached = stand.reached or reached
            over |= config.stop_at_target
        stand.status = "finished" if over else "running"
        if not np.isfinite(stand.anchor).all():
            stand.status = "diverged"
        return metrics
