"""The round on real clients: plan -> orders out, replies in -> aggregate -> observe -> record.

The same methods, planners and record as in simulation; time is measured instead of virtual. Nothing a
client does ends the run: who is late, gone or wrong is left out of the round, with a reason on record.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from flwr.serverapp import Grid

from amsfl import methods, protocol
from amsfl.clock import staleness
from amsfl.core import UserError
from amsfl.flower import messages
from amsfl.flower.server import best_model, client_scores, clients, costs, state
from amsfl.flower.server.async_rounds import Aloft
from amsfl.flower.server.orders import Desk
from amsfl.flower.server.plan_text import explain
from amsfl.flower.server.privacy_budget import Purse
from amsfl.flower.server.registration import Door
from amsfl.flower.server.replies import FAILED, effective
from amsfl.flower.server.spending import Meter, check_asked
from amsfl.flower.server.state import Evaluate, Progress
from amsfl.flower.server.stopping import Ending
from amsfl.flower.server.sync_round import Came, Exchange, Out
from amsfl.flower.server.transport import Post
from amsfl.flower.server.update import learn, notes
from amsfl.planning.planner import Decision, Planner, planner, policy_of
from amsfl.record import RoundRecord, RunWriter, Summary, check_free, create, dumps, reopen
from amsfl.settings.custom import CustomParts
from amsfl.settings.round_ends import in_flight, round_end_of
from amsfl.simulation import ServeConfig, privacy_settings
from amsfl.simulation.rounds import by_rule, counted
from amsfl.simulation.setup import method_of, takes_readings, work_of

TRIES = 5  # of a first round at which every client raises
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
        start: messages.Vector | None = None,
        plan_by: Callable[[Any], Planner] | None = None,
        out: Path | None = None,
        watch: Watch | None = None,
        own: CustomParts | None = None,
        tell: Tell | None = None,
        force: bool = False,
        form: best_model.Form | None = None,
    ):
        self.config, self.form = config, form
        self.start, self.out, self.watch, self.tell = start, out, watch, tell
        self.names: list[str] = []
        self.force = force
        own = own or CustomParts()
        self.method = method_of(config, own, config.clip if privacy_settings.is_private(config) else 0.0)
        policy = policy_of(config, self.method, own.policy)
        self.end = round_end_of(config, self.method, config.cohort or config.clients)
        privacy_settings.check(config, self.method, policy, self.end)
        self.purse = Purse(config, policy)
        self.method, self.worth = in_flight(config, self.method, self.end), staleness(config.staleness)
        self.method = self.purse.guarded(self.method)
        self.desk = Desk(config, self.method, takes_readings(config, self.method, policy), self.purse)
        self.post = Post(grid, self.config.poll)
        self.door = Door(
            self.post,
            config.clients,
            config.seed,
            self.config.patience,
            self.config.keyed,
            self._trouble,
            config.batch,
            self.method.clip,
        )
        self.exchange = Exchange(config, self.desk, self.post, self.door)
        waits = self.end.kind == "all"
        self.aloft = None if waits else Aloft(config, self.desk, self.post, self.door, self.end, policy)
        self.ending = Ending(config, self.desk, self.post, self.door, evaluate)
        self.writer: RunWriter | None = None
        self.meter = Meter(config, policy, self.end)
        check_asked(config, self.purse.whole)
        self.ahead: Out | None = None  # orders of the next round that are out already
        self.policy, self.plan_by = policy, plan_by

    def _planner(self, stand: Progress) -> Planner:
        self.purse.open(stand.seats, stand.anchor.size)
        return self.purse.paced(self._plain(stand.seats), stand)

    def _plain(self, seats: list[clients.Seat]) -> Planner:
        weights = clients.weights(seats)
        if self.plan_by is not None:
            return self.plan_by(weights)
        stale, share = (self.worth, self.end.enough) if self.end.asynchronous else (None, None)
        rows, limits = clients.believed(seats), self.meter.limits
        return planner(self.config, self.method, self.policy, weights, rows, stale, limits, share)

    def _metered(self, seats: list[clients.Seat], size: int) -> None:
        self.door.notes += self.meter.open(seats, work_of(self.method, self.policy, size))
        self.desk.accounts = self.meter.accounts

    def run(self, resume: bool = False) -> tuple[Progress, list[RoundRecord]]:
        """All rounds, until rounds, seconds or target say stop."""
        with ExitStack() as stack:
            stand, records = self._begin(resume, stack)
            self._work(stand, records)
        return stand, records

    def _work(self, stand: Progress, records: list[RoundRecord]) -> None:
        began, last_good, tries = self.post.now() - stand.elapsed, self.post.now(), 0
        while stand.status == "running":
            record = self._round(stand, began)
            if record is None:
                tries += self._all_failed(stand)
                if self.purse.spent(stand):
                    stand.status = "finished"
                elif self.post.now() - last_good > self.config.patience or tries >= TRIES:
                    stand.status = "abandoned"
                self.post.sleep(self.config.poll)
                continue
            last_good = self.post.now() if record.cohort else last_good
            records.append(record)
            if self.writer:
                self.writer.append(record)
                state.save(self.writer, stand)
            if self.watch:
                self.watch(record)
        if self.writer:
            summary = self.summary(stand, records)
            self.writer.end(summary, best_model.files(self.config, stand, self.method, summary, self.form))
        if stand.status == "abandoned":
            what = f"Every client failed in the first round, {tries} times in a row"
            if tries < TRIES:
                what = f"No good reply came for {self.config.patience:g} seconds after round {stand.round}"
            raise UserError(
                what
                + (f" ({self.door.refused[0]['reason']})" if self.door.refused else "")
                + "; the record is kept: look at the SuperNodes, then run again with resume."
            )

    def summary(self, stand: Progress, records: list[RoundRecord]) -> Summary:
        """The run in numbers, as far as it came."""
        return state.summary(self.config, stand, records, self.method.note, self.purse.ledger)

    def _all_failed(self, stand: Progress) -> bool:
        """Whether all clients raised, and none has ever taken a step: that is the app, not the weather."""
        failed = {item["client"] for item in self.door.refused if item["reason"].startswith(f"{FAILED}: ")}
        return stand.round == 0 and failed >= set(range(len(stand.seats)))

    def _trouble(self, item: dict[str, Any]) -> None:
        """A refusal, said and written at once: the round that it belongs to may never end."""
        place = item["client"]
        name = self.names[place] if place is not None and place < len(self.names) else None
        if self.writer:
            with (self.writer.where / state.TROUBLE).open("a", encoding="utf-8") as file:
                file.write(dumps({**item, "name": name}) + "\n")
        if self.tell:
            who = "somebody" if place is None else f"client {place}"
            named = "" if name in (None, str(place)) else f" ({name})"
            self.tell(f"  refused {who}{named}: {item['reason']}")

    def _begin(self, resume: bool, stack: ExitStack) -> tuple[Progress, list[RoundRecord]]:
        stand, records = None, list[RoundRecord]()
        if self.out and resume:
            self.writer = stack.enter_context(reopen(self.out, "flower"))
            stand, records = state.load(self.writer)
        elif self.out:
            check_free(self.out, self.force)
        if stand is None:
            stand = self._fresh()
            if self.out and not resume:
                described = state.manifest(self.config, stand, self.method)
                self.writer = stack.enter_context(create(self.out, described, self.force))
            return stand, records
        self.names = [seat.name for seat in stand.seats]
        self._drive(stand.seats)
        stand.begun = stand.begun or [*stand.steps]
        self._metered(stand.seats, stand.anchor.size)
        self.planner = self._planner(stand)
        if self.writer:
            privacy_settings.check_goes_on(self.writer.manifest.settings, self.config, self.purse.ledger)
        stand.status = "finished" if stand.round >= self.config.last_round else "running"
        if self.writer:
            self.writer.change(self.config.model_dump(), {}, stand.round)
            self.writer.reopen_end()
        if stand.status == "running":
            self.door.regather(stand.seats)
        return stand, records

    def _drive(self, seats: list[clients.Seat]) -> None:
        """Where clients bring optimizers of their own, the method in its form for those, or none at all."""
        if any(seat.driven for seat in seats):
            self.method = in_flight(self.config, methods.driven(self.method), self.end)
            self.desk.method, self.desk.driven = self.method, True

    def _fresh(self) -> Progress:
        seats = self.door.gather()
        self.names = [seat.name for seat in seats]
        self._drive(seats)
        given = self.start
        first = self.door.first_model(seats) if given is None else messages.Hello("", 0, given, {})
        anchor, buffers = np.ascontiguousarray(first.model, np.float32), first.buffers
        server = np.asarray(self.method.init(anchor)[0], np.float32)
        if self.purse.whole and buffers:
            raise UserError(
                "The model's buffers (running statistics) are averaged without noise; to keep whole clients "
                "private use a model without them, with GroupNorm or LayerNorm."
            )
        speeds = [self.door.speeds.get(seat.name, 0.0) for seat in seats]
        self._metered(seats, anchor.size)
        plain = self._plain(seats)
        more = self.desk.readings * np.array(speeds)  # the reading's gradient, after the steps
        measured = costs.start(len(seats), speeds, (self.door.ping(seats) + more).tolist())
        memory = plain.start()
        stand = Progress(anchor, server, 0 * anchor, buffers, seats, memory, measured, self.config.seed)
        stand.steps, stand.begun = [0] * len(seats), [0] * len(seats)
        stand.leaves = list(first.leaves)
        self.planner = self._planner(stand)
        return stand

    def _round(self, stand: Progress, began: float) -> RoundRecord | None:
        """One round; None when nobody was there or nobody's work could be taken: then it is tried again."""
        started, expected = self.post.now(), self.desk.expected(stand)
        came = self.aloft.round(stand, self.planner, began) if self.aloft else self._whole(stand)
        self.exchange.hear_late(stand)
        self.purse.heard(stand, self.door.refused, self.door.undone)
        self.door.undone = []
        if came is None or not (came.good or self.purse.whole):
            return None
        decision, model, cohort, kept, good, down, took, timeline, lost = came
        taken = decision._replace(steps=np.array([item.reply.steps for item in good]))
        reading, weighed = learn(
            stand,
            self.method,
            self.planner,
            model,
            cohort[kept],
            taken,
            good,
            self.config.poll,
            self.worth,
            self.purse.hidden(stand),
        )
        self.purse.count(stand, good)
        self.door.notes += notes(good)
        shares = clients.weights(stand.seats)[cohort[kept]]
        spent = {"sum": float(sum(item.seconds for item in good)), "makespan": float(took)}
        stand.seconds = {key: stand.seconds[key] + spent[key] for key in spent}
        sizes = [protocol.weight(part) for item in good for part in item.reply.parts.values()]
        bill = self.meter.bill(cohort[kept], taken.steps, lost, float(sum(sizes)) + down)
        stand.spent = {name: stand.spent.get(name, 0.0) + each for name, each in bill.items()}
        told = {} if self.purse.whole else client_scores.training(good, stand.seats, self.door)
        metrics = self.ending.judge(stand, began, self._next(stand)) | told
        mix = counted(self.method, shares, effective(good))
        record = RoundRecord(
            stand.round,
            dict(stand.seconds),
            spent,
            float(decision.predicted_seconds),
            metrics,
            [item.place for item in good],
            [item.reply.steps for item in good],
            None if decision.lr is None else float(np.mean(decision.lr)),
            float(sum(sizes)),
            down,
            {name: column.tolist() for name, column in reading._asdict().items() if self.desk.readings},
            self._explained(explain(decision, cohort, kept, good, expected))
            | self.meter.each(cohort[kept], taken.steps),
            {"seconds": self.post.now() - started, "elapsed": stand.elapsed},
            [share * self.worth(item.age) for share, item in zip(mix, good, strict=bool(mix))],
            by_rule(shares, weighed),
            joules=bill.get("joules"),
            cost=bill.get("cost"),
            epsilon=self.purse.ledger.bounds(self.purse.used(stand)),
            **timeline,
        )
        stand.refused += len(self.door.refused)  # now: what came late may be heard while the model is scored
        self.door.refused, self.door.notes = [], []
        return record

    def _whole(self, stand: Progress) -> Came | None:
        """A round that waits for all, as long as a round waits. Its orders may be out already."""
        out, self.ahead = self.ahead, None
        out = out or self._ordered(stand, self.door.meet(stand.seats))
        if out is None:
            return self._nobody(stand) if self.purse.whole else None
        return self.exchange.hear(stand, out)

    def _ordered(self, stand: Progress, here: set[int]) -> Out | None:
        """Orders to a cohort of those who are here; None where there is none."""
        if self.purse.whole:
            cohort = self.purse.drawn(stand, here)
        else:
            able = self.purse.able(stand, here)
            cohort = clients.draw(stand.seats, able, self.config.cohort, self.config.seed, stand.round)
        self.exchange.hear_late(stand)
        if not len(cohort):
            return None
        expected = self.desk.expected(stand)
        planned = self.planner.decide(stand.memory, stand.round, cohort, expected)
        return self.exchange.send(stand, planned, cohort, expected)

    def _next(self, stand: Progress) -> Callable[[], None]:
        """Sends the next round's orders while this one's model is scored: plans do not go by scores.

        Not where scores may end the run (the orders would be for nothing), where orders cost privacy, nor
        where clients have state: a server that is killed before its record is written would lose theirs.
        """
        config, purse = self.config, self.purse
        by_scores = bool(config.stop_after) or (config.target is not None and config.stop_at_target)
        state = sum(part.size for part in protocol.fresh(self.method, stand.anchor))
        if self.aloft or by_scores or purse.whole or purse.clip or state:
            return lambda: None
        here = self.door.meet(stand.seats)  # before they are asked for scores

        def send() -> None:
            self.ahead = self._ordered(stand, here)
            self.post.ahead |= self.ahead.ids if self.ahead else set()

        return send

    def _nobody(self, stand: Progress) -> Came:
        """A round of nobody, where chance alone says who is in."""
        model = messages.Model(stand.anchor, stand.server, stand.step, stand.buffers)
        nobody = np.zeros(0, int)
        return Came(Decision(nobody, self.config.lr, 0.0, {}), model, nobody, [], [], 0.0, 0.0)

    def _explained(self, own: dict[str, Any]) -> dict[str, Any]:
        return own | {"refused": list(self.door.refused), "notes": list(self.door.notes)}
