"""How fast methods get somewhere: their score over time, and the time to the target."""

from typing import TYPE_CHECKING

from amsfl.report.draw import style
from amsfl.report.draw.drawing import Drawn, canvas, legend, look, name, name_rows
from amsfl.report.measure import curves
from amsfl.report.measure.measures import Measured
from amsfl.report.measure.paper import PAPER, TARGET
from amsfl.report.measure.subject import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

MARKS = 7  # on every curve


def time(study: Study) -> Drawn | None:
    figure, grid = canvas(2.4 * len(study.splits) + 0.8, len(study.splits), 1, sharex=True)
    for (axes,), (split, title) in zip(grid, study.splits, strict=True):
        lines = [line for one in study.found for line in _curve(axes, study, one, split)]
        if study.target is not None and split == "holdout":
            axes.axhline(study.target, color=style.INK, linewidth=1, linestyle=(0, (2, 2)))
        least, most = axes.get_ylim()
        if least < study.score.least and study.score.larger:  # R² of a first round may be anything below
            least = study.score.least
            axes.set_ylim(bottom=least)
        if least < study.base.get(split, least) < most:  # in view: somebody is near it
            axes.axhline(study.base[split], color=style.INK, linewidth=1, alpha=0.5)
        axes.set_title(title)
        axes.set_ylabel(study.score.title)
        axes.set_xlim(left=0)
        if not lines:
            return None  # no score on record
        if split == "holdout":
            legend(figure, lines, [str(line.get_label()) for line in lines])
    grid[-1][0].set_xlabel(f"virtual seconds ({study.clock} clock)")
    return Drawn("accuracy_time", f"{study.score.heading} over virtual time", caption(study), figure)


def caption(study: Study) -> str:
    """What the lines are, drawn or interactive."""
    least = min(len(one.values) for one in study.found)
    most = max(len(one.values) for one in study.found)
    bands = {
        True: f"the band is the middle half of them, all where there are fewer than {curves.FEW}",
        least >= curves.FEW: "the band is the middle half of them",
        most < curves.FEW: "the band holds all of them",
    }[True]
    text = f"Mean over trials; {bands}." if most > 1 else "One trial each."
    text += f" A curve ends where its last trial does, at the {study.score.title} of the table."
    text += f" Dotted: the target, {study.goal}." if study.target is not None else ""
    if "holdout" in study.base:
        base = study.number(study.base["holdout"])
        text += f" Saying {study.naive} every time scores {base}: grey, if in view."
    return text


def _curve(axes: "Axes", study: Study, one: Measured, split: str) -> list["Line2D"]:
    found = curves.curve(one.series, study.score, split, "seconds", study.clock)
    if found is None:
        return []
    first, its = one is study.reference, look(one)
    if len(one.values) > 1:
        axes.fill_between(found.x, found.low, found.high, color=its.colour, alpha=0.16, linewidth=0)
    every = max(1, len(found.x) // MARKS)
    return axes.plot(
        found.x,
        found.mean,
        color=its.colour,
        linewidth=2.4 if first else 1.5,
        zorder=3 if first else 2,
        linestyle=its.line,
        marker=its.marker.code,
        ms=4.5,
        markevery=(one.place * every // len(study.found), every),
        label=name(one),
    )


def to_target(study: Study) -> Drawn | None:
    if study.target is None:
        return None
    figure, grid = canvas(0.9 + 0.38 * len(study.found))
    axes, paper = grid[0][0], study.paper and study.target == TARGET
    for place, one in enumerate(study.found):
        _times(axes, study, one, place)
        if paper and one.series.key in PAPER:
            seconds = PAPER[one.series.key].seconds
            axes.plot(seconds, place - 0.12, "D", ms=5.5, mfc="none", mec=style.INK, mew=1.1)
    name_rows(axes, study)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"virtual seconds to {study.goal} ({study.clock} clock)")
    text = "Mean with its 95% interval; below it, a dot is a trial"
    text += "." if all(o.arrived for o in study.found) else ", a triangle one that ended before it got there."
    text += " Hollow diamonds are the paper's seconds, from its own unstated setting." if paper else ""
    return Drawn("time_to_target", "Time to the target", text, figure)


def _times(axes: "Axes", study: Study, one: Measured, place: int) -> None:
    """A method's row: mean and interval above, trials below."""
    its = look(one)
    for row in one.values:
        reached = row[f"seconds_to_{study.clock}"] is not None
        axes.plot(
            float(row[f"least_{study.clock}"] or 0),
            place + 0.2,
            "o" if reached else ">",
            ms=4,
            color=its.colour,
            alpha=0.7,
            mew=0,
        )
    mean = one.mean(f"least_{study.clock}")
    if mean is None:
        return
    if mean.low is not None and mean.high is not None:
        axes.plot([mean.low, mean.high], [place - 0.12] * 2, color=its.colour, linewidth=3)
    axes.plot(mean.mean, place - 0.12, its.marker.code, ms=7, color=its.colour, mec=style.INK, mew=0.8)
