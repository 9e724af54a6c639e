"""The energy study as a picture: joules against seconds to the target, a point a limit."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from amsfl.report.draw import style
from amsfl.report.draw.drawing import canvas, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Row(Protocol):
    """One limit on a round's joules."""

    @property
    def name(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def joules(self) -> float: ...
    @property
    def reached(self) -> bool: ...
    @property
    def ends(self) -> Sequence[Any]: ...


def draw(rows: Sequence[Row], folder: Path) -> None:
    """energy.png and .svg: means, joined in the order of the limits; small dots are seeds."""
    if rows:
        save("energy", "Time and energy", lambda: _figure(rows), folder)


def _figure(rows: Sequence[Row]) -> "Figure":
    figure, grid = canvas(3.8)
    axes, look = grid[0][0], style.look(0)
    for row in rows:
        for each in row.ends:
            marker = "o" if each.reached else ">"
            axes.plot(each.seconds, each.joules, marker, color=look.colour, ms=3.5, alpha=0.45, mew=0)
    axes.plot([row.seconds for row in rows], [row.joules for row in rows], "-", color=look.colour, lw=1.2)
    named: dict[tuple[float, float], list[str]] = {}  # limits that nobody feels lie on one another
    for row in rows:
        marker, at = "o" if row.reached else ">", (row.seconds, row.joules)
        axes.plot(*at, marker, color=look.colour, ms=7, mec=style.INK, mew=0.8)
        named.setdefault(at, []).append(row.name)
    for nth, (at, names) in enumerate(named.items()):
        away = (7, 5 if nth % 2 else -12)  # neighbours may be close
        axes.annotate(", ".join(names), at, away, textcoords="offset points", fontsize=8)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.margins(0.12)
    axes.set_xlabel("virtual seconds to the target")
    axes.set_ylabel("joules of all clients to the target")
    return figure
