"""What a run's ledger comes to: of every client what it adds, what its leaving would take, and a sentence."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from amsfl.worth.costs import ClientCost
from amsfl.worth.ledger import Array
from amsfl.worth.shapley import EXACT, RowMean, RowScores, estimate, looked_up, shapley

NOISE = 0.05  # of `telling`: so little may be chance


class ClientWorth(NamedTuple):
    """What one client brings. Scores are shares of rows that are right; R² where numbers are predicted."""

    name: str
    adds: RowMean  # its Shapley value: its share of all that the clients together added to the first model
    missed: RowMean  # by how much the score would be lower without it
    joining: RowMean | None  # on its own rows: everybody's model over the one it would have alone
    own: float | None  # the score of everybody's model on its own rows
    twin: str  # a client that sends almost the same; "" for none
    telling: RowMean | None = None  # what of its labels follows from what the model says; 0: chance

    @property
    def kind(self) -> str:
        """harmful, useless, duplicate or useful.

        Whose rows have nothing to do with their labels is useless, if the model is no worse without it: even
        where it adds something, since it thins out what harmful clients send, or takes something away.
        """
        if self.telling is not None and self.telling.mean <= NOISE and self.missed.low <= 0:
            return "useless"
        if self.adds.high < 0:
            return "harmful"
        if self.adds.low <= 0:
            return "useless"
        return "duplicate" if self.twin else "useful"


class WorthStatement(NamedTuple):
    """The ledger at the end of a run, as summary.json has it."""

    score: str
    rows: int  # of the hold-out that coalitions were scored on
    first: float  # the score of the first model
    last: float
    exact: bool  # all coalitions were looked at
    clients: list[ClientWorth]

    @classmethod
    def read(cls, content: dict[str, Any]) -> "WorthStatement":
        """From a record."""

        def client(row: dict[str, Any]) -> ClientWorth:
            figures = {key: RowMean(*part) for key, part in row.items() if isinstance(part, list)}
            return ClientWorth(**row | figures)

        return cls(**content | {"clients": [client(row) for row in content["clients"]]})

    def plain(self) -> dict[str, Any]:
        """For a record."""
        rows = [
            {key: list(part) if isinstance(part, RowMean) else part for key, part in each._asdict().items()}
            for each in self.clients
        ]
        return self._asdict() | {"clients": rows}


class OwnRows(NamedTuple):
    """One client's own rows, scored by the model it would have alone and by everybody's."""

    alone: Array
    together: Array
    related: Array | None = None  # by everybody's, whatever it calls the classes (`related`)
    shuffled: Array | None = None  # the same with labels of other rows

    @property
    def telling(self) -> RowMean | None:
        """As Cohen's kappa, by labels shuffled: 0 where rows have nothing to do with their labels."""
        if self.related is None or self.shuffled is None or self.shuffled.mean() >= 1:
            return None
        return estimate((self.related - self.shuffled) / (1 - self.shuffled.mean()))


def related(predicted: Array, labels: Array) -> Array:
    """1 where a row's label is the commonest among rows with the same prediction, else 0.

    Labels that are all wrong in the same way are related to their rows, labels by chance are not.
    """
    table = np.zeros((int(predicted.max()) + 1, int(labels.max()) + 1), np.int64)
    np.add.at(table, (predicted, labels), 1)
    return np.asarray(table.argmax(1)[predicted] == labels, float)


def make_statement(
    score: str,
    names: Sequence[str],
    scores: RowScores,
    twins: Sequence[int | None],
    own: Sequence[OwnRows | None],
    by_clients: bool = False,
) -> WorthStatement:
    """The statement of a game of these clients; `twins` are the places of those who send the same.

    `by_clients`: there is one score a client, not one a row, and a client's worth leaves its own score out.
    """
    players = len(names)
    scores = looked_up(players, scores) if players <= EXACT else scores
    everybody = np.ones(players, bool)
    nobody, last, *others = scores(
        np.stack([~everybody, everybody, *(everybody ^ np.eye(players, dtype=bool))])
    )
    shares = shapley(players, scores)

    def scored_by_others(who: int, rows: Array) -> Array:
        return np.delete(rows, who) if by_clients and len(rows) > 1 else rows

    clients = [
        ClientWorth(
            name,
            estimate(scored_by_others(who, shares.rows[who]), float(shares.error[who])),
            estimate(scored_by_others(who, last - others[who])),
            None if mine is None else estimate(mine.together - mine.alone),
            None if mine is None else float(mine.together.mean()),
            "" if twin is None else names[twin],
            None if mine is None else mine.telling,
        )
        for who, (name, twin, mine) in enumerate(zip(names, twins, own, strict=True))
    ]
    return WorthStatement(
        score, len(last), float(nobody.mean()), float(last.mean()), players <= EXACT, clients
    )


def sentence(each: ClientWorth, cost: ClientCost, whole: float, end: str = "") -> str:
    """One client in a sentence; `whole` are all seconds of the run, `end` is what would be without it."""
    part = f"for {cost.seconds / whole:.0%} of the time" if whole > 0 else ""
    adds = f"adds {points(each.adds.mean)} points"
    if each.adds.high < 0:
        adds = f"takes {-points(each.adds.mean)} points away"
    elif each.kind == "useless":
        adds = "adds nothing that these rows can tell"
    twin = f"; it sends almost the same as {each.twin}" if each.twin else ""
    return f"{each.name} {adds} {part}{twin}{'; ' + end if end else ''}.".replace("  ", " ")


def points(share: float) -> float:
    """Hundredths, to a tenth."""
    return round(100 * share, 1)


def losers(statement: WorthStatement) -> list[str]:
    """Clients whose own rows are worse off with everybody's model than with their own, for certain."""
    return [each.name for each in statement.clients if each.joining is not None and each.joining.high < 0]


def worst_tenth(statement: WorthStatement) -> float | None:
    """The mean score on own rows over the tenth of clients that are worst off, one at least."""
    own = sorted(each.own for each in statement.clients if each.own is not None)
    return float(np.mean(own[: max(1, len(own) // 10)])) if own else None
