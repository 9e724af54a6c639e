"""A site's own book of privacy: what its rows have told so far, and how many steps are left.

The server plans and orders; the site counts for itself. It counts every step whose outcome it sends, whether
the server took it or not, by the chance and the noise that it really had, and takes no step beyond

    epsilon of the order    what this run may cost, as its first order said
    epsilon of the site     in its node-config, with `delta`: what all runs together may cost

With `state-dir` the book is a file and outlives runs and restarts; without, it is in Flower's context, which
ends with a Flower run. An unreadable book is no empty one.
"""

import json
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from flwr.app import ConfigRecord, Context

from amsfl import privacy, sampling
from amsfl.core import UserError
from amsfl.flower.client import method_state
from amsfl.flower.messages import SPENT, Order, scalars
from amsfl.privacy import Event
from amsfl.record import read_sealed, write_sealed
from amsfl.record.disk import make_folder, safe_name

DELTA = 1e-5
LEAST = 1e-3  # noise of an order, over its clipping norm
IN_CONTEXT = "amsfl-privacy"


class LedgerEntry(NamedTuple):
    """One run: what was agreed when it began, and the steps since."""

    epsilon: float  # 0: no bound
    delta: float
    chance: float  # that a row is in a minibatch
    noise: float
    steps: int
    mechanism: str = "record"

    @property
    def event(self) -> Event:
        return Event(self.chance, self.noise, self.steps)


Entries = dict[str, LedgerEntry]  # by run


class SiteLedger:
    """The privacy ledger of the site that a context belongs to."""

    def __init__(self, context: Context):
        self.context, self.book = context, _read(context)
        self.own, self.delta = own_budget(context)

    def allow(self, order: Order, rows: int) -> int:
        """Steps that this order may have: as many as it asks for, fewer where privacy ends before."""
        terms = order.terms
        assert terms is not None
        if not (terms.noise >= LEAST and 0 < terms.delta < 1 and terms.epsilon >= 0):
            raise UserError(
                f"This order's noise, {terms.noise:g}, is next to none, or its epsilon or delta is no such "
                "number: this site's rows stay at home."
            )
        chance = sampling.share(sampling.chance(order.batch, rows))
        agreed = LedgerEntry(terms.epsilon, terms.delta, chance, terms.noise, 0, terms.mechanism)
        run = self.book.setdefault(order.run, agreed)
        if run is agreed and order.accepted != method_state.NEVER:
            raise UserError(
                "This site has lost its book of this run's privacy and does not know what is left: begin a "
                'new run, and give its --node-config a state-dir="/folder" that outlives it.'
            )
        if run._replace(steps=0) != agreed:
            raise UserError(
                "What this run told of each row was settled by its first order, and this one has another "
                "epsilon, delta, noise or batch, or this site other rows; begin a new run."
            )
        steps = most(order.steps, lambda count: self._fits(order.run, count))
        if not steps:
            raise UserError(f"{SPENT}: no further step of this site fits its epsilon.")
        return steps

    def charge(self, run: str, steps: int) -> int:
        """Write down what is about to be sent, before it is; the steps of this run so far."""
        self.book = self._with(run, steps)
        _write(self.context, self.book)
        return self.book[run].steps

    def left(self) -> float | None:
        """What is left of the site's own epsilon; None where it has none."""
        return None if self.own is None else max(self.own - self._spent(self.book), 0.0)

    def _spent(self, book: Entries) -> float:
        return privacy.poisson_gaussian(tuple(run.event for run in book.values() if run.steps), self.delta)

    def _fits(self, name: str, steps: int) -> bool:
        book = self._with(name, steps)
        run = book[name]
        if run.epsilon and privacy.poisson_gaussian((run.event,), run.delta) > run.epsilon:
            return False
        return self.own is None or self._spent(book) <= self.own

    def _with(self, name: str, steps: int) -> Entries:
        run = self.book[name]
        return {**self.book, name: run._replace(steps=run.steps + steps)}


def own_budget(context: Context) -> tuple[float | None, float]:
    """Epsilon and delta that a site allows itself over all runs, by its node-config; None: as orders say."""
    epsilon: Any = context.node_config.get("epsilon")
    delta: Any = context.node_config.get("delta", DELTA)
    if epsilon is None:
        return None, DELTA
    if not (0 < float(epsilon) < float("inf") and 0 < float(delta) < 1):
        raise UserError("A site's epsilon is above 0 and its delta between 0 and 1, in its --node-config.")
    if not context.node_config.get("state-dir"):
        raise UserError(
            "This site's epsilon is for all runs together, and it has nowhere to keep its book: add "
            'state-dir="/folder" to its --node-config.'
        )
    return float(epsilon), float(delta)


def check_open(context: Context, run: str) -> None:
    """Nothing raw leaves a site that has an epsilon of its own, nor one whose run is private."""
    if own_budget(context)[0] is not None or run in _read(context):
        raise UserError(
            "This site keeps its rows private, and what is asked for would leave as it is: train with "
            "epsilon, or privacy='record', and score on the server."
        )


def most(asked: int, fits: Callable[[int], bool]) -> int:
    """The most steps up to `asked` that fit, by halving."""
    return asked if fits(asked) else bisect_left(range(1, asked), True, key=lambda steps: not fits(steps))


def site_name(context: Context) -> str:
    """What a site calls itself: it keeps its seat and its book by that."""
    node = context.node_config
    return str(node.get("client") or node.get("partition-id", context.node_id))


def _path(context: Context) -> Path | None:
    folder: Any = context.node_config.get("state-dir")
    if not folder:
        return None
    name = safe_name(site_name(context), "The client's name")
    return Path(str(folder)).expanduser() / f"privacy-{name}.json"


def _read(context: Context) -> Entries:
    path, found = _path(context), dict[str, Any]()
    if path is not None and path.exists():
        found = read_sealed(path, "nobody knows any more what this site has told: it should tell no more.")
    elif path is None and IN_CONTEXT in context.state:
        found = json.loads(str(scalars(context.state, IN_CONTEXT)["book"]))
    return {name: LedgerEntry(**run) for name, run in found.items()}


def _write(context: Context, book: Entries) -> None:
    path, plain = _path(context), {name: run._asdict() for name, run in book.items()}
    if path is None:
        context.state[IN_CONTEXT] = ConfigRecord({"book": json.dumps(plain)})
        return
    make_folder(path.parent, private=True)
    write_sealed(path, plain, private=True)
