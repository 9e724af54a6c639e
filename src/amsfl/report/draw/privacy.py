"""The privacy study as a picture: accuracy against epsilon."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from amsfl.report.draw import style
from amsfl.report.draw.drawing import canvas, legend, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Row(Protocol):
    """One contestant at one epsilon."""

    @property
    def name(self) -> str: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def accuracy(self) -> float: ...
    @property
    def error(self) -> float: ...


def draw(rows: Sequence[Row], folder: Path) -> None:
    """privacy.png and .svg: a line a contestant, bars of two standard errors."""
    if rows:
        save("privacy", "Accuracy against epsilon", lambda: _figure(rows), folder)


def _figure(rows: Sequence[Row]) -> "Figure":
    figure, grid = canvas(4.2)
    axes, keys = grid[0][0], []
    names = list(dict.fromkeys(row.name for row in rows))
    for place, name in enumerate(names):
        mine = sorted((row for row in rows if row.name == name), key=lambda row: row.epsilon)
        look = style.look(place)
        x, y = [row.epsilon for row in mine], [row.accuracy for row in mine]
        bars = [0.0 if row.error != row.error else 2 * row.error for row in mine]
        axes.errorbar(x, y, yerr=bars, capsize=2, color=look.colour, ls="none", lw=1)
        keys += axes.plot(x, y, color=look.colour, marker=look.marker.code, ls=look.line, ms=4, lw=1.4)
    axes.set_xscale("log", base=2)
    ticks = sorted({row.epsilon for row in rows})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlabel("epsilon of every site")
    axes.set_ylabel("hold-out accuracy")
    legend(figure, keys, names)
    return figure
