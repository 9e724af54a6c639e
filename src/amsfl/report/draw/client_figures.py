"""Figures with a line a client: the steps it was given, and how far they made it drift."""

from typing import TYPE_CHECKING, Any

import numpy as np

from amsfl.report.draw import style
from amsfl.report.draw.drawing import Drawn, canvas, colour
from amsfl.report.measure import curves
from amsfl.report.measure.measures import Measured
from amsfl.report.measure.subject import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 8  # clients that can be drawn one by one
MARKS = "osvD^PX*"
SPANS = 30  # of time, at most, that drift is summed up in


def steps(study: Study) -> Drawn | None:
    """A planner's steps in the first trial, as they were, and their mean over trials."""
    planned = [one for one in study.found if curves.plans(one.series)]
    if not planned:
        return None
    panels = [
        (one, trials, f"{one.series.label}, {title}")
        for one in planned
        for trials, title in ((slice(1), "first trial"), (slice(None), "mean over trials"))
        if trials.stop or len(one.series.trials) > 1
    ]
    figure, grid = canvas(0.9 + 2.0 * len(panels), len(panels), 1, sharex=True)
    for axes, (one, trials, title) in zip(grid[:, 0], panels, strict=True):
        rows = [curves.middle(curves.steps(one.series, i)[trials]) for i in range(curves.clients(one.series))]
        _lines(axes, study, one, rows, np.arange(1, len(rows[0]) + 1))
        axes.set_title(title)
        axes.set_ylabel("local steps")
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter("{x:g}")
    grid[-1, 0].set_xlabel("round")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2)
    rest = [one.series for one in study.found if one not in planned]
    fixed = [f"{series.label} {series.trials[0].rounds[0]['steps'][0]}" for series in rest]
    caption = "A client keeps its speed; its data differ from trial to trial, and its steps with them."
    caption += f" The others do the same number everywhere: {', '.join(fixed)}." if fixed else ""
    return Drawn("steps", "Steps of every client", caption, figure)


def drift(study: Study) -> Drawn | None:
    read = [one for one in study.found if any(r["readings"] for t in one.series.trials for r in t.rounds)]
    if not read:
        return None
    columns = 2 if len(read) > 1 else 1
    height = -(-len(read) // columns)
    figure, grid = canvas(1.0 + 1.6 * height, height, columns, sharex=True, sharey=True)
    for axes, one in zip(grid.flat, read, strict=False):
        shortest = min(len(trial.rounds) for trial in one.series.trials)
        edges = np.linspace(0, study.horizon, min(SPANS, max(2, shortest // 2)) + 1)
        found = [curves.drift(one.series, i, study.clock, edges) for i in range(curves.clients(one.series))]
        _lines(axes, study, one, found, (edges[1:] + edges[:-1]) / 2)
        axes.set_title(one.series.label, fontsize=9)
        axes.set_yscale("log")
    for axes in grid.flat[len(read) :]:
        axes.set_visible(False)
    for axes in grid.flat[len(read) - columns : len(read)]:
        axes.tick_params(labelbottom=True)  # the last panel of each column, whatever stands below it
        axes.set_xlabel(f"virtual seconds ({study.clock})")
    for axes in grid[:, 0]:
        axes.set_ylabel("‖Δg‖ / ‖g‖")
    figure.legend(*_keys(grid.flat[0]), loc="outside upper center", ncols=2)
    caption = (
        "How far a client's own steps turn the gradient of its first minibatch away from what it was: change "
        "over size, median over rounds and trials in spans of time."
    )
    return Drawn("drift", "Drift of every client", caption, figure)


def _lines(axes: "Axes", study: Study, one: Measured, rows: list[Any], x: Any) -> None:
    """A line a client in tones of the method's colour, dashes and markers apart; many: percentiles."""
    from matplotlib.colors import to_rgb

    if len(rows) > FEW:
        spread = np.nanpercentile(np.array(rows), [10, 50, 90], axis=0)
        lines = list(zip(spread, ("10% of clients below", "median client", "90% below"), strict=True))
    else:
        lines = [(row, _name(study, i)) for i, row in enumerate(rows)]
    base = np.array(to_rgb(colour(one)))
    for i, (row, label) in enumerate(lines):
        tone = np.clip(base * (1 - 0.3 * i / len(lines)) + 0.2 * (1 - i / len(lines)), 0, 1)
        every = max(1, len(x) // 6)
        axes.plot(
            x,
            row,
            color=tuple(tone),
            linewidth=1.4,
            linestyle=style.dash(i),
            marker=MARKS[i],
            ms=4,
            markevery=(i * every // len(lines), every),
            label=label,
        )


def _name(study: Study, client: int) -> str:
    if client >= len(study.step_seconds):
        return f"C{client + 1}"
    return f"C{client + 1}, {1000 * study.step_seconds[client]:.3g} ms a step"


def _keys(axes: "Axes") -> tuple[list[Any], list[str]]:
    """A legend for panels of several colours: dashes and markers in ink."""
    from matplotlib.lines import Line2D

    handles, labels = axes.get_legend_handles_labels()
    looks: list[Any] = [
        Line2D([], [], color=style.INK, linestyle=style.dash(i), marker=MARKS[i], ms=4)
        for i in range(len(handles))
    ]
    return looks, [str(label) for label in labels]
