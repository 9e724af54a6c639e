"""Which clients of a simulation attack, and what they send in place of the truth."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from amsfl import attack
from amsfl.clock import Costs
from amsfl.core import Attack, Reading, UserError
from amsfl.data import Dataset
from amsfl.record.schema import Array
from amsfl.settings.definitions import RunConfig

DRAW = 0xBAD  # the stream that attackers are drawn from


class Attackers(NamedTuple):
    """The attacks of a batch, and of every trial's clients the number of theirs from 1; 0: honest."""

    attacks: tuple[Attack, ...]
    who: Array  # int [trials, clients]

    def claimed(self, weights: Array) -> Array:
        """Shares of the data [trials, clients] by the rows that clients claim."""
        claimed = weights * self._factors("rows")
        lies = (claimed != weights).any(1, keepdims=True)  # of honest trials the shares stay to the bit
        return np.where(lies, claimed / claimed.sum(1, keepdims=True), weights)

    def costs(self, trial: int, costs: Costs) -> Costs:
        """What steps take by what clients say; what travels is seen by the server."""
        if not self.attacks:
            return costs
        return costs._replace(step_seconds=costs.step_seconds * self._factors("seconds")[trial])

    def report(self, trial: int, cohort: Array, reading: Reading) -> Reading:
        """A trial's readings as its clients report them."""
        for number, each in enumerate(self.attacks, 1):
            lying = self.who[trial, cohort] == number
            if each.falsify is not None and lying.any():
                false = each.falsify(reading)
                reading = Reading(*(np.where(lying, b, a) for a, b in zip(reading, false, strict=True)))
        return reading

    def forging(self, number: int, trials: int | Array, cohort: Array) -> Array:
        """Who of cohorts [..., n] forges its upload in this round, by the number of the attack."""
        who: Array = self.who[trials, cohort]
        for attacks, each in enumerate(self.attacks, 1):
            if each.awake is not None:
                who = np.where((who == attacks) & ~each.awake(number, cohort), 0, who)
        return who

    def false_rows(self, data: Dataset, partitions: list[list[Array]]) -> tuple[Dataset, list[list[Array]]]:
        """The rows once more for every attack that learns from false ones, and clients' rows among them."""
        xs, ys, shifts = [data.x], [data.y], np.zeros(len(self.attacks) + 1, int)
        for number, each in enumerate(self.attacks, 1):
            if each.poison is not None and (self.who == number).any():
                shifts[number] = len(data.y) * len(xs)
                x, y = each.poison(data.x, data.y, len(data.classes))
                xs, ys = [*xs, x], [*ys, y]
        if len(xs) == 1:
            return data, partitions
        shifted = [
            [rows + shift for rows, shift in zip(parts, shifts[mine], strict=True)]
            for parts, mine in zip(partitions, self.who, strict=True)
        ]
        return data._replace(x=np.concatenate(xs), y=np.concatenate(ys)), shifted

    def _factors(self, field: str) -> Array:
        return np.array([1.0, *(getattr(each, field) for each in self.attacks)])[self.who]


def draw_attackers(configs: Sequence[RunConfig], clients: int) -> Attackers:
    """Every trial's attackers: the first of its own seed's order of clients, attack by attack."""
    known: dict[str, Attack] = {}
    who = np.zeros((len(configs), clients), int)
    for trial, config in enumerate(configs):
        order = np.random.default_rng([config.seed, DRAW]).permutation(clients)
        begin = 0
        for each in attack.make(config.attack):
            if begin + each.clients > clients:
                raise UserError(f"The attack {config.attack!r} needs more than {clients} clients.")
            known.setdefault(each.name, each)
            who[trial, order[begin : begin + each.clients]] = list(known).index(each.name) + 1
            begin += each.clients
    return Attackers(tuple(known.values()), who)
