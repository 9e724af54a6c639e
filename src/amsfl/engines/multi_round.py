"""Several rounds in one compiled program, where all of them are planned before the first one runs.

Work and settlement follow each other on the device, and the host hears of them once. On one H200 what lies
between two rounds of five small clients took longer than the rounds.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from amsfl.core.records import Number, Tree
from amsfl.engines import devices
from amsfl.engines.contract import Orders, State
from amsfl.engines.devices import Program
from amsfl.engines.job_table import DeviceRows, JobTable
from amsfl.engines.layout import ModelLayout
from amsfl.engines.memory import room_for
from amsfl.engines.packing import Queue
from amsfl.engines.settle_program import SettledRounds, mixing, result_shardings, settle_body
from amsfl.engines.task import Task
from amsfl.engines.work_program import ProgramParts, with_parts, work_body

ROUNDS = 64  # in one call at most: dispatching it then takes a fiftieth of the time of the shortest rounds
SHARE = 4  # one part in so many of the memory there is for work may hold the states after every round
LENGTHS = 4  # programs at most for rounds of a length that is known ahead; further ones find out as they go


class PlannedRounds(NamedTuple):
    """A round as it is handed over, or several, [rounds, ...]."""

    orders: Orders
    table: JobTable
    queue: Queue


def program(parts: ProgramParts, keep: bool, longest: int | None) -> Program:
    """jit of `count` rounds: (numbers, state, rows, plans, first number, count, seeds) -> SettledRounds.

    `plans` have room for more rounds than `count`; so one program serves any number of them.
    """
    parts = parts._replace(slots=1)
    whole = with_parts("span", parts, partial(_several, keep=keep, longest=longest))
    placed = result_shardings(parts.mesh, parts.layout, 1)
    if longest:
        return jax.jit(whole, out_shardings=placed)
    return devices.jit(whole, parts.mesh, parts.light, out_shardings=placed)


def _several(parts: ProgramParts, keep: bool, longest: int | None) -> Program:
    method, layout = parts.method, parts.layout
    work = work_body(parts, keep, longest=longest)
    settle = settle_body(method, layout, 1)
    mixed = mixing(method)

    @jax.jit  # so that asking for its shapes and calling it trace it once
    def one(
        state: State, rows: DeviceRows, plan: PlannedRounds, number: jax.Array, seeds: jax.Array
    ) -> SettledRounds:
        # apart, as if they were called one after the other: fused with each other they would round otherwise
        apart: Callable[[Tree], Tree] = jax.lax.optimization_barrier
        mix = apart(mixed(plan.orders.weights, plan.orders.steps))
        result = apart(work(state, rows, plan.table, mix, plan.queue))
        results: SettledRounds = apart(settle(state, plan.orders, [result], number, seeds))
        return results

    def several(
        state: State,
        rows: DeviceRows,
        plans: PlannedRounds,
        first: jax.Array,
        count: jax.Array,
        seeds: jax.Array,
    ) -> SettledRounds:
        room = plans.orders.steps.shape[0]
        shape = jax.eval_shape(one, state, rows, _at(plans, 0), first, seeds)
        empty = jax.tree.map(lambda part: jnp.zeros((room, *part.shape), part.dtype), shape)

        def further(index: Number, now: tuple[State, SettledRounds]) -> tuple[State, SettledRounds]:
            before, past = now
            number = first + index.astype(jnp.uint32)
            after = one(before, rows, _at(plans, index), number, seeds)
            put = jax.tree.map(lambda whole, part: whole.at[index].set(part), past, after)
            return after.state, put

        results: SettledRounds = jax.lax.fori_loop(0, count, further, (state, empty))[1]
        return results

    return several


def _at(tree: Tree, index: Number) -> Tree:
    return jax.tree.map(lambda part: part[index], tree)


at = jax.jit(_at)


def room(task: Task, layout: ModelLayout, cohort: int) -> int:
    """Rounds that a span may have, by the memory that the states after each of them take."""
    trials, clients = task.shards.size.shape
    own = layout.lengths
    of_clients = clients * (own.client + own.memory + own.history) + cohort * layout.size
    numbers = 2 * layout.size + own.server + of_clients
    each = SHARE * trials * numbers * np.dtype(task.dtype).itemsize
    return max(1, room_for(each / layout.parts, ROUNDS))
