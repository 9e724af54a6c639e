"""How long each way to run a federation would take, as bars."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from amsfl.report.draw import style
from amsfl.report.draw.drawing import DrawnFigure, Picture, canvas, render

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 9  # bars; the table has all


class ForecastBar(NamedTuple):
    label: str
    seconds: float | None  # None: the target was not reached
    low: float | None
    high: float | None
    each: list[float]  # of the seeds that reached it


def picture(bars: Sequence[ForecastBar], goal: str) -> Picture | None:
    """The soonest on top; the length of a bar is the time to the target. None where nothing reached it."""
    import matplotlib

    bars = [bar for bar in bars if bar.seconds is not None][:MOST]
    with matplotlib.rc_context(style.RC):
        return render(_drawn(bars, goal), []) if bars else None


def _drawn(bars: Sequence[ForecastBar], goal: str) -> DrawnFigure:
    longest = max((bar.seconds or 0.0) for bar in bars)
    units = [(1.0, "seconds"), (60.0, "minutes"), (3600.0, "hours")]
    unit, name = units[(longest >= 300) + (longest >= 18000)]
    figure, grid = canvas(0.8 + 0.5 * len(bars))
    axes = grid[0][0]
    for place, bar in enumerate(bars):
        _bar(axes, place, bar, unit)
    axes.set_yticks([])
    axes.set_ylim(len(bars) - 0.4, -0.75)
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"{name} until {goal} is reached")
    caption = "A thin line is the interval over seeds, a dot one seed."
    return DrawnFigure("forecast", "How long each would take", caption, figure)


def _bar(axes: "Axes", place: int, bar: ForecastBar, unit: float) -> None:
    """With its label above it, so that a phone shows both."""
    colour = style.PALETTE[0] if place == 0 else style.PALETTE[3]
    assert bar.seconds is not None
    axes.barh(place + 0.12, bar.seconds / unit, 0.34, color=colour)
    if bar.low is not None and bar.high is not None:
        axes.plot([bar.low / unit, bar.high / unit], [place + 0.12] * 2, color=style.INK, linewidth=1.2)
    axes.plot([each / unit for each in bar.each], [place + 0.12] * len(bar.each), "o", ms=3, color=style.INK)
    axes.text(0, place - 0.1, f" {bar.label}: {bar.seconds / unit:.3g}", va="bottom", fontsize=8.5)
