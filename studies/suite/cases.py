"""The suite's cases: one line a case. KNOWN ones had a part in choosing AMSFL's numbers; NEW ones are of data
that no earlier case had used: they were written down before the first run on any of them, and chose nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

from amsfl.core import UserError, nearest

NEAR = "lognormal:0.02,1.0"
ROWS = 10_000  # of the training pool, at most


class Case(NamedTuple):
    """A row of the suite.

    `labels` says what is done to the labels of the training pool; the hold-out stays true. `random:P`: that
    share is drawn anew; `pair:P`: that share is moved to the next class.
    """

    name: str
    data: str  # one of the sets of sources.py
    model: str
    clients: int
    partition: str
    profiles: tuple[str, ...]  # one with fast networks, one with slow ones; several that deal rows alike
    cohort: int | None = None  # clients of a round; None: all
    batch: int = 32
    labels: str = ""
    rows: int = ROWS


# fmt: off
KNOWN = (
    Case("rats", "rats", "mlp", 24, "column", (NEAR, "far")),
    Case("letter-noise", "letter", "mlp", 20, "dirichlet:0.5", ("mild", "wan"), labels="random:0.3"),
    Case("penbased", "penbased", "mlp", 100, "shards:2", (NEAR, "far"), cohort=20),
    Case("penbased-few", "penbased", "mlp:32", 40, "dirichlet:0.5", (NEAR, "wan"), rows=800, batch=10),
    Case("magic", "magic", "mlp", 30, "dirichlet:0.3", (NEAR, "far"), cohort=10),
    Case("texture", "texture", "mlp:32", 12, "shards:2", ("mild", "wan")),
    Case("spambase", "spambase", "mlp", 10, "dirichlet:0.3", ("wild", "wan")),
    Case("digits", "digits", "mlp", 10, "dirichlet:0.3", ("mild", "far")),
    Case("digits-noise", "digits", "mlp", 10, "dirichlet:0.5", ("wild", "wan"), labels="random:0.2"),
    Case("mnist-cnn", "mnist", "cnn:8", 20, "shards:2", (NEAR, "far"), cohort=10),
    Case("mnist-noise", "mnist", "mlp", 10, "dirichlet:0.3", (NEAR, "far"), labels="random:0.4"),
    Case("synthetic11", "synthetic11", "softmax", 30, "column", (NEAR, "wan"), cohort=10, batch=10),
    Case("hpc", "hpc", "mlp", 14, "column", (NEAR, "far")),
    Case("storms-noise", "storms", "mlp", 12, "dirichlet:0.5", ("mild", "wan"), labels="pair:0.25"),
    Case("knots-cnn", "knots", "cnn:4", 20, "shards:2", (NEAR, "far"), cohort=10),
    Case("knots-noise", "knots", "mlp", 20, "dirichlet:0.3", ("mild", "wan"), cohort=5, labels="random:0.3"),
    Case("signs-cnn", "signs", "cnn:4", 40, "shards:2", (NEAR, "wan"), cohort=10),
    Case("schooling", "schooling", "mlp", 20, "dirichlet:0.5", ("wild", "far"), cohort=6),
    Case("tic-tac-toe", "tic-tac-toe", "mlp:32", 8, "dirichlet:0.5", ("wild", "far")),
    Case("continents-noise", "continents", "mlp", 8, "dirichlet:0.5", (NEAR, "wan"), labels="random:0.4"),
    Case("diseases-pair", "diseases", "mlp:32", 15, "dirichlet:0.5", ("wild", "wan"), labels="pair:0.25"),
    Case("cars", "cars", "mlp:32", 15, "dirichlet:0.5", (NEAR, "wan"), cohort=5),
    Case("jobs-noise", "jobs", "mlp:32", 24, "dirichlet:0.5", (NEAR, "wan"), cohort=6, labels="random:0.3"),
    Case("wdbc-noise", "wdbc", "softmax", 5, "dirichlet:1", (NEAR, "wan"), labels="random:0.3"),
)
NEW = (
    Case("states", "states", "mlp:32", 51, "column", (NEAR, "far"), cohort=12),
    Case("joy", "joy", "mlp", 9, "column", ("wild", "far"), batch=64),
    Case("injuries-pair", "injuries", "mlp", 10, "dirichlet:0.5", (NEAR, "wan"), labels="pair:0.25"),
    Case("mothers-noise", "mothers", "mlp:32", 20, "dirichlet:0.3", (NEAR, "far"), 8, labels="random:0.3"),
    Case("sums-few", "sums", "mlp:32", 8, "dirichlet:1", ("mild", "far"), batch=8),
    Case("routes", "routes", "mlp", 4, "column", ("mild", "wan")),
    Case("colleges", "colleges", "mlp", 15, "dirichlet:0.5", ("wild", "wan"), cohort=5),
    Case("maths", "maths", "softmax", 10, "shards:2", (NEAR, "far")),
    Case("lawmakers", "lawmakers", "mlp", 10, "dirichlet:0.5", ("mild", "far")),
    Case("meals", "meals", "mlp:32", 15, "column", (NEAR, "wan"), cohort=5),
    Case("meters", "meters", "mlp:32", 8, "shards:2", ("wild", "far"), batch=16),
    Case("clocks-cnn", "clocks", "cnn:4", 30, "shards:2", (NEAR, "far"), cohort=10),
    Case("clocks-noise", "clocks", "mlp", 20, "dirichlet:0.3", ("mild", "wan"), labels="random:0.3"),
    Case("polygons-cnn", "polygons", "cnn:8", 24, "column", (NEAR, "far"), cohort=6),
    Case("polygons", "polygons", "mlp", 24, "column", (NEAR, "wan")),
)
# the paper's own data, twenty settings with both clocks; slow-big gives half of the rows to one client
NSLKDD = tuple(
    Case(f"nslkdd-{alpha}-{name}", "nslkdd", "mlp", 5, f"dirichlet:{alpha}", profiles, batch=64, rows=200_000)
    for alpha in ("0.1", "0.5")
    for name, profiles in (("alike", ("mild", "wild", "far", "wan")), ("big", ("slow-big",)))
)
# fmt: on
ALL = (*KNOWN, *NEW)
GROUPS = {"known": KNOWN, "new": NEW, "all": ALL, "nslkdd": NSLKDD}
GROUPS["wrong-labels"] = tuple(case for case in ALL if case.labels)
GROUPS["part-cohorts"] = tuple(case for case in ALL if case.cohort)
BELOW_100 = ("penbased", "penbased-few", "tic-tac-toe", "wdbc-noise", "sums-few")  # rows of a client
GROUPS["few-rows"] = tuple(case for case in ALL if case.name in BELOW_100)
BY_NAME = {case.name: case for case in (*ALL, *NSLKDD)}


def pick(name: str) -> Sequence[Case]:
    """A group of cases, or one by its name."""
    if name in GROUPS:
        return GROUPS[name]
    if name not in BY_NAME:
        raise UserError(f"Unknown case {name!r}{nearest(name, [*GROUPS, *BY_NAME])}.")
    return [BY_NAME[name]]
