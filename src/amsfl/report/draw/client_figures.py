"""Figures of every client: its local steps (a map of them where clients are many), and its drift."""

from typing import TYPE_CHECKING

import numpy as np

from amsfl.report.draw import style
from amsfl.report.draw.drawing import DrawnFigure, canvas, legend, look, name
from amsfl.report.measure import clients
from amsfl.report.measure.curves import POINTS, Floats, evenly
from amsfl.report.measure.measures import MeasuredSeries
from amsfl.report.measure.subject import Subject
from amsfl.report.measure.text import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 8  # clients that can be drawn one by one
SPANS = 30  # of time, at most, of drift
LEAST = 5.0  # ratio of the ends of the drift axis, at least
COLUMNS, ROWS = 120, 200  # of a map, that can be distinguished in a figure of this size


def steps(subject: Subject) -> DrawnFigure | None:
    """Steps that a policy chose: client by client, or as a map where clients are many."""
    planned = [one for one in subject.methods if clients.plans(one.series)]
    if not planned:
        return None
    others = [one for one in subject.methods if one not in planned]
    fixed = [f"{one.label} {one.series.trials[0].rounds[0].steps[0]}" for one in others]
    same = f" The others take the same number everywhere: {', '.join(fixed)}." if fixed else ""
    if max(clients.count(one.series) for one in planned) > FEW:
        return _step_map(subject, planned, same)
    return _step_lines(subject, planned, same)


def _step_lines(subject: Subject, planned: list[MeasuredSeries], same: str) -> DrawnFigure:
    """Steps in the first trial, and their mean over trials."""
    panels = []
    for one in planned:
        panels.append((one, one.series.trials[:1], f"{name(one)}, first trial"))
        if len(one.series.trials) > 1:
            panels.append((one, one.series.trials, f"{name(one)}, mean over trials"))
    figure, grid = canvas(0.9 + 2.0 * len(panels), len(panels), 1, sharex=True)
    for (axes,), (one, trials, title) in zip(grid, panels, strict=True):
        rows = clients.steps(trials, clients.count(one.series))
        shown = evenly(rows.shape[1], POINTS)
        _draw_lines(axes, subject, one, rows[:, shown], shown.astype(np.float64) + 1)
        axes.set_title(title)
        axes.set_ylabel("local steps")
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter("{x:g}")
    grid[-1][0].set_xlabel("round")
    grid[-1][0].locator_params(axis="x", integer=True)
    legend(figure, *grid[0][0].get_legend_handles_labels(), columns=2)
    caption = "A client keeps its speed; its data differ from trial to trial, and its steps with them."
    return DrawnFigure("steps", "Steps of every client", caption + same, figure)


def _step_map(subject: Subject, planned: list[MeasuredSeries], same: str) -> DrawnFigure:
    """A row a client, slow ones below, a column a round (or a few of them)."""
    maps = [clients.steps(one.series.trials, clients.count(one.series)) for one in planned]
    speeds = np.zeros(max(len(rows) for rows in maps))
    speeds[: len(subject.step_seconds)] = subject.step_seconds[: len(speeds)]
    order = np.argsort(speeds, kind="stable")
    most = max(float(np.nanmax(rows)) for rows in maps)
    tall = min(3.6, 1.2 + 0.035 * len(order))
    figure, grid = canvas(0.4 + tall * len(planned), len(planned), 1, sharex=True)
    for (axes,), one, rows in zip(grid, planned, maps, strict=True):
        _draw_map(axes, rows[order[order < len(rows)]], most)
        axes.set_title(name(one))
        axes.set_ylabel("client, slowest below" if subject.step_seconds else "client")
    grid[-1][0].set_xlabel("round")
    grid[-1][0].locator_params(axis="x", integer=True)
    fastest = ", the fastest on top" if subject.step_seconds else ""
    caption = (
        f"Mean local steps over trials, {len(order)} clients; a row is a client{fastest}. Empty: not asked "
        f"in that round.{same}"
    )
    return DrawnFigure("steps", "Steps of every client", caption, figure)


def _draw_map(axes: "Axes", rows: Floats, most: float) -> None:
    from matplotlib.colors import LogNorm

    count, rounds = rows.shape
    image = axes.imshow(
        _binned(_binned(rows, COLUMNS).T, ROWS).T,
        aspect="auto",
        interpolation="nearest",
        extent=(0.5, rounds + 0.5, count + 0.5, 0.5),
        norm=LogNorm(1, max(most, 2)),
        cmap="viridis",
    )
    axes.grid(visible=False)
    bar = axes.figure.colorbar(image, ax=axes, label="local steps", pad=0.02)
    powers = [2**power for power in range(0, 40) if 2**power <= most]
    ticks = powers[:: max(1, len(powers) // 6)]
    bar.set_ticks(ticks, labels=[f"{tick}" for tick in ticks])
    bar.minorticks_off()


def _binned(rows: Floats, most: int) -> Floats:
    """Means of neighbouring columns, so that there are at most so many."""
    width = -(-rows.shape[1] // most)
    if width == 1:
        return rows
    padded = np.pad(rows, ((0, 0), (0, -rows.shape[1] % width)), constant_values=np.nan)
    parts = padded.reshape(len(rows), -1, width)
    count = np.isfinite(parts).sum(2)
    return np.where(count > 0, np.nansum(parts, 2) / np.maximum(count, 1), np.nan)


def drift(subject: Subject) -> DrawnFigure | None:
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogLocator

    read = [one for one in subject.methods if any(r.readings for t in one.series.trials for r in t.rounds)]
    if not read:
        return None
    columns = 2 if len(read) > 1 else 1
    height = -(-len(read) // columns)
    figure, grid = canvas(1.0 + 1.6 * height, height, columns, sharex=True, sharey=True)
    panels = [axes for row in grid for axes in row]
    for axes, one in zip(panels, read, strict=False):
        rounds = [trial.rounds for trial in one.series.trials]
        end, shortest = max(each[-1].seconds[subject.clock] for each in rounds), min(map(len, rounds))
        edges = np.linspace(0, end, min(SPANS, max(2, shortest // 2)) + 1)
        ratios = clients.drift(one.series, subject.clock, edges)
        _draw_lines(axes, subject, one, ratios, (edges[1:] + edges[:-1]) / 2)
        axes.set_title(name(one), fontsize=9)
        axes.set_yscale("log")
    low, high = panels[0].get_ylim()
    for axes in panels:  # ticks at 1, 2 and 5 of two decades or more would overlap
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 100 * low else (1.0,)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
    if high < LEAST * low:  # the ticks of a narrower axis would overlap
        middle = (low * high) ** 0.5
        panels[0].set_ylim(middle / LEAST**0.5, middle * LEAST**0.5)
    for axes in panels[len(read) :]:
        axes.set_visible(False)
    for axes in panels[len(read) - columns : len(read)]:
        axes.tick_params(labelbottom=True)  # the last panel of each column
        axes.set_xlabel(f"virtual seconds ({subject.clock})")
    for row in grid:
        row[0].set_ylabel("‖Δg‖ / ‖g‖")
    handles, labels = panels[0].get_legend_handles_labels()  # panels differ in colour: lines in ink
    lines = [_client_look(i).line_style | {"color": style.INK} for i in range(len(handles))]
    legend(figure, [Line2D([], [], ms=4, **line) for line in lines], [str(label) for label in labels], 2)
    caption = (
        "How much a client's local steps change the gradient of its first minibatch: size of the change over "
        "size of the gradient, median over rounds and trials in spans of time."
    )
    return DrawnFigure("drift", "Drift of every client", caption, figure)


def _draw_lines(axes: "Axes", subject: Subject, one: MeasuredSeries, rows: Floats, x: Floats) -> None:
    """A line a client in tones of the method's colour; percentiles where clients are many."""
    from matplotlib.colors import to_rgb

    if len(rows) > FEW:
        measured = np.isfinite(rows).any(0)
        spread = np.full((3, rows.shape[1]), np.nan)
        spread[:, measured] = np.nanpercentile(rows[:, measured], [10, 50, 90], axis=0)
        lines = list(zip(spread, ("10% of clients below", "median client", "90% below"), strict=True))
    else:
        lines = [(row, _client_label(subject, i)) for i, row in enumerate(rows)]
    base = np.array(to_rgb(look(one).colour))
    every = max(1, len(x) // 6)
    for i, (row, label) in enumerate(lines):
        tone = np.clip(base * (1 - 0.3 * i / len(lines)) + 0.2 * (1 - i / len(lines)), 0, 1)
        line = _client_look(i).line_style | {"color": tuple(tone.tolist())}
        axes.plot(
            x, row, linewidth=1.4, ms=4, markevery=(i * every // len(lines), every), label=label, **line
        )


def _client_look(client: int) -> style.Look:
    """Dashes and markers by client; the colour is the method's."""
    dash, marker = style.DASHES[client % len(style.DASHES)], style.MARKERS[client % len(style.MARKERS)]
    return style.Look(style.PALETTE[0], marker, dash)


def _client_label(subject: Subject, client: int) -> str:
    label, speeds = short(subject.client(client + 1), 24), subject.step_seconds
    return f"{label}, {1000 * speeds[client]:.3g} ms a step" if client < len(speeds) else label
