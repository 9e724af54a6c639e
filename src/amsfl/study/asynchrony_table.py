"""The asynchrony study as a table: seconds by contestant and profile, and by how much waiting was longer."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from amsfl.study.asynchrony import BASE, PRESENCE, PROFILES, TARGET, Cell

WORDS = {"always": "Clients that are always there", PRESENCE[1]: "Clients that come and go"}


class Row(NamedTuple):
    """A contestant under one presence."""

    name: str
    availability: str
    cells: list[Cell]  # by profile
    factor: float  # times as fast as FedAvg that waits for all: geometric mean over profiles
    bound: bool  # whether somebody did not get there: then the factor says no more than about


def table(cells: Sequence[Cell]) -> list[Row]:
    """One row a contestant and presence that has been run in all profiles."""
    by = {(cell.name, cell.availability, cell.profile): cell for cell in cells}
    names = list(dict.fromkeys(cell.name for cell in cells))
    found = []
    for presence in PRESENCE:
        for name in names:
            mine = [by.get((name, presence, profile)) for profile in PROFILES]
            base = [by.get((BASE, presence, profile)) for profile in PROFILES]
            pairs = [(a, b) for a, b in zip(mine, base, strict=True) if a is not None and b is not None]
            if len(pairs) < len(PROFILES):
                continue
            logs = [math.log(b.seconds / a.seconds) for a, b in pairs]
            bound = not all(a.reached and b.reached for a, b in pairs)
            found.append(Row(name, presence, [a for a, _ in pairs], math.exp(sum(logs) / len(logs)), bound))
    return found


def as_markdown(rows: Sequence[Row]) -> str:
    lines = []
    for presence in dict.fromkeys(row.availability for row in rows):
        lines += [
            f"{WORDS.get(presence, presence)} (`--availability {presence}`), seconds to {TARGET:.0%}:",
            "",
            f"| contestant | {' | '.join(PROFILES)} | times as fast as {BASE} |",
            f"| --- | {' | '.join('---:' for _ in PROFILES)} | ---: |",
        ]
        for row in rows:
            if row.availability == presence:
                seconds = [f"{'' if c.reached else '> '}{c.seconds:.1f}" for c in row.cells]
                factor = f"{'about ' if row.bound else ''}{row.factor:.2f}"
                lines.append(f"| {row.name} | {' | '.join(seconds)} | {factor} |")
        lines.append("")
    return "\n".join(lines)
