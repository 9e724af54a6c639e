"""Steps of many clients as a map: a row a client, slow ones below, a column a round (or a few of them)."""

from typing import TYPE_CHECKING

import numpy as np

from amsfl.report.draw.drawing import Drawn, canvas, name
from amsfl.report.measure import clients
from amsfl.report.measure.curves import Floats
from amsfl.report.measure.measures import Measured
from amsfl.report.measure.subject import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS, ROWS = 120, 200  # that can be told apart in a figure this wide and high


def heat_map(study: Study, planned: list[Measured], same: str) -> Drawn:
    maps = [clients.steps(one.series.trials, clients.count(one.series)) for one in planned]
    order = _by_speed(study, max(len(rows) for rows in maps))
    most = max(float(np.nanmax(rows)) for rows in maps)
    tall = min(3.6, 1.2 + 0.035 * len(order))
    figure, grid = canvas(0.4 + tall * len(planned), len(planned), 1, sharex=True)
    for (axes,), one, rows in zip(grid, planned, maps, strict=True):
        _map(axes, rows[order[order < len(rows)]], most)
        axes.set_title(name(one))
        axes.set_ylabel("client, slowest below" if study.step_seconds else "client")
    grid[-1][0].set_xlabel("round")
    grid[-1][0].locator_params(axis="x", integer=True)
    caption = (
        f"Mean local steps over trials, {len(order)} clients; a row is a client"
        f"{', the fastest on top' if study.step_seconds else ''}. Empty: not asked in that round."
    )
    return Drawn("steps", "Steps of every client", caption + same, figure)


def _by_speed(study: Study, count: int) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
    speeds = np.zeros(count)
    known = study.step_seconds[:count]
    speeds[: len(known)] = known
    return np.argsort(speeds, kind="stable")


def _map(axes: "Axes", rows: Floats, most: float) -> None:
    from matplotlib.colors import LogNorm

    clients_, rounds = rows.shape
    made = axes.imshow(
        _binned(_binned(rows, COLUMNS).T, ROWS).T,
        aspect="auto",
        interpolation="nearest",
        extent=(0.5, rounds + 0.5, clients_ + 0.5, 0.5),
        norm=LogNorm(1, max(most, 2)),
        cmap="viridis",
    )
    axes.grid(visible=False)
    bar = axes.figure.colorbar(made, ax=axes, label="local steps", pad=0.02)
    ticks = [2**power for power in range(0, 40) if 2**power <= most]
    bar.set_ticks(
        ticks[:: max(1, len(ticks) // 6)], labels=[f"{t}" for t in ticks[:: max(1, len(ticks) // 6)]]
    )
    bar.minorticks_off()


def _binned(rows: Floats, most: int) -> Floats:
    """Means of neighbouring columns, so that there are at most so many."""
    width = -(-rows.shape[1] // most)
    if width == 1:
        return rows
    padded = np.full((len(rows), -(-rows.shape[1] // width) * width), np.nan)
    padded[:, : rows.shape[1]] = rows
    parts = padded.reshape(len(rows), -1, width)
    count = np.isfinite(parts).sum(2)
    return np.where(count > 0, np.nansum(parts, 2) / np.maximum(count, 1), np.nan)
