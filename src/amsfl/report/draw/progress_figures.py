"""How fast methods learn: score over time, time to the target, energy to the target."""

from typing import TYPE_CHECKING

from amsfl.report.draw import style
from amsfl.report.draw.drawing import DrawnFigure, canvas, legend, look, name, name_rows
from amsfl.report.measure import curves
from amsfl.report.measure.measures import MeasuredSeries
from amsfl.report.measure.paper import PAPER, TARGET
from amsfl.report.measure.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

MARKS = 7  # on every curve


def score_over_time(subject: Subject) -> DrawnFigure | None:
    score, splits = subject.score, subject.splits
    figure, grid = canvas(2.4 * len(splits) + 0.8, len(splits), 1, sharex=True)
    for (axes,), (split, title) in zip(grid, splits, strict=True):
        lines = [line for one in subject.methods for line in _curve(axes, subject, one, split)]
        if not lines:
            return None  # no score on record
        if subject.target is not None and split == "holdout":
            axes.axhline(subject.target, color=style.INK, linewidth=1, linestyle=(0, (2, 2)))
        low, high = axes.get_ylim()
        if low < score.least and score.larger:  # R² of a first round may be anything below
            low = score.least
            axes.set_ylim(bottom=low)
        if low < subject.base.get(split, low) < high:  # where a curve is near it
            axes.axhline(subject.base[split], color=style.INK, linewidth=1, alpha=0.5)
        axes.set_title(title)
        axes.set_ylabel(score.title)
        axes.set_xlim(left=0)
        if split == "holdout":
            legend(figure, lines, [str(line.get_label()) for line in lines])
    grid[-1][0].set_xlabel(f"virtual seconds ({subject.clock} clock)")
    title = f"{score.heading} over virtual time"
    return DrawnFigure("accuracy_time", title, _curve_caption(subject), figure)


def _curve_caption(subject: Subject) -> str:
    trials = [len(one.values) for one in subject.methods]
    if max(trials) == 1:
        text = "One trial each."
    elif max(trials) < curves.FEW:
        text = "Mean over trials; the band and the brackets beside a name hold all of them."
    else:
        few = "" if min(trials) >= curves.FEW else f", all where there are fewer than {curves.FEW}"
        text = f"Mean over trials; the band and the brackets beside a name: the middle half of them{few}."
    text += f" A curve ends where its last trial does, at the {subject.score.title} of the table."
    text += f" Dotted: the target, {subject.goal}." if subject.target is not None else ""
    if "holdout" in subject.base:
        base = subject.number(subject.base["holdout"])
        text += f" Grey, where in view: {base}, the score of always predicting {subject.base_name}."
    return text


def _curve(axes: "Axes", subject: Subject, one: MeasuredSeries, split: str) -> list["Line2D"]:
    curve = curves.curve(one.series, subject.score, split, "seconds", subject.clock)
    if curve is None:
        return []
    first, its = one is subject.reference, look(one)
    if len(one.values) > 1:
        axes.fill_between(curve.x, curve.low, curve.high, color=its.colour, alpha=0.16, linewidth=0)
    every = max(1, len(curve.x) // MARKS)
    return axes.plot(
        curve.x,
        curve.mean,
        linewidth=2.4 if first else 1.5,
        zorder=3 if first else 2,
        ms=4.5,
        markevery=(one.place * every // len(subject.methods), every),
        label=name(one),
        **its.line_style,
    )


def target_times(subject: Subject) -> DrawnFigure | None:
    """A row a method: mean and interval above, trials below."""
    if subject.target is None:
        return None
    figure, grid = canvas(0.9 + 0.38 * len(subject.methods))
    axes, paper = grid[0][0], subject.paper and subject.target == TARGET
    for place, one in enumerate(subject.methods):
        colour, mean = look(one).colour, one.mean(f"least_{subject.clock}")
        for row in one.values:
            sign = "o" if row["reached"] else ">"
            seconds = float(row[f"least_{subject.clock}"] or 0)
            axes.plot(seconds, place + 0.2, sign, ms=4, color=colour, alpha=0.7, mew=0)
        if mean is not None:
            if mean.low is not None and mean.high is not None:
                axes.plot([mean.low, mean.high], [place - 0.12] * 2, color=colour, linewidth=3)
            marker = look(one).marker.code
            axes.plot(mean.mean, place - 0.12, marker, ms=7, color=colour, mec=style.INK, mew=0.8)
        if paper and one.series.key in PAPER:
            seconds = PAPER[one.series.key].seconds
            axes.plot(seconds, place - 0.12, "D", ms=5.5, mfc="none", mec=style.INK, mew=1.1)
    name_rows(axes, subject)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"virtual seconds to {subject.goal} ({subject.clock} clock)")
    missed = not all(one.reached_target for one in subject.methods)
    text = "Mean with its 95% interval; below it, a dot is a trial"
    text += ", a triangle one that missed the target." if missed else "."
    text += " Hollow diamonds are the paper's seconds, from its own unstated setting." if paper else ""
    return DrawnFigure("time_to_target", "Time to the target", text, figure)


def energy(subject: Subject) -> DrawnFigure | None:
    """Joules by seconds to the target, a small dot a trial and a large one their mean.

    None without a target (the curves have joules as an axis then), and where joules are not on record.
    """
    x, y = f"least_{subject.clock}", "least_joules"
    if subject.target is None or not all(one.numbers(y) for one in subject.methods):
        return None
    figure, grid = canvas(3.6)
    axes, handles = grid[0][0], []
    for one in subject.methods:
        its = look(one)
        for row in one.values:
            seconds, joules = row[x], row[y]
            if seconds is not None and joules is not None:
                sign = "o" if row["reached"] else ">"
                axes.plot(seconds, joules, sign, ms=4, color=its.colour, alpha=0.6, mew=0)
        mean = (one.value(x), one.value(y))
        handles += axes.plot(*mean, its.marker.code, ms=8, color=its.colour, mec=style.INK, mew=0.8)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"virtual seconds to {subject.goal} ({subject.clock} clock)")
    axes.set_ylabel(f"joules of all clients to {subject.goal}")
    legend(figure, handles, [name(one) for one in subject.methods])
    text = "Large marks are means over the trials, small dots the trials."
    if not all(one.reached_target for one in subject.methods):
        text += " A triangle missed the target, and would have spent more."
    return DrawnFigure("energy", "Time and energy", text, figure)
