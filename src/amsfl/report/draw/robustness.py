"""The robustness study as a picture: accuracy under the worst attack, by how many attack."""

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
    """robustness.png and .svg: a line a contestant; at 0 its accuracy without an attack."""
    if rows:
        save("robustness", "Under the worst attack", lambda: _figure(rows), folder)


def _figure(rows: Sequence[Row]) -> "Figure":
    figure, grid = canvas(4.2)
    axes, keys = grid[0][0], []
    names = list(dict.fromkeys(row.name for row in rows))
    for place, name in enumerate(names):
        mine = sorted((row for row in rows if row.name == name), key=lambda row: row.foes)
        look = style.look(place)
        x = [0, *(row.foes for row in mine)]
        y = [mine[0].honest, *(row.worst for row in mine)]
        keys += axes.plot(x, y, color=look.colour, marker=look.marker.code, ls=look.line, ms=4, lw=1.4)
    axes.set_xticks(range(max(row.foes for row in rows) + 1))
    axes.set_ylim(0, 1)
    axes.set_xlabel("clients that attack")
    axes.set_ylabel("accuracy under the worst attack")
    legend(figure, keys, names)
    return figure
