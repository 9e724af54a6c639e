"""The reference engine: numpy, one client and one step at a time, and it says where things go wrong."""

from collections.abc import Sequence
from functools import partial

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from amsfl import protocol, sampling
from amsfl.core import Reading, Upload, UserError
from amsfl.core.records import Array, Json, Tree
from amsfl.engines import losses, private_gradients
from amsfl.engines.client_program import gradient
from amsfl.engines.contract import JobResults, Jobs, JobStarts, Orders, Outcome, State, own_models
from amsfl.engines.scores import Scores, rows, score_logits
from amsfl.engines.task import Task
from amsfl.methods import Method
from amsfl.protocol import CohortWork, LocalState


class LoopEngine:
    """Engine (see contract.Engine). Only gradients and logits come from jax; the rest is numpy to read."""

    needs_all_processes = False

    def __init__(self, task: Task, method: Method, batch: int, readings: bool = False):
        self.task, self.method, self.batch, self.readings = task, method, batch, readings
        grad = gradient(task, method)

        def flat_grad(x: jax.Array, rows: jax.Array, labels: jax.Array, teacher: Tree) -> Tree:
            loss, tree = grad(task.unravel(x), rows, labels, teacher)
            return loss, ravel_pytree(tree)[0]

        def each_grad(x: jax.Array, rows: jax.Array, labels: jax.Array) -> Tree:
            def one(row: jax.Array, label: jax.Array) -> Tree:
                return flat_grad(x, row[None], label[None], ())[1]

            return jax.vmap(one)(rows, labels)

        self._grad = jax.jit(flat_grad)
        self._private = None
        if method.private_rows is not None:
            each = jax.jit(each_grad)
            self._private = private_gradients.reference_gradient(task, method.private_rows, batch, each)
        self._logits = jax.jit(lambda x, rows: task.model.apply(task.unravel(x), rows))
        self._held = jax.jit(
            lambda x, rows, y, here: losses.held_loss_and_spread(
                task.loss, task.model.apply(task.unravel(x), rows), y, here
            )
        )
        self._teach = jax.jit(lambda x, *rows: losses.teach(task.model.apply, task.unravel(x), *rows))

    def start(self) -> State:
        anchor = self.task.start()
        clients = self.task.shards.size.shape[1]

        def everyone(parts: Sequence[Array]) -> Tree:
            return np.stack([np.stack([part] * clients) for part in parts])

        server = np.stack([self.method.arithmetic.init(x)[0] for x in anchor])
        client, memory = zip(*(protocol.initial_client_state(self.method, x) for x in anchor), strict=True)
        history = np.zeros((len(anchor), clients, protocol.remembers(self.method)), self.task.dtype)
        return State(anchor, server, everyone(client), everyone(memory), np.zeros_like(anchor), history)

    def from_host(self, state: State) -> State:
        return State(*(np.asarray(part) for part in state))

    to_host = from_host

    def models_to_host(self, models: Array) -> Tree:
        return np.asarray(models)

    def round(self, state: State, orders: Orders, number: int, keep: bool = False) -> tuple[State, Outcome]:
        state = State(*(np.array(part) for part in state))
        shape = np.shape(orders.steps)
        readings = Reading(*(np.zeros(shape, self.task.dtype) for _ in Reading._fields))
        deltas = np.zeros((*shape, self.task.dim), self.task.dtype) if keep else None
        weighed = dict[str, Array]()
        for trial in range(shape[0]):
            if np.any(orders.steps[trial] > 0):
                counts = self._trial(trial, state, orders, number, readings, deltas)
                for name, mine in counts.items():
                    weighed.setdefault(name, np.zeros(shape, self.task.dtype))[trial] = mine
        return state, Outcome(readings, deltas, weighed)

    def _trial(
        self, trial: int, state: State, orders: Orders, number: int, readings: Reading, deltas: Array
    ) -> Json:
        """One trial's round, written into the fresh copies of `round`; what a rule made of the clients."""
        dtype, uploads = self.task.dtype, []
        anchor, server = state.anchor[trial].copy(), state.server[trial].copy()
        sent = protocol.sent_state(self.method, server, anchor)
        for place, who in enumerate(orders.cohort[trial]):
            start = JobStarts(
                anchor, sent, state.client[trial, who], state.memory[trial, who], state.step[trial]
            )
            if not orders.steps[trial, place]:  # an empty place
                uploads.append(protocol.empty_upload(self.method, anchor)[0])
                continue
            job = Jobs(trial, who, orders.steps[trial, place], orders.lr[trial], number)
            upload, state.client[trial, who], state.memory[trial, who], taken = self._local(start, job)
            for field, value in zip(readings, taken or (), strict=taken is not None):
                field[trial, place] = value
            if deltas is not None:
                deltas[trial, place] = upload.delta
            uploads.append(upload)
        weights = np.asarray(orders.weights[trial], dtype)
        steps = np.asarray(orders.steps[trial]).astype(dtype)
        mine = trial, orders.cohort[trial]
        attackers = private = None
        if self.method.attacks:
            attackers = np.asarray(orders.attackers)[trial]
        if self.method.private_clients is not None:
            private = dtype(np.asarray(orders.largest)[trial]), partial(self._drawn, trial, number)
        history, counts = state.history[mine], np.maximum(steps, 1)
        cohort = CohortWork(uploads, weights, counts, attackers, private, history=history)
        moved, fresh, weighed, history = protocol.settle(self.method, anchor, server, cohort)
        state.anchor[trial], state.server[trial], state.step[trial] = moved, fresh, moved - anchor
        state.history[mine] = history
        return weighed

    def revise(self, state: State, verdicts: Array) -> State:
        state, rule = State(*(np.array(part) for part in state)), self.method.arithmetic.revise
        assert rule is not None
        for trial, verdict in enumerate(np.asarray(verdicts)):
            anchor, server = rule(state.anchor[trial], state.server[trial], verdict)
            state.step[trial] += anchor - state.anchor[trial]
            state.anchor[trial], state.server[trial] = anchor, server
        return state

    def _drawn(self, trial: int, number: int, size: int) -> Tree:
        """The server's own noise, where it keeps whole clients private."""
        seed, number_ = sampling.words(self.task.seeds[trial]), sampling.words(number)
        with np.errstate(over="ignore"):
            noise = sampling.noise_of_round(seed, number_, np.arange(size, dtype=np.uint32))
        return noise.astype(self.task.dtype)

    def work(self, starts: JobStarts, jobs: Jobs) -> JobResults:
        shape = np.shape(jobs.steps)
        empty = protocol.empty_upload(self.method, starts.anchor[0])[0]
        uploads = Upload(*(np.zeros((*shape, *part.shape), self.task.dtype) for part in empty))
        readings = Reading(*(np.zeros(shape, self.task.dtype) for _ in Reading._fields))
        done = JobResults(uploads, np.array(starts.client), np.array(starts.memory), readings)
        for where in np.flatnonzero(jobs.steps):
            start, job = JobStarts(*(part[where] for part in starts)), Jobs(*(part[where] for part in jobs))
            upload, done.client[where], done.memory[where], taken = self._local(start, job)
            for into, part in zip((*uploads, *readings), (*upload, *(taken or ())), strict=False):
                into[where] = part  # readings only where they are taken
        return done

    def _local(self, start: JobStarts, job: Jobs) -> tuple[Upload, Tree, Tree, Reading | None]:
        """One client's round: what it sends, its state and its memory afterwards, and the reading."""
        method, dtype = self.method, self.task.dtype
        trial, who, number = int(job.trial), int(job.client), int(job.number)
        with np.errstate(over="ignore"):  # 32-bit words wrap around on purpose
            key = sampling.stream(*map(sampling.words, (self.task.seeds[trial], number, who)))
        teacher: Tree = ()
        if method.arithmetic.objective is not None:
            rows = self._rows(trial, who, key, sampling.PROTOTYPES, method.arithmetic.objective.rows)
            teacher = self._teach(start.server, *rows)

        def look(x: Array, step: int) -> tuple[Tree, Tree]:
            if self._private is not None:
                return dtype(0), self._private(x, trial, who, key, step)
            loss, grad = self._grad(x, *self._rows(trial, who, key, step, self.batch), teacher)
            loss, grad = np.asarray(loss), np.asarray(grad)
            if not np.isfinite(grad).all() and not method.judges:  # a judge goes back instead
                raise UserError(
                    f"Client {who}, round {number + 1}, step {step + 1}: the gradient is not finite; "
                    "lower --lr, or look at this client's rows."
                )
            return loss, grad

        local = protocol.begin(method, LocalState(*start[:3], dtype(job.lr)))
        local = protocol.first_step(method, local, *look(local.x, 0))
        for step in range(1, int(job.steps)):
            local = protocol.local_step(method, local, look(local.x, step)[1])
        if self.readings and not method.private_rows:
            local = protocol.look_back(local, look(local.x, 0)[1])
            if self.task.held_back:
                local = local._replace(held=self._held_back(start.anchor, trial, who))
        upload, client, taken = protocol.finish(method, local, dtype(job.steps))
        memory = start.memory
        if method.transmit is not None:
            with np.errstate(over="ignore"):
                upload, memory = protocol.encode_and_decode(method.transmit, key, upload, memory)
        reading = protocol.measured(taken, upload.delta, start.step) if self.readings else None
        return upload, client, memory, reading

    def _held_back(self, anchor: Array, trial: int, who: int) -> tuple[Array, Array]:
        """Loss and spread of the rows that a client holds back."""
        shards, most = self.task.shards, self.task.held_back
        begin = shards.start[trial, who] + shards.size[trial, who]
        here = np.arange(most) < shards.held[trial, who]
        row = shards.order[trial, np.where(here, begin + np.arange(most), 0)]
        loss, spread = self._held(anchor, self.task.x[row], self.task.y[row], here)
        return np.asarray(loss), np.asarray(spread)

    def _rows(self, trial: int, who: int, key: Array, step: int, size: int) -> tuple[Tree, Tree]:
        shards = self.task.shards
        places = np.arange(size, dtype=np.uint32)
        with np.errstate(over="ignore"):
            picked = sampling.draw(
                key, sampling.words(step), places, shards.size[trial, who], self.task.shuffled
            )
        row = shards.order[trial, shards.start[trial, who] + picked]
        return self.task.x[row], self.task.y[row]

    def models(self, state: State) -> Tree:
        return self.method.arithmetic.model(rows(state.anchor), rows(state.server))

    def client_models(self, state: State, deltas: Array, trial: int) -> Tree:
        return own_models(state.anchor, state.step, deltas, trial)

    def evaluate(self, models: Array, split: str, places: Sequence[int] | None = None) -> Scores:
        chosen = np.asarray(models) if places is None else np.asarray(models)[np.asarray(places)]
        x, _ = self.task.evals[split]
        return score_logits(self.task, split, [np.asarray(self._logits(model, x)) for model in chosen])
