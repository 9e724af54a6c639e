"""The adaptivity study as a picture: how many times as fast, against whom."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from amsfl.report.draw import style
from amsfl.report.draw.drawing import canvas, legend, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TICKS = (0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256)


class Speedup(Protocol):
    """One comparison to one target: a row of the study's table."""

    @property
    def who(self) -> str: ...
    @property
    def against(self) -> str: ...
    @property
    def target(self) -> float: ...
    @property
    def mean(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def worst(self) -> float: ...
    @property
    def best(self) -> float: ...


def draw(rows: Sequence[Speedup], folder: Path) -> None:
    """speedups.png and .svg: a line a comparison, a dot with its interval a target, worst to best thin."""
    if rows:
        save("speedups", "Times as fast", lambda: _figure(rows), folder)


def _figure(rows: Sequence[Speedup]) -> "Figure":
    from matplotlib.lines import Line2D

    pairs = list(dict.fromkeys((row.who, row.against) for row in rows))
    targets = sorted({row.target for row in rows})
    figure, grid = canvas(0.55 * len(pairs) + 1.4)
    axes = grid[0][0]
    for row in rows:
        place, nth = pairs.index((row.who, row.against)), targets.index(row.target)
        y = place + 0.72 * ((nth + 0.5) / len(targets) - 0.5)
        colour = style.look(nth).colour
        axes.plot([row.worst, row.best], [y, y], color=colour, lw=0.8, alpha=0.6)
        axes.plot([row.low, row.high], [y, y], color=colour, lw=3)
        axes.plot(row.mean, y, "o", color=colour, ms=5)
    axes.axvline(1, color=style.INK, lw=1, alpha=0.5)
    axes.set_xscale("log")
    low, high = min(row.worst for row in rows) / 1.5, max(row.best for row in rows) * 1.5
    ticks = [tick for tick in TICKS if low <= tick <= high]
    labels = [f"{tick:g}x" if tick >= 1 else f"1/{1 / tick:g}x" for tick in ticks]  # short: they stand close
    axes.set_xticks(ticks, labels, fontsize=7)
    axes.minorticks_off()
    axes.set_yticks(range(len(pairs)), [f"{who}\nagainst {other}" for who, other in pairs], fontsize=7)
    axes.set_ylim(len(pairs) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("times as fast\n(dot: mean over settings, bar: 95%, line: worst to best)", fontsize=7)
    keys = [Line2D([], [], color=style.look(n).colour, marker="o") for n in range(len(targets))]
    legend(figure, keys, [f"to {target:.0%}" for target in targets])
    return figure
