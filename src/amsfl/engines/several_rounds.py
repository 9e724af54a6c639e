"""Several rounds in one call of a compiled program, where nothing of one decides the next.

Clients' steps and the server's move follow each other on the device, and the host hears of them once: on one
H200 what lies between two rounds of five small clients takes longer than the rounds. The program takes any
number of rounds, so a run's bits do not depend on where it was cut into calls.
"""

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from amsfl import protocol
from amsfl.core import Total
from amsfl.core.records import Array, Number, Tree
from amsfl.engines import devices
from amsfl.engines.client_program import BEGIN, CLIENT, SHARE, STEPS, Rows, Table
from amsfl.engines.contract import MOST, Ahead, Models, Vectors
from amsfl.engines.devices import Program
from amsfl.engines.task import room_for
from amsfl.methods import Method

FEW = 1000  # jobs whose empty rounds are nothing to send
SIDES = 4  # copies of a trial's vectors that a round needs at most
Plan = tuple[Table, Array]  # jobs of every round, one trial's after another's; [rounds, trials, jobs] weights


def program(wave: Program) -> Program:
    """several(method, rows, vectors, plan, rounds) -> Vectors after so many rounds of a plan, [trials, ...];
    `wave` returns uploads one by one, and sums that nobody asks for."""

    def several(method: Method, rows: Rows, vectors: Vectors, plan: Plan, rounds: Number) -> Vectors:
        # fused with each other, rounds would round otherwise
        apart: Callable[[Tree], Tree] = jax.lax.optimization_barrier

        def aggregate(anchor: Array, server: Array, total: Tree, weights: Array, steps: Array) -> Tree:
            return method.aggregate(anchor, Total(*total), weights, steps, server)

        def further(nth: Number, now: Vectors) -> Vectors:
            table, weights = apart(jax.tree.map(lambda part: part[nth], plan))
            (jobs, floats, _), shape = table, weights.shape
            owner, who, share = jobs[:, BEGIN], jobs[:, CLIENT], floats[:, SHARE]
            sent: Array = jax.vmap(partial(protocol.sent_state, method))(now.server, now.anchor)
            begun = Models(now.anchor, sent, now.step), now.client[owner, who], now.kept[owner, who]
            done, _ = apart(wave(method, rows, *begun, table, jnp.zeros((1, 1), np.int32)))

            def mixed(part: Array) -> Array:
                scaled = share.reshape(-1, *[1] * (part.ndim - 1)) * part
                return scaled.reshape(*shape, *part.shape[1:]).sum(1)

            total, steps = jax.tree.map(mixed, done.uploads), jobs[:, STEPS].reshape(shape)
            parts = now.anchor, now.server, total, weights, steps.astype(weights.dtype)
            anchor, server = jax.vmap(aggregate)(*parts)
            client, kept = now.client.at[owner, who].set(done.state), now.kept.at[owner, who].set(done.memory)
            return Vectors(anchor, server, anchor - now.anchor, client, kept)

        return jax.lax.fori_loop(0, rounds, further, vectors)  # type: ignore[no-any-return]

    return devices.jit(several, False)


def side_by_side(asked: Sequence[Ahead], lanes: int) -> list[list[int]]:
    """Places of trials whose rounds go together: as many, of as many jobs, and no more than fit."""
    alike, groups = dict[tuple[int, ...], list[int]](), list[list[int]]()
    for place, each in enumerate(asked):
        alike.setdefault(each.client.shape, []).append(place)
    for (_, jobs), places in alike.items():
        each = sum(part.nbytes for part in asked[places[0]].vectors)
        most = max(1, min(lanes // jobs, room_for(SIDES * each, lanes)))
        groups += [places[begin : begin + most] for begin in range(0, len(places), most)]
    return groups


def planned(some: Sequence[Ahead], table: Table) -> Plan:
    """The trials' plan, filled up to a usual number of rounds."""
    weights = np.stack([each.weights for each in some], 1)
    rounds = len(weights)
    room = MOST if rounds > 1 or weights.size < FEW else 1  # of which programs are made

    def filled(part: Array) -> Array:
        return np.concatenate([part, np.zeros((room - rounds, *part.shape[1:]), part.dtype)])

    return jax.tree.map(filled, (table, weights))  # type: ignore[no-any-return]
