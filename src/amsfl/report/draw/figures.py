"""The figures: accuracy over trials (A and B) and over time, time to the target; the rest beside."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from amsfl.report.draw import style
from amsfl.report.draw.client_figures import drift, steps
from amsfl.report.draw.drawing import Drawn, Picture, canvas, colour, legend_columns, name_rows, render
from amsfl.report.measure import curves
from amsfl.report.measure.measures import Measured
from amsfl.report.measure.paper import PAPER, TARGET
from amsfl.report.measure.subject import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Draw = Callable[["Axes", int, list[float], str], None]


def figures(study: Study) -> list[Picture]:
    """All of them, drawn; matplotlib is imported here and not before."""
    import matplotlib

    makers: list[Callable[[Study], Drawn | None]] = [time, to_target, figure_a, figure_b, steps, drift]
    rc: Any = style.RC
    with matplotlib.rc_context(rc):
        return [render(made, study) for make in makers if (made := make(study)) is not None]


def _distribution(study: Study, draw: Draw) -> "Figure":
    figure, grid = canvas(0.7 + 0.33 * len(study.found), 1, len(study.splits), sharey=True)
    for axes, (split, title) in zip(grid[0], study.splits, strict=True):
        for place, one in enumerate(study.found):
            values = one.known(f"accuracy_{split}")
            if len(set(values)) > 2:
                draw(axes, place, values, colour(one))
            else:
                axes.plot(values, [place] * len(values), "o", ms=6, color=colour(one))
            jitter = np.linspace(-0.1, 0.1, len(values)) if len(values) > 1 else np.zeros(len(values))
            axes.plot(values, place + jitter, ".", ms=3, color=style.INK, alpha=0.55, mew=0)
        axes.set_title(title)
        axes.set_xlabel("accuracy")
        axes.locator_params(axis="x", nbins=4)
        name_rows(axes, study)
    return figure


def figure_a(study: Study) -> Drawn:
    def box(axes: "Axes", place: int, values: list[float], face: str) -> None:
        ink = {"color": style.INK, "linewidth": 1}
        axes.boxplot(
            values,
            positions=[place],
            orientation="horizontal",
            widths=0.6,
            manage_ticks=False,
            showfliers=False,
            patch_artist=True,
            boxprops={"facecolor": face, "edgecolor": style.INK},
            medianprops={"color": style.INK, "linewidth": 2},
            whiskerprops=ink,
            capprops=ink,
        )

    caption = (
        "Accuracy of the global model at the end of every trial: median, quartiles, whiskers to the last "
        "trial within 1.5 times their distance; a dot is a trial."
    )
    return Drawn("figure_a", "Figure A: accuracy over trials, box plot", caption, _distribution(study, box))


def figure_b(study: Study) -> Drawn:
    def violin(axes: "Axes", place: int, values: list[float], face: str) -> None:
        made = axes.violinplot(values, [place], orientation="horizontal", widths=0.8, showextrema=False)
        bodies: list[Any] = list(made["bodies"])  # type: ignore[call-overload]
        for body in bodies:
            body.set(facecolor=face, edgecolor=style.INK, alpha=1, linewidth=1)

    caption = "The same as densities; a dot is a trial."
    title = "Figure B: accuracy over trials, violin plot"
    return Drawn("figure_b", title, caption, _distribution(study, violin))


def time(study: Study) -> Drawn:
    times = np.linspace(0, study.horizon, 300)
    figure, grid = canvas(2.4 * len(study.splits) + 0.8, len(study.splits), 1, sharex=True)
    for axes, (split, title) in zip(grid[:, 0], study.splits, strict=True):
        for place, one in enumerate(study.found):
            _curve(axes, study, one, split, times, (12 + 5 * place, 45))
        if study.target is not None and split == "holdout":
            axes.axhline(study.target, color=style.INK, linewidth=1, linestyle=(0, (2, 2)))
        axes.set_title(title)
        axes.set_ylabel("accuracy")
    grid[-1, 0].set_xlabel(f"virtual seconds ({study.clock} clock)")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=legend_columns(labels))
    goal = f" Dotted: the target, {100 * study.target:g}%." if study.target is not None else ""
    caption = f"Median over trials; the band is the middle half of them.{goal}"
    return Drawn("accuracy_time", "Accuracy over virtual time", caption, figure)


def _curve(
    axes: "Axes", study: Study, one: Measured, split: str, times: curves.Floats, marks: tuple[int, int]
) -> None:
    rows = [curves.over_time(trial, split, study.clock, times) for trial in one.series.trials]
    low, middle, high = curves.band(rows)
    first = one is study.reference
    axes.fill_between(times, low, high, color=colour(one), alpha=0.16, linewidth=0)
    axes.plot(
        times,
        middle,
        color=colour(one),
        linewidth=2.4 if first else 1.5,
        zorder=3 if first else 2,
        linestyle=style.dash(one.series.variant),
        marker=style.MARKERS[one.series.method],
        ms=4.5,
        markevery=marks,
        label=one.series.label,
    )


def to_target(study: Study) -> Drawn | None:
    if study.target is None:
        return None
    figure, grid = canvas(0.9 + 0.38 * len(study.found))
    axes, paper = grid[0, 0], study.paper and study.target == TARGET
    for place, one in enumerate(study.found):
        _times(axes, study, one, place)
        if paper and one.series.key in PAPER:
            seconds = PAPER[one.series.key].seconds
            axes.plot(seconds, place - 0.12, "D", ms=5.5, mfc="none", mec=style.INK, mew=1.1)
    name_rows(axes, study)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"virtual seconds to {100 * study.target:g}% ({study.clock} clock)")
    caption = (
        "Mean with its 95% interval; below it, a dot is a trial, a triangle one that ended before it got "
        "there."
    )
    caption += " Hollow diamonds are the paper's seconds, from its own unstated setting." if paper else ""
    return Drawn("time_to_target", "Time to the target", caption, figure)


def _times(axes: "Axes", study: Study, one: Measured, place: int) -> None:
    """A method's row: mean and interval above, trials below."""
    for row in one.values:
        reached = row[f"seconds_to_{study.clock}"] is not None
        axes.plot(
            float(row[f"least_{study.clock}"] or 0),
            place + 0.2,
            "o" if reached else ">",
            ms=4,
            color=colour(one),
            alpha=0.7,
            mew=0,
        )
    mean = one.mean(f"least_{study.clock}")
    if mean is None:
        return
    if mean.low is not None and mean.high is not None:
        axes.plot([mean.low, mean.high], [place - 0.12] * 2, color=colour(one), linewidth=3)
    marker = style.MARKERS[one.series.method]
    axes.plot(mean.mean, place - 0.12, marker, ms=7, color=colour(one), mec=style.INK, mew=0.8)
