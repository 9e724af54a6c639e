"""Reliability: how often a model is right where it says how sure it is."""

import numpy as np

from amsfl.report.draw import style
from amsfl.report.draw.drawing import Drawn, canvas, legend, look, name
from amsfl.report.measure.measures import Measured
from amsfl.report.measure.subject import Study


def reliability(study: Study) -> Drawn | None:
    """Share that is right by mean confidence, bins of all trials pooled."""
    found = [(one, bins) for one in study.found if (bins := pooled(one))]
    if not found:
        return None
    figure, grid = canvas(3.2)
    axes = grid[0][0]
    axes.plot([0, 1], [0, 1], color=style.INK, linewidth=1, linestyle=(0, (2, 2)))
    lines = []
    for one, bins in found:
        told, right, _ = np.array(bins).T
        its = look(one)
        lines += axes.plot(
            told, right, color=its.colour, linestyle=its.line, marker=its.marker.code, ms=4.5, label=name(one)
        )
    axes.set_xlabel("confidence")
    axes.set_ylabel("share that is right")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    legend(figure, lines, [str(line.get_label()) for line in lines])
    text = (
        f"On the {study.judge}, by tenths of confidence, all trials together. On the dotted line a model is "
        "as often right as it says; below it, it is too sure of itself."
    )
    return Drawn("reliability", "How sure, how right", text, figure)


def pooled(one: Measured) -> list[tuple[float, float, float]]:
    """Confidence, share that is right and rows of every bin, weighted by rows over the trials."""
    bins: dict[int, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}
    for trial in one.series.trials:
        for told, right, rows in (
            trial.summary.details.get("splits", {}).get("holdout", {}).get("reliability", [])
        ):
            place = min(int(10 * told), 9)
            bins[place] = bins.get(place, np.zeros(3)) + np.array([told * rows, right * rows, rows])
    return [(a / n, b / n, n) for a, b, n in (bins[place] for place in sorted(bins))]
