"""The compiled program that ends a round: what all workers found, summed, aggregated, put into the state."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from amsfl import protocol, sampling
from amsfl.core import Total, Upload
from amsfl.core.records import Array, Number, Tree
from amsfl.engines import devices
from amsfl.engines.contract import Orders, State
from amsfl.engines.devices import Program
from amsfl.engines.layout import ModelLayout
from amsfl.engines.numbers import with_numbers
from amsfl.engines.work_program import ProgramParts
from amsfl.methods import Method


class SettledRounds(NamedTuple):
    """What a settlement returns; of several rounds, [rounds, ...]."""

    state: State
    readings: jax.Array
    deltas: jax.Array
    weighed: dict[str, jax.Array]


def mixing(method: Method) -> Callable[[Array, Array], jax.Array]:
    """mix(weights, steps) -> how much every job's upload counts, [jobs]."""

    def mix(weights: jax.Array, steps: jax.Array) -> jax.Array:
        counts = jnp.maximum(steps.astype(weights.dtype), 1)
        shares: jax.Array = jax.vmap(method.arithmetic.mix)(weights, counts)
        return shares.ravel()

    return mix


def initial_state(parts: ProgramParts, clients: int) -> Program:
    """jit of (numbers, anchors) -> the first State; one program, since operation by operation is slow."""
    layout = parts.layout

    def build(method: Method) -> Program:
        def begin(anchor: jax.Array) -> State:
            server = jax.vmap(method.arithmetic.init)(anchor)[0]
            fresh = jax.vmap(partial(protocol.initial_client_state, method))(anchor)
            client, memory = (jnp.repeat(part[:, None], clients, axis=1) for part in fresh)
            nothing = jnp.zeros((len(anchor), clients, protocol.remembers(method)), anchor.dtype)
            server, client, memory, history = map(layout.folded, (server, client, memory, nothing))
            return State(anchor, server, client, memory, jnp.zeros_like(anchor), history)

        return begin

    placed = result_shardings(parts.mesh, layout).state
    return devices.jit_small(with_numbers("begin", parts.method, build), parts.mesh, out_shardings=placed)


def settle(parts: ProgramParts) -> Program:
    """jit of what ends a round: all workers' and devices' parts summed, aggregated, put into the state."""
    body = with_numbers("settle", parts.method, partial(settle_body, layout=parts.layout, slots=parts.slots))
    placed = result_shardings(parts.mesh, parts.layout)
    return devices.jit_small(body, parts.mesh, donate_argnums=1, out_shardings=placed)


def result_shardings(mesh: Mesh, layout: ModelLayout, lead: int = 0) -> Tree:
    """Where what a settlement returns lies; of several rounds, behind an axis more."""
    by_field: Tree = layout.specs(lead), P(), layout.spec(lead + 2), P()
    specs = SettledRounds(*by_field)
    return jax.tree.map(partial(NamedSharding, mesh), specs, is_leaf=lambda each: isinstance(each, P))


def settle_body(method: Method, layout: ModelLayout, slots: int) -> Callable[..., Tree]:
    """`settle` before it is compiled."""

    def body(state: State, orders: Orders, parts: list[Tree], number: jax.Array, seeds: jax.Array) -> Tree:
        trials, cohort = orders.steps.shape
        steps = orders.steps.astype(state.anchor.dtype)
        results = devices.summed(parts)
        counts = jnp.maximum(steps, 1)
        attackers = orders.attackers if method.attacks else None
        weighed: dict[str, jax.Array] = {}
        before = layout.opened(state.server, layout.lengths.server)
        mine = jnp.arange(trials)[:, None], orders.cohort
        history = layout.opened(state.history[mine], layout.lengths.history)
        if not protocol.compares_uploads(method):
            total = Upload(*(_in_order(part, slots) for part in results.total))
        else:
            stacked = Upload(*(part.reshape(trials, cohort, *part.shape[1:]) for part in results.uploads))
            each = stacked, orders.weights, counts, attackers
            if method.private_clients is None:
                combined = jax.vmap(partial(protocol.combine_uploads, method))
                total, weighed, history = combined(*each, history)
            else:
                stacked = jax.vmap(partial(protocol.forge, method))(*each)
                summed = partial(_private_sum, method, layout, number)
                total, before = jax.vmap(summed)(stacked, orders.weights, before, orders.largest, seeds)
        shaped, ran = results.readings.T.reshape(-1, trials, cohort), orders.steps > 0
        whole = Total(layout.clean(total.delta), layout.clean(total.extra), total.delta_sq, jnp.zeros(trials))
        moved, server = jax.vmap(method.arithmetic.aggregate)(
            state.anchor, whole, orders.weights, counts, before
        )
        active = ran.any(1)[:, None]
        back = jnp.arange(trials)[:, None], jnp.where(ran, orders.cohort, state.client.shape[1])

        def remembered(old: jax.Array, fresh: jax.Array) -> jax.Array:
            return old.at[back].set(fresh.reshape(trials, cohort, -1), mode="drop")

        following = State(
            jnp.where(active, moved, state.anchor),
            jnp.where(active, layout.folded(server), state.server),
            remembered(state.client, results.clients),
            remembered(state.memory, results.memories),
            jnp.where(active, moved - state.anchor, state.step),
            remembered(state.history, layout.folded(history)),
        )
        deltas = results.deltas.reshape(trials, cohort, -1)
        return SettledRounds(following, shaped, deltas, weighed)

    return body


def revise(parts: ProgramParts) -> Program:
    """jit of the judge's verdicts, one a trial, put into the state."""
    layout = parts.layout

    def build(method: Method) -> Program:
        def body(state: State, verdicts: jax.Array) -> State:
            assert method.arithmetic.revise is not None
            before = layout.opened(state.server, layout.lengths.server)
            anchor, server = jax.vmap(method.arithmetic.revise)(state.anchor, before, verdicts)
            step = state.step + (anchor - state.anchor)
            return state._replace(anchor=anchor, server=layout.folded(server), step=step)

        return body

    placed = result_shardings(parts.mesh, layout).state
    body = with_numbers("revise", parts.method, build)
    return devices.jit_small(body, parts.mesh, donate_argnums=1, out_shardings=placed)


def _private_sum(
    method: Method, layout: ModelLayout, number: Number, sent: Upload, weights: Array, *rest: Array
) -> tuple[Upload, Array]:
    """The sum that keeps whole clients private; its noise is a hash of seed and round, as all chance is."""
    server, largest, seed = rest

    def draw(size: int) -> Array:
        beyond = layout.dim + jnp.arange(size - layout.size, dtype=jnp.uint32)
        places = jnp.concatenate([layout.places(), beyond])
        return sampling.noise_of_round(seed, number, places).astype(server.dtype)

    assert method.private_clients is not None
    return method.private_clients.apply(sent, weights, server, largest, draw)


def _in_order(part: jax.Array, slots: int) -> jax.Array:
    """A trial's slots added up one after another: a reduction would leave the order to the compiler."""
    each = part.reshape(len(part) // slots, slots, *part.shape[1:])
    total = each[:, 0]
    for slot in range(1, slots):
        total = total + each[:, slot]
    return total
