"""Steps of many clients as a map: a row a client, slow ones below, a column a round (or a few of them)."""

from typing import TYPE_CHECKING

import numpy as np

from amsfl.report.draw.drawing import DrawnFigure, canvas, name
from amsfl.report.measure import clients
from amsfl.report.measure.curves import Floats
from amsfl.report.measure.measures import MeasuredSeries
from amsfl.report.measure.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS, ROWS = 120, 200  # that can be distinguished in a figure of this size


def step_map(subject: Subject, planned: list[MeasuredSeries], same: str) -> DrawnFigure:
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
