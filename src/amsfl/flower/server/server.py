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
from amsfl.core import UserError
from amsfl.flower import messages
from amsfl.flower.server import best_model, client_scores, clients, costs, server_state
from amsfl.flower.server.async_rounds import Aloft
from amsfl.flower.server.orders import OrderWriter
from amsfl.flower.server.plan_text import explain
from amsfl.flower.server.privacy_budget import PrivacyBudget
from amsfl.flower.server.registration import Registration
from amsfl.flower.server.replies import FAILED, effective
from amsfl.flower.server.server_state import Evaluate, ServerState
from amsfl.flower.server.spending import SpendingMeter, check_asked
from amsfl.flower.server.stopping import ModelScorer
from amsfl.flower.server.sync_round import Came, Exchange, Out
from amsfl.flower.server.transport import Transport
from amsfl.flower.server.update import learn, notes
from amsfl.planning.planner import Decision, Planner, planner, policy_of
from amsfl.privacy.mechanism import check_longer
from amsfl.record import RoundRecord, RunWriter, Summary, check_free, create, dumps, reopen
from amsfl.settings.custom import CustomParts
from amsfl.settings.privacy import mechanism_of
from amsfl.settings.round_ends import for_older_work, round_end_of
from amsfl.simulation import ServeConfig
from amsfl.simulation.round_record import TakenResults, round_record
from amsfl.simulation.setup import method_of, takes_readings, work_of

TRIES = 5  # of a first round at which every client raises
Watch = Callable[[RoundRecord], None]
Tell = Callable[[str], None]


class FlowerServer:
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
        form: best_model.NetworkDescription | None = None,
    ):
        self.config, self.form = config, form
        self.start, self.out, self.watch, self.tell = start, out, watch, tell
        self.names: list[str] = []
        self.force = force
        own = own or CustomParts()
        mechanism = mechanism_of(config, own=own.privacy)
        self.method = method_of(config, own, mechanism)
        policy = policy_of(config, self.method, own.policy)
        self.end = round_end_of(config, self.method, config.cohort or config.clients, own.round_end)
        self.privacy = PrivacyBudget(config, policy, mechanism)
        self.privacy.check(self.method, self.end)
        self.method, self.worth = for_older_work(config, self.method, self.end), self.end.weight
        self.method = self.privacy.protect(self.method)
        self.orders = OrderWriter(
            config, self.method, takes_readings(config, self.method, policy), self.privacy
        )
        self.transport = Transport(grid, self.config.poll)
        self.registration = Registration(
            self.transport,
            config.clients,
            config.seed,
            self.config.patience,
            self.config.keyed,
            self._trouble,
            config.batch,
            self.privacy.question(),
        )
        self.exchange = Exchange(config, self.orders, self.transport, self.registration)
        waits = self.end.waits_for_all
        self.aloft = (
            None if waits else Aloft(config, self.orders, self.transport, self.registration, self.end, policy)
        )
        self.scorer = ModelScorer(config, self.orders, self.transport, self.registration, evaluate)
        self.writer: RunWriter | None = None
        self.spending = SpendingMeter(config, policy, self.end)
        check_asked(config, self.privacy.clients)
        self.ahead: Out | None = None  # orders of the next round that are out already
        self.policy, self.plan_by = policy, plan_by

    def _planner(self, state: ServerState) -> Planner:
        self.privacy.open(state.clients, state.anchor.size)
        return self.privacy.limit(self._plain(state.clients), state)

    def _plain(self, registered: list[clients.RegisteredClient]) -> Planner:
        weights = clients.weights(registered)
        if self.plan_by is not None:
            return self.plan_by(weights)
        stale, share = (self.worth, self.end.size) if self.end.overlap else (None, None)
        rows, limits = clients.believed(registered), self.spending.limits
        return planner(self.config, self.method, self.policy, weights, rows, stale, limits, share)

    def _metered(self, registered: list[clients.RegisteredClient], size: int) -> None:
        self.registration.notes += self.spending.open(registered, work_of(self.method, self.policy, size))
        self.orders.accounts = self.spending.accounts

    def run(self, resume: bool = False) -> tuple[ServerState, list[RoundRecord]]:
        """All rounds, until rounds, seconds or target say stop."""
        with ExitStack() as stack:
            state, records = self._begin(resume, stack)
            self._work(state, records)
        return state, records

    def _work(self, state: ServerState, records: list[RoundRecord]) -> None:
        began, last_good, tries = self.transport.now() - state.elapsed, self.transport.now(), 0
        while state.status == "running":
            record = self._round(state, began)
            if record is None:
                tries += self._all_failed(state)
                if self.privacy.exhausted(state):
                    state.status = "finished"
                elif self.transport.now() - last_good > self.config.patience or tries >= TRIES:
                    state.status = "abandoned"
                self.transport.sleep(self.config.poll)
                continue
            last_good = self.transport.now() if record.cohort else last_good
            records.append(record)
            if self.writer:
                self.writer.append(record)
                server_state.save(self.writer, state)
            if self.watch:
                self.watch(record)
        if self.writer:
            summary = self.summary(state, records)
            self.writer.end(summary, best_model.files(self.config, state, self.method, summary, self.form))
        if state.status == "abandoned":
            what = f"Every client failed in the first round, {tries} times in a row"
            if tries < TRIES:
                what = f"No good reply came for {self.config.patience:g} seconds after round {state.round}"
            raise UserError(
                what
                + (f" ({self.registration.refused[0]['reason']})" if self.registration.refused else "")
                + "; the record is kept: look at the SuperNodes, then run again with resume."
            )

    def summary(self, state: ServerState, records: list[RoundRecord]) -> Summary:
        """The run in numbers, as far as it came."""
        return server_state.summary(self.config, state, records, self.method.facts.note, self.privacy.ledger)

    def _all_failed(self, state: ServerState) -> bool:
        """Whether all clients raised, and none has ever taken a step: that is the app, not the weather."""
        failed = {
            item["client"] for item in self.registration.refused if item["reason"].startswith(f"{FAILED}: ")
        }
        return state.round == 0 and failed >= set(range(len(state.clients)))

    def _trouble(self, item: dict[str, Any]) -> None:
        """A refusal, said and written at once: the round that it belongs to may never end."""
        place = item["client"]
        name = self.names[place] if place is not None and place < len(self.names) else None
        if self.writer:
            with (self.writer.where / server_state.TROUBLE).open("a", encoding="utf-8") as file:
                file.write(dumps({**item, "name": name}) + "\n")
        if self.tell:
            who = "somebody" if place is None else f"client {place}"
            named = "" if name in (None, str(place)) else f" ({name})"
            self.tell(f"  refused {who}{named}: {item['reason']}")

    def _begin(self, resume: bool, stack: ExitStack) -> tuple[ServerState, list[RoundRecord]]:
        state, records = None, list[RoundRecord]()
        if self.out and resume:
            self.writer = stack.enter_context(reopen(self.out, "flower"))
            state, records = server_state.load(self.writer)
        elif self.out:
            check_free(self.out, self.force)
        if state is None:
            state = self._fresh()
            if self.out and not resume:
                described = server_state.manifest(self.config, state, self.method)
                self.writer = stack.enter_context(create(self.out, described, self.force))
            return state, records
        self.names = [client.name for client in state.clients]
        self._drive(state.clients)
        state.ordered_steps = state.ordered_steps or [*state.steps]
        self._metered(state.clients, state.anchor.size)
        self.planner = self._planner(state)
        if self.writer:
            check_longer(self.writer.manifest.settings, self.privacy.settings, self.privacy.ledger)
        state.status = "finished" if state.round >= self.config.last_round else "running"
        if self.writer:
            self.writer.change(self.config.model_dump(), {}, state.round)
            self.writer.remove_summary()
        if state.status == "running":
            self.registration.regather(state.clients)
        return state, records

    def _drive(self, registered: list[clients.RegisteredClient]) -> None:
        """Where clients bring optimizers of their own, the method in its form for those, or none at all."""
        if any(client.own_optimizer for client in registered):
            self.method = for_older_work(self.config, methods.for_own_optimizers(self.method), self.end)
            self.orders.method, self.orders.own_optimizer = self.method, True

    def _fresh(self) -> ServerState:
        registered = self.registration.gather()
        self.names = [client.name for client in registered]
        self._drive(registered)
        given = self.start
        first = (
            self.registration.first_model(registered) if given is None else messages.Hello("", 0, given, {})
        )
        anchor, buffers = np.ascontiguousarray(first.model, np.float32), first.buffers
        server = np.asarray(self.method.arithmetic.init(anchor)[0], np.float32)
        if self.privacy.clients and buffers:
            raise UserError(
                "The model's buffers (running statistics) are averaged without noise; to keep whole clients "
                "private use a model without them, with GroupNorm or LayerNorm."
            )
        speeds = [self.registration.speeds.get(client.name, 0.0) for client in registered]
        self._metered(registered, anchor.size)
        plain = self._plain(registered)
        more = self.orders.readings * np.array(speeds)  # the reading's gradient, after the steps
        measured = costs.start(len(registered), speeds, (self.registration.ping(registered) + more).tolist())
        memory = plain.start()
        state = ServerState(
            anchor, server, 0 * anchor, buffers, registered, memory, measured, self.config.seed
        )
        state.steps, state.ordered_steps = [0] * len(registered), [0] * len(registered)
        state.tensors = list(first.tensors)
        self.planner = self._planner(state)
        return state

    def _round(self, state: ServerState, began: float) -> RoundRecord | None:
        """One round; None when nobody was there or nobody's work could be taken: then it is tried again."""
        started, expected = self.transport.now(), self.orders.expected(state)
        came = self.aloft.round(state, self.planner, began) if self.aloft else self._whole(state)
        self.exchange.hear_late(state)
        self.privacy.hear(state, self.registration.refused, self.registration.undone)
        self.registration.undone = []
        if came is None or not (came.good or self.privacy.clients):
            return None
        decision, model, cohort, kept, good, down, took, timeline, lost = came
        taken = decision._replace(steps=np.array([item.reply.steps for item in good]))
        reading, weighed = learn(
            state,
            self.method,
            self.planner,
            model,
            cohort[kept],
            taken,
            good,
            self.config.poll,
            self.worth,
            self.privacy.server_noise(state),
        )
        self.privacy.count(state, good)
        self.registration.notes += notes(good)
        shares = clients.weights(state.clients)[cohort[kept]]
        spent = {"sum": float(sum(item.seconds for item in good)), "makespan": float(took)}
        state.seconds = {key: state.seconds[key] + spent[key] for key in spent}
        sizes = [protocol.part_bytes(part) for item in good for part in item.reply.parts.values()]
        bill = self.spending.bill(cohort[kept], taken.steps, lost, float(sum(sizes)) + down)
        state.spent = {name: state.spent.get(name, 0.0) + each for name, each in bill.items()}
        training_metrics = (
            {} if self.privacy.clients else client_scores.training(good, state.clients, self.registration)
        )
        metrics = self.scorer.judge(state, began, self._next(state)) | training_metrics
        taken_results = TakenResults(
            [item.place for item in good],
            [item.reply.steps for item in good],
            [item.age for item in good],
            shares,
            np.asarray(effective(good)),
        )
        record = round_record(
            self.method,
            self.end,
            taken_results,
            decision,
            weighed,
            spent=bill,
            reading=reading if self.orders.readings else None,
            round=state.round,
            seconds=dict(state.seconds),
            round_seconds=spent,
            metrics=metrics,
            bytes_up=float(sum(sizes)),
            bytes_down=down,
            plan=self._explained(explain(decision, cohort, kept, good, expected))
            | self.spending.each(cohort[kept], taken.steps),
            wall={"seconds": self.transport.now() - started, "elapsed": state.elapsed},
            epsilon=self.privacy.ledger.bounds(self.privacy.units(state)),
            **timeline,
        )
        state.refused += len(
            self.registration.refused
        )  # now: what came late may be heard while the model is scored
        self.registration.refused, self.registration.notes = [], []
        return record

    def _whole(self, state: ServerState) -> Came | None:
        """A round that waits for all, as long as a round waits. Its orders may be out already."""
        out, self.ahead = self.ahead, None
        out = out or self._ordered(state, self.registration.meet(state.clients))
        if out is None:
            return self._nobody(state) if self.privacy.clients else None
        return self.exchange.hear(state, out)

    def _ordered(self, state: ServerState, here: set[int]) -> Out | None:
        """Orders to a cohort of those who are here; None where there is none."""
        if self.privacy.clients:
            cohort = self.privacy.draw_cohort(state, here)
        else:
            able = self.privacy.able(state, here)
            cohort = clients.draw(state.clients, able, self.config.cohort, self.config.seed, state.round)
        self.exchange.hear_late(state)
        if not len(cohort):
            return None
        expected = self.orders.expected(state)
        planned = self.planner.decide(state.memory, state.round, cohort, expected)
        return self.exchange.send(state, planned, cohort, expected)

    def _next(self, state: ServerState) -> Callable[[], None]:
        """Sends the next round's orders while this one's model is scored: plans do not go by scores.

        Not where scores may end the run (the orders would be for nothing), where orders cost privacy, nor
        where clients have state: a server that is killed before its record is written would lose theirs.
        """
        config, private = self.config, self.privacy
        by_scores = bool(config.stop_after) or (config.target is not None and config.stop_at_target)
        client_state = sum(part.size for part in protocol.initial_client_state(self.method, state.anchor))
        if self.aloft or by_scores or private.mechanism is not None or client_state:
            return lambda: None
        here = self.registration.meet(state.clients)  # before they are asked for scores

        def send() -> None:
            self.ahead = self._ordered(state, here)
            self.transport.ahead |= self.ahead.ids if self.ahead else set()

        return send

    def _nobody(self, state: ServerState) -> Came:
        """A round of nobody, where chance alone says who is in."""
        model = messages.GlobalModel(state.anchor, state.server, state.step, state.buffers)
        nobody = np.zeros(0, int)
        return Came(Decision(nobody, self.config.lr, 0.0, {}), model, nobody, [], [], 0.0, 0.0)

    def _explained(self, own: dict[str, Any]) -> dict[str, Any]:
        return own | {"refused": list(self.registration.refused), "notes": list(self.registration.notes)}
