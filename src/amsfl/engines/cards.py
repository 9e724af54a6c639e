"""What every job is told besides vectors: one row of whole numbers and one of real ones. Plain numpy.

The host looks all of it up, and a compiled wave takes its jobs' rows in one piece: looked up on the device,
number by number, it made a third of a program's code.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from amsfl import sampling
from amsfl.engines.task import Task

Array = Any
SURELY = "promise_in_bounds"  # of places that cannot lie outside: nothing is compiled to check them


class Told(NamedTuple):
    """The columns of `Cards.whole`."""

    trial: Array
    who: Array  # among all trials' clients
    start: Array  # of its rows
    size: Array
    steps: Array
    key: Array  # two words, of its minibatches
    other: Array


class Weighed(NamedTuple):
    """The columns of `Cards.real`."""

    lr: Array
    known: Array
    noise: Array  # of a private step


class Cards(NamedTuple):
    """[jobs, columns] each; a job's number is trial x cohort + place."""

    whole: Array  # int32; words are bits as they are
    real: Array
    chance: Array  # uint32: by which rows are in a private minibatch (sampling.digits); else no columns


def drawn(cards: Cards, job: Array) -> tuple[Told, Weighed, Array]:
    """A job's card, inside a compiled program."""
    whole, real, chance = (part.at[job].get(mode=SURELY) for part in cards)
    return Told(*whole), Weighed(*real), chance


def dealer(task: Task, batch: int, private: bool = False) -> Callable[..., Cards]:
    """deal(who [trials, cohort], steps, lr [trials, 1 or cohort], known, number) -> Cards; with `trial`, of
    jobs [jobs] that are any trials'."""
    shards, seeds = task.shards, sampling.words(task.seeds)
    trials, clients = shards.size.shape
    chances = sampling.digits(batch, shards.size)
    chances = chances.reshape(trials * clients, -1)[:, : None if private else 0]
    noise = np.zeros(shards.size.shape) if task.noise is None else task.noise
    noise = noise.astype(task.dtype).ravel()
    everybody = np.arange(trials * clients)
    # what never changes, in one table: every round of short ones waits for its cards
    known_ahead = np.stack([everybody // clients, everybody, shards.start.ravel(), shards.size.ravel()], 1)
    known_ahead = known_ahead.astype(np.int32)

    def deal(
        who: Array, steps: Array, lr: Array, known: Array, number: Array, trial: Array | None = None
    ) -> Cards:
        if trial is None:
            trial = np.arange(len(who), dtype=np.int32)[:, None]
        mine = (trial * clients + who).ravel()
        with np.errstate(over="ignore"):  # hashes do
            keys = sampling.stream(seeds[trial], sampling.words(number), sampling.words(who))
        whole = np.empty((len(mine), len(Told._fields)), np.int32)
        whole[:, :4] = known_ahead[mine]
        for column, part in enumerate((steps, *keys), 4):
            whole[:, column] = _bits(part).ravel()
        real = np.empty((len(mine), len(Weighed._fields)), task.dtype)
        for column, part in enumerate((lr, known)):
            real[:, column] = np.broadcast_to(part, who.shape).ravel()
        real[:, 2] = noise[mine]
        return Cards(whole, real, chances[mine])

    return deal


def _bits(part: Array) -> Array:
    return part.view(np.int32) if part.dtype == np.uint32 else part
