"""The robustness study as a picture: accuracy under the worst attack, a mark by how many attack."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from amsfl.report.draw import style
from amsfl.report.draw.drawing import canvas, legend, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Row(Protocol):
    """One contestant against so many attackers."""

    @property
    def name(self) -> str: ...
    @property
    def foes(self) -> int: ...
    @property
    def honest(self) -> float: ...
    @property
    def worst(self) -> float: ...


def draw(rows: Sequence[Row], folder: Path) -> None:
    """robustness.png and .svg: a line a contestant, a mark for every number of attackers; hollow: none."""
    if rows:
        save("robustness", "Under the worst attack", lambda: _figure(rows), folder)


def _figure(rows: Sequence[Row]) -> "Figure":
    from matplotlib.lines import Line2D

    names = list(dict.fromkeys(row.name for row in rows))
    counts = sorted({row.foes for row in rows})
    looks = {foes: style.look(place) for place, foes in enumerate(counts)}
    figure, grid = canvas(0.3 * len(names) + 1.3)
    axes = grid[0][0]
    for row in rows:
        place, look = names.index(row.name), looks[row.foes]
        axes.plot(row.honest, place, "o", color=style.INK, mfc="none", ms=5, mew=0.8)
        axes.plot(row.worst, place, look.marker.code, color=look.colour, ms=6, mew=0)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("accuracy under the worst attack")
    keys = [Line2D([], [], color=style.INK, marker="o", mfc="none", mew=0.8, ls="")]
    keys += [Line2D([], [], color=look.colour, marker=look.marker.code, ls="") for look in looks.values()]
    labels = ["nobody attacks", *(f"{foes} of ten" for foes in counts)]
    legend(figure, keys, labels, columns=len(labels))
    return figure
