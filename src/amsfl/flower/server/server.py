"""The run on real clients. A round is `FlowerServer.round`; every line of it leads to one more file.

The same methods, planners and record as in simulation; time is measured instead of virtual. Nothing that a
client does ends the run: who is late, gone or wrong is left out of the round, with a reason on record.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
from flwr.serverapp import Grid

from amsfl import protocol
from amsfl.core import UserError
from amsfl.flower import messages, vector_files
from amsfl.flower.server import clients, costs, pieces, run_record, server_state, update
from amsfl.flower.server.clients import RegisteredClient
from amsfl.flower.server.first_model import first_model, ping
from amsfl.flower.server.open_orders import OpenOrders
from amsfl.flower.server.options import ServerOptions
from amsfl.flower.server.orders import OrderWriter
from amsfl.flower.server.privacy_budget import PrivacyBudget
from amsfl.flower.server.registration import Registration
from amsfl.flower.server.reply_checks import FAILED
from amsfl.flower.server.scoring import ModelScorer
from amsfl.flower.server.server_state import ServerState
from amsfl.flower.server.transport import Transport
from amsfl.planning.planner import Planner, policy_of
from amsfl.privacy.mechanism import check_longer
from amsfl.record import RoundRecord, RunWriter, check_free, create, reopen
from amsfl.settings.privacy import mechanism_of
from amsfl.settings.round_ends import for_rounds, round_end_of
from amsfl.simulation import ServeConfig
from amsfl.simulation.components import method_of

TRIES = 5  # rounds in a row at which every client raises, or of which no finite model can be made


class FlowerServer:
    """One run over a Grid: `FlowerServer(grid, config).run()`."""

    def __init__(self, grid: Grid, config: ServeConfig, options: ServerOptions = ServerOptions()):  # noqa: B008
        self.config, self.options, self.names = config, options, list[str]()
        mechanism = mechanism_of(config)
        method = method_of(config, options.own, mechanism)
        policy = policy_of(config, method, options.own.policy)
        self.end = round_end_of(config, method, config.cohort or config.clients, options.own.round_end)
        self.privacy = PrivacyBudget(config, policy, mechanism)
        self.privacy.check(method, self.end)
        if config.most_clients and mechanism:
            raise UserError(
                "Clients cannot join later: noise and budgets of privacy are for those who begin. Leave "
                "most_clients out."
            )
        method = self.privacy.protect(for_rounds(config, method, self.end, config.clients))
        self.orders = OrderWriter(config, method, self.privacy, self.end)
        self.transport = Transport(grid, config.poll)
        self.registration = Registration(self.transport, config, self.privacy.question(), self._on_refusal)
        self.open_orders = OpenOrders(self.orders, self.registration)
        self.scorer = ModelScorer(self.orders, self.registration, options.evaluate)
        self.writer: RunWriter | None = None
        self.not_finite = 0  # rounds in a row of which no finite model could be made

    def run(self, resume: bool = False) -> tuple[ServerState, list[RoundRecord]]:
        """All rounds, until rounds, seconds or target say stop."""
        with ExitStack() as stack:
            state, records = self._begin(resume, stack)
            tries = self._run_rounds(state, records)
            if self.writer:
                summary, network = run_record.summary(self.orders, state, records), self.options.network
                self.writer.end(summary, run_record.files(self.orders, state, summary, network))
        if state.status == "abandoned":
            what = f"Every client failed in the first round, {tries} times in a row"
            if tries < TRIES:
                what = f"No good reply came for {self.config.patience:g} seconds after round {state.round}"
            what += self.registration.first_reason()
            then = "; the record is kept: look at the SuperNodes, then run again with resume"
            raise UserError(f"{what}{then if self.writer else '; look at the clients'}.")
        return state, records

    def _run_rounds(self, state: ServerState, records: list[RoundRecord]) -> int:
        began, last_good, tries = self.transport.now() - state.elapsed, self.transport.now(), 0
        while state.status == "running":
            record = self.round(state, began)
            if record is None:
                tries += self._all_failed(state)
                if self.privacy.exhausted(state):
                    state.status = "finished"
                elif self.not_finite >= TRIES:
                    state.status = "diverged"
                elif self.transport.now() - last_good > self.config.patience or tries >= TRIES:
                    state.status = "abandoned"
                self.transport.sleep(self.config.poll)
                continue
            last_good = self.transport.now() if record.cohort else last_good
            records.append(record)
            if self.writer:
                self.writer.append(record)
                server_state.save(self.writer, state)
            if self.options.watch:
                self.options.watch(record)
        return tries

    def round(self, state: ServerState, began: float) -> RoundRecord | None:
        """One round; None when nobody was there or nobody's work could be taken: then it is tried again."""
        started = self.transport.now()
        self._join(state)
        results = self.open_orders.wait(state, self.planner, began)
        self.privacy.hear(state, self.registration.refused)
        if results is None:
            return None
        results, model = update.settle(self.orders, state, results, self.open_orders.refuse)
        self.not_finite = self.not_finite + 1 if model is None else 0
        if model is None:
            return None
        results, model = update.move(state, results, model), None
        results = update.learn(state, self.orders, self.planner, results)
        self.privacy.count(state, results.replies)
        metrics = self.scorer.score(state, began, self._early_dispatch(state))
        wall = {"seconds": self.transport.now() - started, "elapsed": state.elapsed}
        parties = (self.orders, self.registration)
        return run_record.round_record(*parties, state, results, metrics, wall=wall)

    def _early_dispatch(self, state: ServerState) -> Callable[[], None]:
        """Sends the next round's orders while this one's model is scored: plans do not go by scores.

        Not where scores may end the run (the orders would be for nothing), where orders cost privacy, nor
        where clients have state: a server that is killed before its record is written would lose theirs.
        """
        config = self.config
        by_scores = bool(config.stop_after) or (config.target is not None and config.stop_at_target)
        parts = protocol.initial_client_state(self.orders.method, state.anchor[:1])
        client_state, private = sum(part.size for part in parts), self.privacy.mechanism is not None
        if not self.end.waits_for_all or by_scores or private or client_state:
            return lambda: None
        free = self.registration.admit(state)  # before they are asked for scores
        return lambda: self.open_orders.dispatch(state, self.planner, free)

    def _all_failed(self, state: ServerState) -> bool:
        """Whether all clients raised, and none has ever taken a step: that is the app, not a client."""
        refused = self.registration.refused
        failed = {item["client"] for item in refused if item["reason"].startswith(f"{FAILED}: ")}
        return state.round == 0 and failed >= set(range(len(state.clients)))

    def _on_refusal(self, item: dict[str, Any]) -> None:
        """Printed and written at once: the round that it belongs to may never end."""
        who = item["client"]
        name = self.names[who] if who is not None and who < len(self.names) else None
        if self.writer:
            server_state.append_refusal(self.writer, {**item, "name": name})
        if self.options.on_refusal:
            self.options.on_refusal(who, name, item["reason"])

    def _begin(self, resume: bool, stack: ExitStack) -> tuple[ServerState, list[RoundRecord]]:
        state, records, out = None, list[RoundRecord](), self.options.out
        if out and resume:
            self.writer = stack.enter_context(reopen(out, "flower"))
            state, records = server_state.load(self.writer)
        elif out:
            check_free(out, self.options.force)
        if state is None:
            state = self._fresh()
            if out and not resume:
                described = server_state.manifest(self.config, state, self.orders.method)
                self.writer = stack.enter_context(create(out, described, self.options.force))
            return state, records
        self._meet(state.clients, state.anchor.size)
        self.orders.resumed_round = state.round
        state.ordered_steps = state.ordered_steps or [*state.steps]
        self.planner = self._private_planner(state)
        state.status = "finished" if state.round >= self.config.last_round else "running"
        if self.writer:
            check_longer(self.writer.manifest.settings, self.privacy.settings, self.privacy.ledger)
            self.writer.change(self.config.model_dump(), {}, state.round)
            self.writer.remove_summary()
        if state.status == "running":
            self.registration.regather(state)
        return state, records

    def _fresh(self) -> ServerState:
        registered, start = self.registration.gather(), self.options.start
        own = messages.Hello("", 0, start, {}) if start is not None else None
        first = own or first_model(self.registration, registered)
        self.options = self.options._replace(start=None)  # it would stay as large as the model
        first = first._replace(model=vector_files.kept(np.ascontiguousarray(first.model, np.float32)))
        anchor = first.model
        self._meet(registered, anchor.size)
        method, readings = self.orders.method, self.orders.readings
        speeds = [self.registration.speeds.get(client.name, 0.0) for client in registered]
        # a round takes more gradients than steps: the reading's, and at first the opening's
        more = readings + (method.arithmetic.opening is not None)
        empty = (ping(self.registration, registered) + more * np.array(speeds)).tolist()
        memory, measured = self.plan_for(registered).start(), costs.start(len(registered), speeds, empty)
        server, step = pieces.first_state(method, anchor), anchor[:0]
        if readings or method.private_rows is not None:
            step = vector_files.each(lambda x: 0 * x, anchor)
        state = ServerState(anchor, server, step, first.buffers, [], memory, measured, self.config.seed)
        state.history = np.zeros((0, protocol.remembers(method)), np.float32)
        state.add_clients(registered)
        state.tensors = [*first.tensors]
        self.planner = self._private_planner(state)
        return state

    def _join(self, state: ServerState) -> None:
        """Let in who came while the last round was under way: from now on plans are for them, too."""
        fresh = self.registration.newcomers
        if not fresh:
            return
        self.registration.newcomers, first = {}, len(state.clients)
        state.add_clients([clients.registered_client(*pair) for pair in fresh.items()])
        state.measured = costs.add_clients(state.measured, [hello.step_seconds for hello in fresh.values()])
        self._meet(state.clients, state.anchor.size)
        self.planner = self.plan_for(state.clients)
        state.memory = state.memory.grown(self.planner.start())
        for who, client in enumerate(state.clients[first:], first):
            self.registration.notes.append(f"client {who} ({client.name!r}) joined after round {state.round}")
        if self.writer:
            self.writer.describe({"clients": {"names": self.names}})

    def _meet(self, registered: list[RegisteredClient], size: int) -> None:
        self.names = [client.name for client in registered]
        self.registration.notes += self.orders.meet(registered, size)
        for who, client in enumerate(registered):
            if self.orders.own_steps and client.own_optimizer:
                title = self.orders.method.title
                self.registration.refuse(who, f"optimizer: its own cannot do {title}'s steps")
        self.transport.reply_bytes = 4 * size

    def plan_for(self, registered: list[RegisteredClient]) -> Planner:
        if self.options.plan_by is not None:
            return self.options.plan_by(clients.weights(registered))
        return self.orders.planner(registered)

    def _private_planner(self, state: ServerState) -> Planner:
        """One that asks nobody for more steps than its privacy has left."""
        notes = self.privacy.open(state.clients, state.anchor.size, state.buffers)
        self.registration.notes += notes
        return self.privacy.limit(self.plan_for(state.clients), state)
