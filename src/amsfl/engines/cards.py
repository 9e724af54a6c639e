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
    clients = shards.size.shape[1]
    chances = sampling.digits(batch, shards.size)
    if not private:
        chances = chances[..., :0]
    noise = np.zeros(shards.size.shape) if task.noise is None else task.noise

    def deal(
        who: Array, steps: Array, lr: Array, known: Array, number: Array, trial: Array | None = None
    ) -> Cards:
        if trial is None:
            trial = np.broadcast_to(np.arange(len(who), dtype=np.int32)[:, None], who.shape)
        with np.errstate(over="ignore"):  # hashes do
            keys = sampling.stream(seeds[trial], sampling.words(number), sampling.words(who))
        place = trial, who
        told = Told(trial, trial * clients + who, shards.start[place], shards.size[place], steps, *keys)
        weighed = Weighed(lr, known, noise[place])
        return Cards(
            np.stack([_bits(part).ravel() for part in told], 1),
            np.stack([np.broadcast_to(part, who.shape).ravel() for part in weighed], 1).astype(task.dtype),
            chances[place].reshape(who.size, chances.shape[-1]),
        )

    return deal


def _bits(part: Array) -> Array:
    return part.view(np.int32) if part.dtype == np.uint32 else part.astype(np.int32)
