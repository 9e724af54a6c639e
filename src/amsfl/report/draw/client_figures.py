"""Figures of every client: the steps it was given, and how far they made it drift."""

import numpy as np

from amsfl.report.draw.client_lines import FEW, draw_lines, ink_legend
from amsfl.report.draw.drawing import Drawn, canvas, legend, name
from amsfl.report.draw.step_map import heat_map
from amsfl.report.measure import clients
from amsfl.report.measure.measures import Measured
from amsfl.report.measure.subject import Study

SPANS = 30  # of time, at most, that drift is summed up in
LEAST = 5.0  # times the lowest drift that its axis goes up to


def steps(study: Study) -> Drawn | None:
    """A planner's steps: client by client, or as a map where there are many."""
    planned = [one for one in study.found if clients.plans(one.series)]
    if not planned:
        return None
    rest = [one for one in study.found if one not in planned]
    fixed = [f"{one.label} {one.series.trials[0].rounds[0].steps[0]}" for one in rest]
    same = f" The others do the same number everywhere: {', '.join(fixed)}." if fixed else ""
    if max(clients.count(one.series) for one in planned) > FEW:
        return heat_map(study, planned, same)
    return _step_lines(study, planned, same)


def _step_lines(study: Study, planned: list[Measured], same: str) -> Drawn:
    """In the first trial, as they were, and their mean over trials."""
    panels = [
        (one, one.series.trials[part], f"{name(one)}, {title}")
        for one in planned
        for part, title in ((slice(1), "first trial"), (slice(None), "mean over trials"))
        if part.stop or len(one.series.trials) > 1
    ]
    figure, grid = canvas(0.9 + 2.0 * len(panels), len(panels), 1, sharex=True)
    for (axes,), (one, trials, title) in zip(grid, panels, strict=True):
        rows = clients.steps(trials, clients.count(one.series))
        draw_lines(axes, study, one, rows, np.arange(1.0, rows.shape[1] + 1))
        axes.set_title(title)
        axes.set_ylabel("local steps")
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter("{x:g}")
    grid[-1][0].set_xlabel("round")
    grid[-1][0].locator_params(axis="x", integer=True)
    legend(figure, *grid[0][0].get_legend_handles_labels(), columns=2)
    caption = "A client keeps its speed; its data differ from trial to trial, and its steps with them."
    return Drawn("steps", "Steps of every client", caption + same, figure)


def drift(study: Study) -> Drawn | None:
    from matplotlib.ticker import LogLocator

    read = [one for one in study.found if any(r.readings for t in one.series.trials for r in t.rounds)]
    if not read:
        return None
    columns = 2 if len(read) > 1 else 1
    height = -(-len(read) // columns)
    figure, grid = canvas(1.0 + 1.6 * height, height, columns, sharex=True, sharey=True)
    flat = [axes for row in grid for axes in row]
    for axes, one in zip(flat, read, strict=False):
        shortest = min(len(trial.rounds) for trial in one.series.trials)
        edges = np.linspace(0, study.horizon, min(SPANS, max(2, shortest // 2)) + 1)
        found = clients.drift(one.series, study.clock, edges)
        draw_lines(axes, study, one, found, (edges[1:] + edges[:-1]) / 2)
        axes.set_title(name(one), fontsize=9)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
    low, high = flat[0].get_ylim()
    if high < LEAST * low:  # a narrower axis would have ticks of every size, one over the other
        middle = (low * high) ** 0.5
        flat[0].set_ylim(middle / LEAST**0.5, middle * LEAST**0.5)
    for axes in flat[len(read) :]:
        axes.set_visible(False)
    for axes in flat[len(read) - columns : len(read)]:
        axes.tick_params(labelbottom=True)  # the last panel of each column, whatever stands below it
        axes.set_xlabel(f"virtual seconds ({study.clock})")
    for row in grid:
        row[0].set_ylabel("‖Δg‖ / ‖g‖")
    ink_legend(figure, flat[0])
    caption = (
        "How far a client's own steps turn the gradient of its first minibatch away from what it was: change "
        "over size, median over rounds and trials in spans of time."
    )
    return Drawn("drift", "Drift of every client", caption, figure)
