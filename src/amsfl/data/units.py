"""Numbers that people wrote with their unit (12%, $12, 12 kg): where all of a column have the same."""

import re
from collections.abc import Collection, Sequence

from amsfl.data.cell_values import numbers, spelling
from amsfl.data.read_table import RawTable

MONEY = ("€", "$", "£", "¥", "EUR", "USD", "GBP", "CHF")  # before or behind
BEHIND = (
    *("%", "kg", "mg", "g", "km", "cm", "mm", "m", "ml", "l", "mmHg", "bpm", "°C", "°F", "h", "min"),
    *("s", "ms", *MONEY),
)
NUMBER = r"\d[\d.,]*"


def bare(cell: str, unit: str) -> str | None:
    """The number without that unit; None where this is no number with it. Codes such as s12 keep theirs."""
    before = re.fullmatch(rf"(-?){re.escape(unit)}\s*(-?{NUMBER})", cell) if unit in MONEY else None
    if before:
        return before[1] + before[2]
    behind = re.fullmatch(rf"(-?{NUMBER})\s*{re.escape(unit)}", cell)
    return behind[1] if behind else None


def without_units(table: RawTable, names: Collection[str]) -> RawTable:
    """These columns' numbers without the unit that all of them have, and a remark on each."""
    columns, units, said = dict(table.columns), list(table.units), list[str]()
    for name in names:
        unit = common(columns[name], table.commas)
        if unit:
            columns[name] = [bare(cell, unit) or "" for cell in columns[name]]
            units.append((name, unit))
            said.append(f"Numbers in {name!r} are read without their {unit!r}.")
    if not said:
        return table
    return table._replace(columns=columns, units=tuple(units), remarks=(*table.remarks, *said))


def common(cells: Sequence[str], commas: bool) -> str:
    """The unit of all cells but gaps; '' where there is none, or not the same, or no numbers are left."""
    first = next((cell for cell in cells if cell), "")
    unit = next((unit for unit in BEHIND if bare(first, unit) is not None), "")
    if not unit:
        return ""
    rest = [bare(cell, unit) or "no number" for cell in cells if cell]
    return unit if spelling(rest, numbers(commas)) else ""
