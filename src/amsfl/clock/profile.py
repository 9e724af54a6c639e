"""How fast clients are: seconds a step, latency and bandwidth, from a name, a CSV or a distribution."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from amsfl.core import UserError, nearest

Floats = np.ndarray[Any, np.dtype[np.float64]]

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
    "wan": ("slow clients near, fast ones far", [0.08, 0.01, 0.04, 0.02, 0.01], [0.5, 3, 1, 2, 0.5], None),
}

SHORTEST, LONGEST = 1e-9, 1e9  # seconds, or megabits a second, that a profile may say

COLUMNS = ("step_seconds", "latency", "up_mbps", "down_mbps")


@dataclass(frozen=True)
class Profile:
    """One entry per client. Bandwidths are in megabits a second, as people buy them."""

    name: str
    step_seconds: Floats
    latency: Floats  # seconds a round, both ways together
    up_mbps: Floats
    down_mbps: Floats
    shares: Floats | None = None  # expected shares of the data, where the profile says so

    @property
    def clients(self) -> int:
        return len(self.step_seconds)


def profile(spec: str, clients: int, seed: int = 0, names: Sequence[str] = ()) -> Profile:
    """A built-in name, a path ending in .csv, or `lognormal:MEDIAN,SIGMA` seconds a step.

    Built-in tables repeat after five clients; with `lognormal`, latencies are drawn alike around 0.1 s.
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
    return Profile(spec, tiled[0], tiled[1] / 2, mbps, mbps, None if parts is None else parts / parts.sum())


def _lognormal(spec: str, arguments: str, clients: int, seed: int) -> Profile:
    try:
        median, sigma = (float(part) for part in arguments.split(","))
    except ValueError:
        raise UserError(
            f"Profile {spec!r}: write lognormal:MEDIAN,SIGMA, as in lognormal:0.02,0.8."
        ) from None
    if not (SHORTEST <= median <= LONGEST and 0 <= sigma <= 10):
        raise UserError(
            f"Profile {spec!r}: the median goes from {SHORTEST:g} to {LONGEST:g} seconds, sigma from 0 to 10."
        )
    rng = np.random.default_rng([seed, 0x9F0F])
    step = median * np.exp(sigma * rng.standard_normal(clients))
    latency = 0.1 * np.exp(sigma * rng.standard_normal(clients))
    mbps = np.full(clients, 20.0)
    return Profile(spec, step, latency, mbps, mbps)


def read_profile(path: Path, clients: int, names: Sequence[str] = ()) -> Profile:
    """A CSV with the columns step_seconds, latency, up_mbps, down_mbps; one line a client.

    Lines are in the clients' order, or, with a column `client` and clients that have names, found by name.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            have: Sequence[str] = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = have
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"The profile {str(path)!r} cannot be read: {reason}.") from None
    for column in COLUMNS:
        if column not in have:
            raise UserError(
                f"The profile {str(path)!r} has no column {column!r}; it needs {', '.join(COLUMNS)} and has "
                f"{', '.join(have) or 'none'}."
            )
    if len(rows) != clients:
        raise UserError(
            f"The profile {str(path)!r} has {len(rows)} lines for {clients} clients; "
            f"give it one line a client, or use --clients {len(rows)}."
        )
    if names and "client" in have:
        rows = _by_name(path, rows, names)
    values = {column: _column(path, rows, column) for column in COLUMNS}
    return Profile(
        path.name, values["step_seconds"], values["latency"], values["up_mbps"], values["down_mbps"]
    )


def _by_name(path: Path, rows: list[dict[str, str]], names: Sequence[str]) -> list[dict[str, str]]:
    """The lines in the order of the clients' names."""
    found = {(row["client"] or "").strip(): row for row in rows}
    for name in found:
        if name not in names:
            raise UserError(f"The profile {str(path)!r}: no client is called {name!r}{nearest(name, names)}.")
    missing = [name for name in names if name not in found]
    if missing:
        raise UserError(f"The profile {str(path)!r} has no line for the client {missing[0]!r}; add it.")
    return [found[name] for name in names]


def _column(path: Path, rows: list[dict[str, str]], column: str) -> Floats:
    zero_allowed = column == "latency"
    numbers = []
    for line, row in enumerate(rows, start=2):
        try:
            number = float(row[column])
        except (TypeError, ValueError):
            number = float("nan")
        if not (0 if zero_allowed else SHORTEST) <= number <= LONGEST:
            wants = f"a number from {0 if zero_allowed else SHORTEST:g} to {LONGEST:g}"
            raise UserError(f"{path.name}, line {line}, column {column!r}: {row[column]!r} is not {wants}.")
        numbers.append(number)
    return np.array(numbers)
