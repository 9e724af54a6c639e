"""Ways to run a federation and how long each would take, as bars that need no explanation."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from amsfl.report.draw import style
from amsfl.report.draw.drawing import Drawn, Picture, canvas, render

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 9  # bars of a picture; the table has them all


class Way(NamedTuple):
    label: str  # as people say it
    seconds: float | None  # None: not within the time that was waited
    low: float | None
    high: float | None
    each: list[float]  # of the seeds that got there


def picture(ways: Sequence[Way], goal: str) -> Picture:
    """The soonest on top; the length of a bar is the time until the model is good enough."""
    import matplotlib

    with matplotlib.rc_context(style.RC):
        return render(_drawn([way for way in ways if way.seconds is not None][:MOST], goal), [])


def _drawn(ways: Sequence[Way], goal: str) -> Drawn:
    unit, name = _unit(max((way.seconds or 0.0) for way in ways))
    figure, grid = canvas(0.8 + 0.5 * len(ways))
    axes = grid[0][0]
    for place, way in enumerate(ways):
        _bar(axes, place, way, unit)
    axes.set_yticks([])
    axes.set_ylim(len(ways) - 0.4, -0.75)
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"{name} until {goal} is reached")
    caption = "The shorter, the sooner. A thin line is the interval over seeds, a dot one seed."
    return Drawn("forecast", "How long each would take", caption, figure)


def _bar(axes: "Axes", place: int, way: Way, unit: float) -> None:
    """Its name above it, so that a phone shows both."""
    colour = style.PALETTE[0] if place == 0 else style.PALETTE[3]
    assert way.seconds is not None
    axes.barh(place + 0.12, way.seconds / unit, 0.34, color=colour)
    if way.low is not None and way.high is not None:
        axes.plot([way.low / unit, way.high / unit], [place + 0.12] * 2, color=style.INK, linewidth=1.2)
    axes.plot([each / unit for each in way.each], [place + 0.12] * len(way.each), "o", ms=3, color=style.INK)
    axes.text(0, place - 0.1, f" {way.label}: {way.seconds / unit:.3g}", va="bottom", fontsize=8.5)


def _unit(longest: float) -> tuple[float, str]:
    """Seconds, minutes or hours, as a person would say it."""
    return (1.0, "seconds") if longest < 300 else (60.0, "minutes") if longest < 18000 else (3600.0, "hours")
