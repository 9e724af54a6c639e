"""How fast clients are, by a name, a draw, or a table of sites; and what a round costs them: seconds by
either clock, joules, megabytes.

The table of sites is one CSV for `amsfl plan`, `--profile FILE.csv` and `amsfl deploy --profile`. Whoever
reads it takes the columns that it needs.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import UserError, nearest

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[Any]] | Sequence[int]  # clients' numbers, or steps
Lines = list[tuple[int, dict[str, str]]]
CLOCKS = ("sum", "makespan")
MEGABYTE = 1e6
SEPARATORS = ",;\t"
NAME = "client"  # the column of names; all others hold numbers
SMALLEST, LARGEST = 1e-9, 1e9  # of a cell: seconds, megabits a second, shares, gains


COLUMNS: dict[str, tuple[str, float, float]] = {  # what a column holds, and between which bounds
    "weight": ("share of the data, on any scale", 0.0, LARGEST),
    "step_seconds": ("seconds of one local step", SMALLEST, LARGEST),
    "latency": ("seconds a round besides steps and transfer, both ways together", 0.0, LARGEST),
    "up_mbps": ("megabits a second towards the server", SMALLEST, LARGEST),
    "down_mbps": ("megabits a second from it", SMALLEST, LARGEST),
    "comm_seconds": ("seconds of all communication of a round, in place of the three before", 0.0, LARGEST),
    "gain": ("worth of a first step", 0.0, LARGEST),
    "fading": ("how fast that fades: the next step is worth exp(-fading) times as much", 0.0, LARGEST),
    "jitter": ("sigma of the lognormal factor on a round's steps and on its transfer", 0.0, 10.0),
    "failure": ("chance that a round of this client comes to nothing", 0.0, 1.0),
    "on_seconds": ("mean seconds that the client is there", SMALLEST, LARGEST),
    "off_seconds": ("mean seconds that it is away between", 0.0, LARGEST),
    "joules_step": ("joules of one local step", 0.0, LARGEST),
    "joules_mb": ("joules of a megabyte, up or down", 0.0, LARGEST),
    "epsilon": ("privacy that this client may spend", SMALLEST, LARGEST),
}


@dataclass(frozen=True)
class Sites:
    """What a table says: the clients' names, () without that column, and a number per client and column."""

    path: Path
    clients: tuple[str, ...]
    columns: Mapping[str, Floats]

    @property
    def count(self) -> int:
        return len(next(iter(self.columns.values())))

    def need(self, *columns: str) -> None:
        """Refuse a table without one of these."""
        for name in columns:
            if name not in self.columns and not (name == NAME and self.clients):
                there = ", ".join([*([NAME] if self.clients else []), *self.columns])
                raise UserError(f"{self.path} has no column {name!r}; the columns there are: {there}.")

    def of(self, clients: int, names: Sequence[str] = ()) -> "Sites":
        """The lines of these clients in their order: by name where both sides have names."""
        if self.count != clients:
            raise UserError(
                f"{self.path} has {self.count} lines for {clients} clients; "
                f"give it one line a client, or use --clients {self.count}."
            )
        if not (names and self.clients):
            return self
        for name in self.clients:
            if name not in names:
                raise UserError(f"{self.path}: no client is called {name!r}{nearest(name, names)}.")
        order = [self.clients.index(name) for name in names]  # as many names as lines, and each of them known
        return Sites(self.path, tuple(names), {key: column[order] for key, column in self.columns.items()})


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
        "two servers on the mains, three phones; joules are known",
        [0.01, 0.012, 0.05, 0.06, 0.08],
        [0.05, 0.05, 0.2, 0.2, 0.3],
        None,
    ),
    "wan": ("slow clients near, fast ones far", [0.08, 0.01, 0.04, 0.02, 0.01], [0.5, 3, 1, 2, 0.5], None),
}

# servers draw 200 W while they compute, phones 4 W; a megabyte costs a phone 10 J
SPENT: dict[str, dict[str, list[float]]] = {
    "battery": {
        "joules_step": [2.0, 2.4, 0.2, 0.24, 0.32],
        "joules_mb": [0.5, 0.5, 10.0, 10.0, 10.0],
    }
}
SPENDING = ("joules_step", "joules_mb")
LINKS = ("latency", "up_mbps", "down_mbps")


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
    spends: Mapping[str, Floats] = field(default_factory=dict)  # what is known of joules, by column

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
        median, sigma = two_numbers(arguments)
        if not (SMALLEST <= median <= LARGEST and 0 <= sigma <= 10):
            raise UserError(
                f"Profile {spec!r}: write lognormal:MEDIAN,SIGMA, as in lognormal:0.02,0.8; the median goes "
                f"from {SMALLEST:g} to {LARGEST:g} seconds, sigma from 0 to 10."
            )
        rng = np.random.default_rng([seed, 0x9F0F])
        steps, latencies = np.exp(sigma * rng.standard_normal((2, clients)))
        links = np.full(clients, 20.0)
        return Profile(spec, median * steps, 0.1 * latencies, links, links)
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


def two_numbers(text: str) -> tuple[float, float]:
    """Of `0.02,0.8`; NaN where it is something else."""
    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        return np.nan, np.nan
    return first, second


def read_profile(path: Path, clients: int, names: Sequence[str] = ()) -> Profile:
    """A table of sites : step_seconds, and what of the rest is known.

    Communication is latency and transfer, or comm_seconds where the table has neither; nothing without.
    """
    table = read_sites(path)
    table.need("step_seconds")
    table = table.of(clients, names)
    columns = table.columns
    whole = "comm_seconds" in columns and not {*LINKS} & {*columns}
    weight = None if names else columns.get("weight")  # clients with names have rows of their own
    if weight is not None and not weight.sum() > 0:
        raise UserError(f"{path}: all weights are 0; give each client its share, or leave the column out.")
    return Profile(
        path.name,
        columns["step_seconds"],
        columns["comm_seconds"] if whole else columns.get("latency", np.zeros(clients)),
        columns.get("up_mbps", np.full(clients, LARGEST)),
        columns.get("down_mbps", np.full(clients, LARGEST)),
        None if weight is None else weight / weight.sum(),
        table,
        {name: columns[name] for name in SPENDING if name in columns},
    )


def read_sites(path: Path) -> Sites:
    """The table of a CSV file; each mistake in it is one sentence."""
    header, lines = cells(path, "a CSV file of clients")
    if not set(header) & COLUMNS.keys():
        there = ", ".join(header) or "none"
        raise UserError(
            f"{path} has no column 'step_seconds'; the columns there are: {there}. 'amsfl methods' lists "
            "those of a table of sites."
        )
    for name in header:
        if name != NAME and name not in COLUMNS:
            raise UserError(f"{path} has an unknown column {name!r}{nearest(name, [NAME, *COLUMNS])}.")
        if header.count(name) > 1:
            raise UserError(f"{path} has the column {name!r} twice; keep one.")
    if not lines:
        raise UserError(f"{path} has a header but no clients; add one row per client.")
    long = next((row for row, line in lines if None in line), None)
    if long is not None:
        raise UserError(f"{path}, line {long} has more cells than the header has columns.")
    columns = {
        name: np.array([_number(path, row, name, line[name]) for row, line in lines])
        for name in header
        if name != NAME
    }
    return Sites(path, _names(path, lines) if NAME in header else (), columns)


def _names(path: Path, lines: Sequence[tuple[int, Mapping[str, str | None]]]) -> tuple[str, ...]:
    rows: dict[str, int] = {}
    for row, line in lines:
        name = (line[NAME] or "").strip()
        if not name:
            raise UserError(f"{path}, line {row}: the client has no name; fill in column 'client'.")
        if name in rows:
            raise UserError(
                f"{path}, line {row}: client {name!r} is already on line {rows[name]}; every name once."
            )
        rows[name] = row
    return tuple(rows)


def _number(path: Path, row: int, name: str, text: str | None) -> float:
    where, (_, least, most) = f"{path}, line {row}: {name}", COLUMNS[name]
    try:
        number = float(text or "")
    except ValueError:
        shown = "empty" if not (text or "").strip() else f"{text!r}, not a number"
        raise UserError(f"{where} is {shown}; give a number.") from None
    if not least <= number <= most:
        raise UserError(f"{where} is {number:g}; give a number from {least:g} to {most:g}.")
    return number


def cells(path: Path, wanted: str) -> tuple[Sequence[str], Lines]:
    """The header and the lines of a CSV, each with its number; `wanted` says what it should have been.

    The header says what separates cells; where that is no comma, 0,5 is a half.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            text = list(file)
        separator = max(SEPARATORS, key=text[0].count) if text else ","
        reader = csv.DictReader(text, delimiter=separator)
        header: Sequence[str] = [name.strip() for name in reader.fieldnames or ()]
        reader.fieldnames = header
        lines = [(reader.line_num, line) for line in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"Cannot read {path}: {reason}. Give {wanted}.") from error
    if separator == ",":
        return header, lines
    return header, [(row, {name: _decimal(name, cell) for name, cell in line.items()}) for row, line in lines]


def _decimal(column: str, cell: str) -> str:
    """`0,5` as `0.5`, but not in names; anything else as it is. Cells beyond the header come as a list."""
    if column == NAME or not isinstance(cell, str):
        return cell
    return re.sub(r"^(\s*[-+]?\d*),(\d+\s*)$", r"\1.\2", cell)


class Overhead(NamedTuple):
    """What one round of a method asks of a client besides its steps."""

    bytes_down: float
    bytes_up: float
    extra_gradients: float | Floats = 0.0  # of everybody, or of each client
    extra_per_step: float = 0.0


class Account(NamedTuple):
    """What client i spends in a round of t steps: per_step[i] * t + start[i] + upload[i]."""

    per_step: Floats
    start: Floats  # the download, and what is computed besides the steps
    upload: Floats  # what only work that comes in has spent


class Costs(NamedTuple):
    """Seconds of client i for t steps: step_seconds[i] * t + comm_seconds[i]."""

    step_seconds: Floats
    comm_seconds: Floats  # everything that does not depend on the steps
    accounts: Mapping[str, Account] = {}  # what else it spends, by name


def costs(profile: Profile, job: Overhead) -> Costs:
    """What each client's steps and rounds take: megabytes always, joules where they are known."""
    none, known = np.zeros(profile.clients), profile.spends
    down, up = (np.full(profile.clients, each / MEGABYTE) for each in (job.bytes_down, job.bytes_up))
    accounts = {"megabytes": Account(none, down, up)}
    link = profile.latency + 8e-6 * (job.bytes_down / profile.down_mbps + job.bytes_up / profile.up_mbps)
    if "joules_step" in known or "joules_mb" in known:
        step, each = known.get("joules_step", none), known.get("joules_mb", none)
        begun = each * down + step * job.extra_gradients
        accounts["joules"] = Account(step * (1 + job.extra_per_step), begun, each * up)
    return Costs(
        profile.step_seconds * (1 + job.extra_per_step),
        link + profile.step_seconds * job.extra_gradients,
        accounts,
    )


def client_seconds(cost: Costs, cohort: Ints, steps: Ints) -> Floats:
    """What each of a round's clients takes, in the cohort's order."""
    return np.asarray(cost.step_seconds[cohort] * np.asarray(steps) + cost.comm_seconds[cohort])


def round_seconds(cost: Costs, cohort: Ints, steps: Ints) -> dict[str, float]:
    """One round by both models: clients one after another (sum), or side by side (makespan)."""
    each = client_seconds(cost, cohort, steps)
    return {"sum": float(each.sum()), "makespan": float(each.max())}


def check_clock(name: str) -> str:
    """The name of a clock, or a sentence that lists them."""
    if name not in CLOCKS:
        raise UserError(f"Unknown clock {name!r}{nearest(name, CLOCKS)}.")
    return name
