"""The score at the end of every trial (the paper's figures A and B), and the reliability of confidence."""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import numpy as np

from amsfl.report.draw import style
from amsfl.report.draw.drawing import DrawnFigure, canvas, legend, look, name, name_rows
from amsfl.report.measure.curves import FEW
from amsfl.report.measure.measures import MeasuredSeries
from amsfl.report.measure.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import Collection
    from matplotlib.figure import Figure

Draw = Callable[["Axes", int, list[float], str], None]


def figure_a(subject: Subject) -> DrawnFigure:
    text = f"{subject.score.heading} of the global model at the end of every trial: "
    title = f"Figure A: {subject.score.title} of every trial"
    if _any_shape(subject):
        title = f"Figure A: {subject.score.title} over trials, box plot"
        text += "median, quartiles, whiskers to the last trial within 1.5 times their distance; "
    return DrawnFigure("figure_a", title, f"{text}a dot is a trial.", _distribution(subject, _box))


def figure_b(subject: Subject) -> DrawnFigure | None:
    if not _any_shape(subject):
        return None  # it would be figure A once more
    title = f"Figure B: {subject.score.title} over trials, violin plot"
    figure = _distribution(subject, _violin)
    return DrawnFigure("figure_b", title, "The same as densities; a dot is a trial.", figure)


def _any_shape(subject: Subject) -> bool:
    return any(_has_shape(subject, one, split) for one in subject.methods for split, _ in subject.splits)


def _has_shape(subject: Subject, one: MeasuredSeries, split: str) -> bool:
    """Whether there are enough trials for a box or a violin."""
    values = one.numbers(subject.score.measure(split))
    return len(values) >= FEW and len(set(values)) > 2


def _distribution(subject: Subject, draw: Draw) -> "Figure":
    figure, grid = canvas(0.7 + 0.33 * len(subject.methods), 1, len(subject.splits), sharey=True)
    for axes, (split, title) in zip(grid[0], subject.splits, strict=True):
        for place, one in enumerate(subject.methods):
            values, colour = one.numbers(subject.score.measure(split)), look(one).colour
            jitter = np.linspace(-0.1, 0.1, len(values)) if len(values) > 1 else np.zeros(len(values))
            if _has_shape(subject, one, split):
                draw(axes, place, values, colour)
                axes.plot(values, place + jitter, ".", ms=3, color=style.INK, alpha=0.55, mew=0)
            else:
                axes.plot(values, place + jitter, "o", ms=6, color=colour, mec=style.INK, mew=0.6)
        axes.set_title(title)
        axes.set_xlabel(subject.score.title)
        axes.locator_params(axis="x", nbins=4)
        name_rows(axes, subject)
    return figure


def _box(axes: "Axes", place: int, values: list[float], colour: str) -> None:
    ink = {"color": style.INK, "linewidth": 1}
    axes.boxplot(
        values,
        positions=[place],
        orientation="horizontal",
        widths=0.6,
        manage_ticks=False,
        showfliers=False,
        patch_artist=True,
        boxprops={"facecolor": colour, "edgecolor": style.INK},
        medianprops=ink | {"linewidth": 2},
        whiskerprops=ink,
        capprops=ink,
    )


def _violin(axes: "Axes", place: int, values: list[float], colour: str) -> None:
    made = axes.violinplot(values, [place], orientation="horizontal", widths=0.8, showextrema=False)
    for body in cast("list[Collection]", made["bodies"]):
        body.set(facecolor=colour, edgecolor=style.INK, alpha=1, linewidth=1)


def reliability(subject: Subject) -> DrawnFigure | None:
    """Share that is right by mean confidence, bins of all trials pooled."""
    pooled = [(one, bins) for one in subject.methods if (bins := _pooled(one))]
    if not pooled:
        return None
    figure, grid = canvas(3.2)
    axes, handles = grid[0][0], []
    axes.plot([0, 1], [0, 1], color=style.INK, linewidth=1, linestyle=(0, (2, 2)))
    for one, bins in pooled:
        confidence, right = np.array(bins).T
        line = axes.plot(confidence, right, ms=4.5, label=name(one), **look(one).line_style)
        line[0].set(clip_on=False, zorder=3)  # marks at 0 and at 1 are not cut
        handles += line
    axes.set(xlabel="confidence", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
    legend(figure, handles, [name(one) for one, _ in pooled])
    text = (
        f"On the {subject.judged_on}, by tenths of confidence, all trials together. On the dotted line a "
        "model is right as often as it claims; below it, it is overconfident."
    )
    return DrawnFigure("reliability", "How sure, how right", text, figure)


def _pooled(one: MeasuredSeries) -> list[tuple[float, float]]:
    """Confidence and share that is right of every tenth, weighted by rows over the trials."""
    bins: dict[int, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}
    for trial in one.series.trials:
        scores = trial.summary.details.get("splits", {}).get("holdout", {})
        for confidence, right, rows in scores.get("reliability", []):
            tenth = min(int(10 * confidence), 9)
            sums = np.array([confidence * rows, right * rows, rows])
            bins[tenth] = bins.get(tenth, np.zeros(3)) + sums
    return [(a / rows, b / rows) for a, b, rows in (bins[tenth] for tenth in sorted(bins))]
