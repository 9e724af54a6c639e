"""Every number of the default algorithm, once (docs/algorithm.md)."""

from typing import NamedTuple


class AlgorithmNumbers(NamedTuple):
    lr: float = 0.5  # the rate of the first round, unless the user says
    least: float = 0.1  # what is left at least: of the rate, of the passes, of a gradient along itself
    momentum: float = 0.8  # the most look-ahead of the server
    delay: float = 3.0  # how slowly it grows: q/(q + delay)
    balance: float = 0.5  # power of the steps by which an upload is shortened: 0 FedAvg, 1 FedNova
    beforehand: float = 0.3  # gain of every client besides what is read, in parts of the mean
    memory: float = 0.7  # part of an old gain and an old fading that stays
    steps: int = 64  # of a client in a round, at most
    passes: float = 2.0  # of a client over its rows in a round, at most
    worse: float = 0.05  # of the held-back loss: from there a round is bad
    sure: float = 2.0  # standard errors for it; half of them for fewer passes
    patience: int = 2  # bad rounds, or rounds of a dead network, until the server goes back
    halved: float = 0.5  # rate and passes, where they fall
    held_share: float = 0.1  # of a client's rows, held back to judge by
    held_most: int = 32  # of them


NUMBERS = AlgorithmNumbers()
ROUNDS = 50  # of a run that nobody says when to stop
