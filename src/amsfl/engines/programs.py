"""The compiled programs of a round: local work on every device, then a settlement of what all found."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from amsfl import protocol, sampling
from amsfl.core import Reading, Total, Upload
from amsfl.engines import client, devices
from amsfl.engines.base import Orders, State
from amsfl.engines.cards import Cards, drawn
from amsfl.engines.constants import Family, opened
from amsfl.engines.layout import Layout
from amsfl.engines.sums import add_rows, add_wave, in_order
from amsfl.engines.waves import FEW, Queue
from amsfl.methods import Method

Local = Callable[[Method], Callable[[client.Job, Any], client.Done]]  # a client's round by a method


class Fixed(NamedTuple):
    """What never changes in a run, on every device once: the rows, and all trials' numbers of them."""

    x: Any
    y: Any
    order: Any


class Kept(NamedTuple):
    """What a round brings back of every client besides its share of the sum."""

    readings: bool
    deltas: bool


class Found(NamedTuple):
    """What one worker found: sums by trial, and of every job (zeros for those of others) what is kept."""

    total: Upload  # [trials x slots, ...]; empty for a method whose uploads are combined, not summed
    uploads: Upload  # [jobs, ...]; empty for a method that stacks none
    clients: jax.Array
    memories: jax.Array
    readings: jax.Array
    deltas: jax.Array


def work(
    mesh: Mesh,
    kin: Family,
    layout: Layout,
    local: Local,
    kept: Kept,
    slots: int,
    light: bool,
    further: bool = False,
) -> Any:
    """jit of one worker's local work: every device goes through its waves -> what it found, [devices, ...].

    Nobody waits for anybody in here; `settle` sums what workers and devices found. `further` takes as its
    last argument what was found before, and goes on from there.
    """

    def build(method: Method) -> Any:
        return working(mesh, method, layout, local(method), kept, slots, further)

    return devices.jit(opened("work", kin, build), mesh, light)


def working(
    mesh: Mesh,
    method: Method,
    layout: Layout,
    local: Callable[[client.Job, Any], client.Done],
    kept: Kept,
    slots: int,
    further: bool = False,
    longest: int | None = None,
) -> Any:
    """`work` before it is compiled; with `longest`, every job has just that many steps.

    A GPU runs a loop whose end is known ahead without asking after every turn whether that was the last one.
    """

    sizes = layout.lengths

    def waves(state: State, fixed: Fixed, cards: Cards, mix: jax.Array, queue: Queue, carry: Any) -> Any:
        trials, jobs_ = len(state.anchor), len(mix)
        # taken from a single row, a model would be fused with its local work, which then rounds differently
        times = 2 if trials == 1 else 1
        anchors, servers = (jnp.concatenate([part] * times) for part in (state.anchor, state.server))
        everyone = trials * state.client.shape[1]
        clients, memories = (part.reshape(everyone, part.shape[2]) for part in (state.client, state.memory))

        def one(job: jax.Array, longest: Any) -> tuple[jax.Array, client.Done]:
            used, place = job >= 0, jnp.maximum(job, 0)
            told, *rest = drawn(cards, place)
            trial, mine = told.trial, told.who
            begin = client.Begin(
                anchors[trial],
                method.told(layout.opened(servers[trial], sizes.server), anchors[trial]),
                layout.opened(clients[mine], sizes.client),
                layout.opened(memories[mine], sizes.memory),
                state.step[trial],
            )
            told = told._replace(steps=jnp.where(used, told.steps, 0))
            done = local(client.job(begin, (told, *rest), *fixed), longest)
            done = done._replace(client=layout.folded(done.client), memory=layout.folded(done.memory))
            return jnp.where(used, mix[place], 0), done

        jobs, lanes = queue.jobs[0], queue.jobs.shape[-1]
        wave = jax.vmap(one, in_axes=(0, None)) if lanes > 1 else _alone(one)
        accumulate, places = (add_rows, queue.slots[0]) if lanes <= FEW else (add_wave, queue.lanes[0])

        def run_wave(index: Any, found: Found) -> Found:
            job = jax.lax.dynamic_index_in_dim(jobs, index, keepdims=False)
            most = drawn(cards, job[0])[0].steps if longest is None else longest  # the longest comes first
            share, done = wave(job, most)
            # lanes of unused places write to one place past the end, which is dropped
            place = jnp.where(job >= 0, job, jobs_)

            def put(whole: jax.Array, part: jax.Array) -> jax.Array:
                return whole.at[place].set(part, mode="drop")

            total, uploads = found.total, found.uploads
            if not method.stacks:
                total = accumulate(total, done.upload, share, places[index])
            else:
                uploads = Upload(*map(put, uploads, done.upload))
            return Found(
                total,
                uploads,
                put(found.clients, done.client),
                put(found.memories, done.memory),
                put(found.readings, done.reading),
                put(found.deltas, done.upload.delta) if kept.deltas else found.deltas,
            )

        count = queue.waves[0] if longest is None or len(jobs) > 1 else 1
        return jax.lax.fori_loop(0, count, run_wave, carry)

    def once(state: State, fixed: Fixed, cards: Cards, mix: jax.Array, queue: Queue, *before: Found) -> Any:
        """All waves inside a loop that goes round once.

        What stands outside of any loop XLA's CPU runtime hands to a pool of threads wherever it can, and they
        compete with the workers for the cores: 1.15 (job A of benchmarks/) to 1.3 times the time (B).
        """
        if before:
            carry = jax.tree.map(lambda part: part[0], before[0])
        else:
            carry = jax.lax.pcast(
                _zeros(state, len(mix), kept, method, layout, slots), devices.AXIS, to="varying"
            )
        # at most one, which the compiler does not know, or it would drop the loop
        times = jnp.minimum(queue.waves[0], 1) if longest is None else 1
        carry = jax.lax.fori_loop(
            0, times, lambda _, carry: waves(state, fixed, cards, mix, queue, carry), carry
        )
        return jax.tree.map(lambda part: part[None], carry)

    spread = P(devices.AXIS)
    given = P(), P(), P(), P(), Queue(spread, spread, spread, spread), *[spread] * further
    return devices.sharded(once, mesh, given, spread)


def mixing(method: Method) -> Callable[[Any, Any], jax.Array]:
    """mix(weights, steps) -> how much every job's upload counts, [jobs]."""

    def mix(weights: jax.Array, steps: jax.Array) -> jax.Array:
        counts = jnp.maximum(steps.astype(weights.dtype), 1)
        shares: jax.Array = jax.vmap(method.mix)(weights, counts)
        return shares.ravel()

    return mix


def settle(mesh: Mesh, kin: Family, layout: Layout, slots: int) -> Any:
    """jit of what ends a round: all workers' and devices' parts summed, aggregated, put into the state."""
    body = opened("settle", kin, partial(settlement, layout=layout, slots=slots))
    return devices.quickly(body, mesh, donate_argnums=1, out_shardings=after(mesh, layout))


def after(mesh: Mesh, layout: Layout, lead: int = 0) -> Any:
    """Where what a settlement returns lies; of several rounds, behind an axis more."""
    specs = layout.specs(lead), P(), layout.spec(lead + 2), P()
    return jax.tree.map(partial(NamedSharding, mesh), specs, is_leaf=lambda each: isinstance(each, P))


def settlement(
    method: Method, layout: Layout, slots: int
) -> Callable[..., tuple[State, jax.Array, jax.Array]]:
    """`settle` before it is compiled."""

    def body(state: State, orders: Orders, parts: list[Any], number: jax.Array, seeds: jax.Array) -> Any:
        trials, cohort = orders.steps.shape
        steps = orders.steps.astype(state.anchor.dtype)
        found = devices.summed(parts)
        counts = jnp.maximum(steps, 1)
        foes = (orders.foes, orders.words) if method.attacks else None
        weighed: dict[str, jax.Array] = {}
        before = layout.opened(state.server, layout.lengths.server)
        if not method.stacks:
            total = Upload(*(in_order(part, slots) for part in found.total))
        else:
            stacked = Upload(*(part.reshape(trials, cohort, *part.shape[1:]) for part in found.uploads))
            each = stacked, orders.weights, counts
            if method.guard is None:
                total, weighed = jax.vmap(partial(protocol.combined, method))(*each, foes)
            else:
                rest = before, orders.largest, seeds, foes
                total, before = jax.vmap(partial(_guarded, method, layout, number))(*each, *rest)
        shaped = found.readings.T.reshape(-1, trials, cohort)
        ran = orders.steps > 0
        losses = shaped[0] if len(shaped) else jnp.zeros_like(orders.weights)
        there = jnp.where(ran, losses, 0), jnp.where(ran, orders.weights, 0)
        loss = jax.vmap(partial(protocol.mean_loss, method))(*there, foes)
        if method.guard is not None:  # no loss leaves a client, and a cohort may be empty
            loss = jnp.zeros_like(loss)
        whole = Total(layout.clean(total.delta), layout.clean(total.extra), total.delta_sq, loss)
        moved, server = jax.vmap(method.aggregate)(state.anchor, whole, orders.weights, counts, before)
        active = ran.any(1)[:, None]
        back = jnp.arange(trials)[:, None], jnp.where(ran, orders.cohort, state.client.shape[1])

        def remembered(old: jax.Array, fresh: jax.Array) -> jax.Array:
            return old.at[back].set(fresh.reshape(trials, cohort, -1), mode="drop")

        following = State(
            jnp.where(active, moved, state.anchor),
            jnp.where(active, layout.folded(server), state.server),
            remembered(state.client, found.clients),
            remembered(state.memory, found.memories),
            jnp.where(active, moved - state.anchor, state.step),
        )
        return following, shaped, found.deltas.reshape(trials, cohort, -1), weighed

    return body


def _guarded(
    method: Method,
    layout: Layout,
    number: Any,
    sent: Upload,
    weights: Any,
    counts: Any,
    server: Any,
    *rest: Any,
) -> tuple[Upload, Any]:
    """The sum that keeps whole clients private; its noise is a hash of seed and round, as all chance is."""
    largest, seed, foes = rest

    def draw(size: int) -> Any:
        beyond = layout.dim + jnp.arange(size - layout.size, dtype=jnp.uint32)
        places = jnp.concatenate([layout.places(), beyond])
        return sampling.noise_of_round(seed, number, places).astype(server.dtype)

    return protocol.guarded(method, sent, weights, counts, server, (largest, draw), foes)


def _alone(one: Callable[..., Any]) -> Callable[..., Any]:
    """A wave of a single job without vmap: its loop ends by itself, with no lane to mask."""

    def wave(jobs: jax.Array, longest: jax.Array) -> Any:
        return jax.tree.map(lambda leaf: leaf[None], one(jobs[0], longest))

    return wave


def _upload(method: Method, anchor: jax.Array, server: jax.Array, client: jax.Array) -> Upload:
    return method.report(anchor, anchor, 1, 1.0, method.told(server, anchor), client)[0]


def _zeros(state: State, jobs: int, kept: Kept, method: Method, layout: Layout, slots: int) -> Found:
    trials, dim = state.anchor.shape
    dtype, lengths = state.anchor.dtype, layout.lengths
    vectors = (jax.ShapeDtypeStruct((size,), dtype) for size in (dim, lengths.server, lengths.client))
    one = jax.eval_shape(partial(_upload, method), *vectors)

    def uploads(count: int) -> Upload:
        return Upload(*(jnp.zeros((count, *part.shape), dtype) for part in one))

    combines = method.stacks
    return Found(
        uploads(0 if combines else trials * slots),
        uploads(jobs if combines else 0),
        jnp.zeros((jobs, state.client.shape[2]), dtype),
        jnp.zeros((jobs, state.memory.shape[2]), dtype),
        jnp.zeros((jobs, len(Reading._fields) if kept.readings else 0), dtype),
        jnp.zeros((jobs, dim if kept.deltas else 0), dtype),
    )
