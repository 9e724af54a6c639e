"""Who holds which rows: a spec such as 'dirichlet:0.5' becomes one index array per client.

All schemes give every row to exactly one client and leave none empty; the same seed gives the same
partition. Everything is an array operation over rows or over clients, never over both.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from amsfl.core import UserError, nearest
from amsfl.data.dataset import IntArray, Labels, random_stream, strata

Rng = np.random.Generator
Shares = npt.NDArray[np.float64]
ENOUGH = 2  # rows that repair gives every client where there are that many


def partition(
    spec: str,
    y: Labels,
    clients: int,
    seed: int,
    *,
    shares: Sequence[float] | npt.NDArray[np.float64] | None = None,
    sites: IntArray | None = None,
    site_names: Sequence[str] = (),
) -> list[IntArray]:
    """Row indices for each client: disjoint, covering all rows, none empty, sorted.

    - `iid`: shuffled rows in equal numbers;
    - `dirichlet:ALPHA`: label skew, each class dealt by its own Dirichlet(ALPHA) draw over the clients
      (Hsu, Qi, Brown, arXiv 1909.06335, the by-class form of Yurochkin et al. 2019);
    - `shards:K`: rows sorted by label, cut into clients x K shards, K to a client (McMahan et al. 2017);
    - `labels:K`: every client has K classes; a class is shared evenly by those who have it (Li et al. 2022,
      arXiv 2102.02079);
    - `quantity:ALPHA`: labels as in the whole, sizes by one Dirichlet(ALPHA) draw;
    - `column` (or `site`): the data's own client column; nothing is moved.

    `shares` is the fraction of rows each client should hold in expectation (default: equal); Dirichlet
    concentrations become ALPHA x clients x share. A column ignores it: its sizes are what they are.
    Where numbers are predicted, tenths of their rows, from small to large, stand for classes.

    Args:
        spec: One of the above.
        y: The label of every row.
        clients: How many.
        seed: Of the deal.
        shares: Expected fractions a client.
        sites: Of every row, an index into `site_names`.
        site_names: Names of the sites.

    Returns:
        Sorted row indices, one array a client.
    """
    name, _, argument = spec.strip().partition(":")
    if clients < 1:
        raise UserError(f"A federation needs at least one client; got {clients}.")
    if name in ("column", "site"):
        return _by_site(clients, sites, site_names)
    if name not in SCHEMES:
        raise UserError(f"Unknown partition {spec!r}{nearest(name, [*SCHEMES, 'column'])}.")
    if len(y) < clients:
        raise UserError(
            f"{clients} clients cannot share {len(y)} training rows; use at most {len(y)} clients."
        )
    wanted, number = _shares(shares, clients), _number(name, argument)
    owner = SCHEMES[name][0](strata(y), wanted, number, random_stream(seed, "partition"))
    return _groups(_repaired(owner, clients, random_stream(seed, "repair")), clients)


def _iid(y: IntArray, shares: Shares, _: float, rng: Rng) -> IntArray:
    return rng.permutation(_deal(len(y), shares))


def _quantity(y: IntArray, shares: Shares, alpha: float, rng: Rng) -> IntArray:
    return _iid(y, rng.dirichlet(alpha * len(shares) * shares), 0.0, rng)


def _dirichlet(y: IntArray, shares: Shares, alpha: float, rng: Rng) -> IntArray:
    owner = np.empty(len(y), np.int64)
    for label in np.flatnonzero(np.bincount(y)):  # those there are, at a tenth of what np.unique takes
        rows = np.flatnonzero(y == label)
        owner[rows] = _quantity(rows, shares, alpha, rng)
    return owner


def _shards(y: IntArray, shares: Shares, per_client: float, rng: Rng) -> IntArray:
    """Shards of one client are equally long; unequal shares make its shards longer, not more."""
    if per_client * len(shares) > len(y):
        raise UserError(
            f"{per_client:g} shards for each of {len(shares)} clients are more than {len(y)} training rows; "
            "use fewer shards."
        )
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    holder = rng.permutation(np.repeat(np.arange(len(shares)), int(per_client)))
    owner = np.empty(len(y), np.int64)
    owner[order] = holder[_deal(len(y), shares[holder] / per_client)]
    return owner


def _labels(y: IntArray, shares: Shares, per_client: float, rng: Rng) -> IntArray:
    """Client i has class i (counted round), then those that nobody has, then any: so every class is held."""
    count, clients, classes = int(per_client), len(shares), np.flatnonzero(np.bincount(y))
    if not len(classes) <= count * clients or count > len(classes):
        raise UserError(
            f"{clients} clients of {count} classes each cannot hold {len(classes)} classes, all of them and "
            f"none twice; use labels:K with K from {-(-len(classes) // clients)} to {len(classes)}."
        )
    held = np.zeros((clients, len(classes)), bool)
    held[np.arange(clients), np.arange(clients) % len(classes)] = True
    for label in np.flatnonzero(~held.any(0)):
        held[rng.choice(np.flatnonzero(held.sum(1) == held.sum(1).min())), label] = True
    for mine in held:
        mine[rng.permutation(np.flatnonzero(~mine))[: count - mine.sum()]] = True
    owner = np.empty(len(y), np.int64)
    for place, label in enumerate(classes):
        rows, owners = np.flatnonzero(y == label), np.flatnonzero(held[:, place])
        owner[rows] = rng.permutation(owners[_deal(len(rows), shares[owners] / shares[owners].sum())])
    return owner


Scheme = Callable[[IntArray, Shares, float, Rng], IntArray]
SCHEMES: dict[str, tuple[Scheme, str, float, float, str]] = {  # how; the number: what, from, to, for example
    "iid": (_iid, "", 0, 0, ""),
    "dirichlet": (_dirichlet, "concentration", 1e-4, 1e6, "0.5"),
    "shards": (_shards, "whole number of shards a client", 1, 1e9, "2"),
    "labels": (_labels, "whole number of classes a client", 1, 1e9, "2"),
    "quantity": (_quantity, "concentration", 1e-4, 1e6, "1"),
}


def _number(name: str, argument: str) -> float:
    """The number after the colon, checked; iid has none."""
    _, what, low, high, example = SCHEMES[name]
    if not what:
        if argument:
            raise UserError(f"The iid partition takes no number; write 'iid', not 'iid:{argument}'.")
        return 0.0
    try:
        value = float(argument)
    except ValueError:
        value = float("nan")
    if not low <= value <= high or (what.startswith("whole") and value != int(value)):
        actual = f"got {argument!r}" if argument else "it has none"
        raise UserError(
            f"Partition {name!r} needs a {what} from {low:g} to {high:g} after the colon, {actual}; try "
            f"'{name}:{example}'."
        )
    return value


def _shares(shares: Sequence[float] | Shares | None, clients: int) -> Shares:
    wanted = np.ones(clients) if shares is None else np.asarray(shares, np.float64)
    if wanted.shape != (clients,):
        raise UserError(
            f"There are {clients} clients but {wanted.size} shares of the data; give one share each."
        )
    if not (np.isfinite(wanted).all() and (wanted > 0).all()):
        raise UserError(f"Every client's share of the data must be above 0; got {wanted.tolist()}.")
    return np.asarray(wanted / wanted.sum(), np.float64)


def _deal(n: int, shares: Shares) -> IntArray:
    """Cut n places into consecutive runs, one per share, each within one row of n x share."""
    edges = np.rint(np.cumsum(shares) * n).astype(np.int64)
    edges[-1] = n
    return np.repeat(np.arange(len(shares)), np.diff(edges, prepend=0))


def _repaired(owner: IntArray, clients: int, rng: Rng) -> IntArray:
    """Lift every client to ENOUGH rows (if there are so many), taking always from the largest.

    Taking one row at a time from the largest ends in cutting all to one level, found by bisection.
    """
    counts = np.bincount(owner, minlength=clients)
    need = np.maximum(min(ENOUGH, len(owner) // clients) - counts, 0)
    wanted = int(need.sum())
    if wanted == 0:
        return owner
    levels = range(1, int(counts.max()) + 1)  # cutting to the last that frees enough rows
    low = bisect_left(levels, True, key=lambda level: np.maximum(counts - level, 0).sum() < wanted)
    give = np.maximum(counts - low, 0)
    spare = np.flatnonzero(give)[: int(give.sum()) - wanted]
    give[spare] -= 1
    order = rng.permutation(len(owner))  # so that a donor's rows leave in no order of class
    order = order[np.argsort(owner[order], kind="stable")]
    rank = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    mended = owner.copy()
    mended[order[rank < np.repeat(give, counts)]] = rng.permutation(np.repeat(np.arange(clients), need))
    return mended


def _groups(owner: IntArray, clients: int) -> list[IntArray]:
    few = clients <= np.iinfo(np.uint16).max  # numpy counts small numbers, and compares large ones
    order = np.argsort(owner.astype(np.uint16) if few else owner, kind="stable")
    ends = np.cumsum(np.bincount(owner, minlength=clients))
    return [order[end - size : end] for end, size in zip(ends, np.diff(ends, prepend=0), strict=True)]


def _by_site(clients: int, sites: IntArray | None, names: Sequence[str]) -> list[IntArray]:
    if sites is None:
        raise UserError(
            "Partition 'column' needs a client column, and this data has none; pass --client-column NAME "
            "with a CSV, or use iid, dirichlet:0.5, shards:2, labels:2 or quantity:1."
        )
    site_count = len(names) or int(sites.max()) + 1
    if clients != site_count:
        raise UserError(
            f"The client column names {site_count} sites but there are {clients} clients; use {site_count}."
        )
    empty = np.flatnonzero(np.bincount(sites, minlength=site_count) == 0)
    if len(empty):
        site = names[empty[0]] if names else str(empty[0])
        raise UserError(
            f"Client {site!r} has no training rows: what it has is held out to judge by. Give it more rows, "
            "join it with another client, or leave its rows out. If that column names no clients, pass "
            "--drop with its name, or --partition iid."
        )
    return _groups(sites, site_count)
