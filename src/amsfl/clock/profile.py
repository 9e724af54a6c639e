"""How fast clients are: seconds a step, latency and bandwidth, from a name, a table or a distribution."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from amsfl.clock.sites import LARGEST, SMALLEST, Floats, Sites, read_sites
from amsfl.core import UserError, nearest

# The built-in tables give seconds of communication for one round of FedAvg with the default model,
# MLP 122-64-32-5: 10,117 float32 numbers each way. Half of that is latency, half transfer.
REFERENCE_BYTES = 2 * 4 * 10_117

BUILT_IN: dict[str, tuple[str, list[float], list[float], list[float] | None]] = {
    # name: what it is, seconds a step, seconds of communication a round, shares of the data
    "uniform": ("equal clients, near", [0.01], [0.05], None),
    "mild": ("speeds within 3x, near", [0.01, 0.015, 0.02, 0.012, 0.03], [0.05, 0.05, 0.1, 0.05, 0.15], None),
    "wild": ("speeds within 8x, near", [0.08, 0.01, 0.04, 0.02, 0.01], [0.3, 0.1, 0.2, 0.1, 0.1], None),
    "slow-big": (
        "the slowest client holds half of the data",
        [0.01, 0.02, 0.06, 0.015, 0.03],
        [0.05] * 5,
        [0.125, 0.125, 0.5, 0.125, 0.125],
    ),
    "far": ("speeds within 8x, communication dear", [0.01, 0.02, 0.04, 0.015, 0.08], [1, 1.5, 2, 1, 3], None),
    "battery": (
        "two servers on the mains, three phones; joules and the price of a megabyte are known",
        [0.01, 0.012, 0.05, 0.06, 0.08],
        [0.05, 0.05, 0.2, 0.2, 0.3],
        None,
    ),
    "wan": ("slow clients near, fast ones far", [0.08, 0.01, 0.04, 0.02, 0.01], [0.5, 3, 1, 2, 0.5], None),
}

# servers draw 200 W while they compute, phones 4 W; a megabyte costs a phone 10 J and a cent
SPENT: dict[str, dict[str, list[float]]] = {
    "battery": {
        "joules_step": [2.0, 2.4, 0.2, 0.24, 0.32],
        "joules_mb": [0.5, 0.5, 10.0, 10.0, 10.0],
        "cost_mb": [0.0, 0.0, 0.01, 0.01, 0.01],
    }
}
SPENDING = ("joules_step", "joules_mb", "cost_mb")
LINKS = ("latency", "up_mbps", "down_mbps")
LUCK = ("jitter", "failure", "on_seconds", "off_seconds")  # clock/conditions.py takes them from the table


@dataclass(frozen=True)
class Profile:
    """One entry per client. Bandwidths are in megabits a second, as people buy them."""

    name: str
    step_seconds: Floats
    latency: Floats  # seconds a round, both ways together
    up_mbps: Floats
    down_mbps: Floats
    shares: Floats | None = None  # expected shares of the data, where the profile says so
    sites: Sites | None = None  # the table that it was read from, with all its columns
    used: frozenset[str] = frozenset()  # those columns of it that are in here
    spends: Mapping[str, Floats] = field(default_factory=dict)  # what is known of joules and money, by column

    @property
    def clients(self) -> int:
        return len(self.step_seconds)

    def unused(self, *also: str) -> str:
        """A sentence on columns of its table that neither the profile nor `also` uses."""
        return "" if self.sites is None else self.sites.unused({*self.used, *also})


def profile(spec: str, clients: int, seed: int = 0, names: Sequence[str] = ()) -> Profile:
    """A built-in name, a path ending in .csv, or `lognormal:MEDIAN,SIGMA` seconds a step.

    Built-in tables repeat after five clients; with `lognormal`, latencies are drawn alike around 0.1 s.

    Args:
        spec: The name, path or draw.
        clients: How many there are.
        seed: Of draws.
        names: The clients', where they have some: a table's lines are found by them.

    Returns:
        One number of each kind a client.
    """
    kind, _, arguments = spec.partition(":")
    if spec.endswith(".csv"):
        return read_profile(Path(spec), clients, names)
    if kind == "lognormal":
        return _lognormal(spec, arguments, clients, seed)
    if spec not in BUILT_IN:
        known = [*BUILT_IN, "lognormal:0.02,0.8", "FILE.csv"]
        raise UserError(f"Unknown profile {spec[:80]!r}{nearest(spec[:80], known)}.")
    _, step, comm, shares = BUILT_IN[spec]
    tiled = [np.resize(np.array(column, float), clients) for column in (step, comm)]
    mbps = np.array(8e-6 * REFERENCE_BYTES / (tiled[1] / 2))
    parts = None if shares is None else np.resize(np.array(shares), clients)
    parts = None if parts is None else parts / parts.sum()
    spends = {name: np.resize(np.array(column), clients) for name, column in SPENT.get(spec, {}).items()}
    return Profile(spec, tiled[0], tiled[1] / 2, mbps, mbps, parts, spends=spends)


def _lognormal(spec: str, arguments: str, clients: int, seed: int) -> Profile:
    try:
        median, sigma = (float(part) for part in arguments.split(","))
    except ValueError:
        raise UserError(
            f"Profile {spec!r}: write lognormal:MEDIAN,SIGMA, as in lognormal:0.02,0.8."
        ) from None
    if not (SMALLEST <= median <= LARGEST and 0 <= sigma <= 10):
        raise UserError(
            f"Profile {spec!r}: the median goes from {SMALLEST:g} to {LARGEST:g} seconds, sigma from 0 to 10."
        )
    rng = np.random.default_rng([seed, 0x9F0F])
    step = median * np.exp(sigma * rng.standard_normal(clients))
    latency = 0.1 * np.exp(sigma * rng.standard_normal(clients))
    mbps = np.full(clients, 20.0)
    return Profile(spec, step, latency, mbps, mbps)


def read_profile(path: Path, clients: int, names: Sequence[str] = ()) -> Profile:
    """A table of sites (clock/sites.py): step_seconds, and what of the rest is known.

    Communication is latency and transfer, or comm_seconds where the table has neither; nothing without.

    Args:
        path: Of the CSV.
        clients: How many there are.
        names: Theirs; without them lines are in their order.

    Returns:
        One number of each kind a client.
    """
    table = read_sites(path)
    table.need("step_seconds")
    table = table.of(clients, names)
    links = {name: table.get(name) for name in LINKS}
    whole = table.get("comm_seconds") if all(each is None for each in links.values()) else None
    weight = None if names else table.get("weight")  # clients with names have rows of their own
    used = {
        "step_seconds",
        *(LINKS if whole is None else ["comm_seconds"]),
        *(() if names else ["weight"]),
        *LUCK,
        *SPENDING,
    }
    if weight is not None and not weight.sum() > 0:
        raise UserError(f"{path}: all weights are 0; give each client its share, or leave the column out.")

    def column(name: str, otherwise: float) -> Floats:
        values = links[name]
        return np.full(clients, otherwise) if values is None else values

    return Profile(
        path.name,
        table.columns["step_seconds"],
        column("latency", 0.0) if whole is None else whole,
        column("up_mbps", LARGEST),
        column("down_mbps", LARGEST),
        None if weight is None else weight / weight.sum(),
        table,
        frozenset(used),
        {name: values for name in SPENDING if (values := table.get(name)) is not None},
    )
