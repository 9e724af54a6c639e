"""The score at the end of every trial: the paper's figures A and B, or dots where trials are few."""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import numpy as np

from amsfl.report.draw import style
from amsfl.report.draw.drawing import Drawn, canvas, look, name_rows
from amsfl.report.measure.curves import FEW
from amsfl.report.measure.measures import Measured
from amsfl.report.measure.subject import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import Collection
    from matplotlib.figure import Figure

Draw = Callable[["Axes", int, list[float], str], None]


def figure_a(study: Study) -> Drawn:
    drawn = any(_many(study, one, split) for one in study.found for split, _ in study.splits)
    text = f"{study.score.heading} of the global model at the end of every trial: "
    if not drawn:
        title = f"Figure A: {study.score.title} of every trial"
        return Drawn("figure_a", title, f"{text}a dot is a trial.", _distribution(study, _box))
    text += "median, quartiles, whiskers to the last trial within 1.5 times their distance; a dot is a trial."
    return Drawn(
        "figure_a", f"Figure A: {study.score.title} over trials, box plot", text, _distribution(study, _box)
    )


def figure_b(study: Study) -> Drawn | None:
    if not any(_many(study, one, split) for one in study.found for split, _ in study.splits):
        return None  # it would be figure A once more
    title = f"Figure B: {study.score.title} over trials, violin plot"
    return Drawn("figure_b", title, "The same as densities; a dot is a trial.", _distribution(study, _violin))


def _many(study: Study, one: Measured, split: str) -> bool:
    """Enough trials for a shape to say more than they do."""
    values = one.known(study.score.measure(split))
    return len(values) >= FEW and len(set(values)) > 2


def _distribution(study: Study, draw: Draw) -> "Figure":
    figure, grid = canvas(0.7 + 0.33 * len(study.found), 1, len(study.splits), sharey=True)
    for axes, (split, title) in zip(grid[0], study.splits, strict=True):
        for place, one in enumerate(study.found):
            values, colour = one.known(study.score.measure(split)), look(one).colour
            jitter = np.linspace(-0.1, 0.1, len(values)) if len(values) > 1 else np.zeros(len(values))
            if _many(study, one, split):
                draw(axes, place, values, colour)
                axes.plot(values, place + jitter, ".", ms=3, color=style.INK, alpha=0.55, mew=0)
            else:
                axes.plot(values, place + jitter, "o", ms=6, color=colour, mec=style.INK, mew=0.6)
        axes.set_title(title)
        axes.set_xlabel(study.score.title)
        axes.locator_params(axis="x", nbins=4)
        name_rows(axes, study)
    return figure


def _box(axes: "Axes", place: int, values: list[float], face: str) -> None:
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


def _violin(axes: "Axes", place: int, values: list[float], face: str) -> None:
    made = axes.violinplot(values, [place], orientation="horizontal", widths=0.8, showextrema=False)
    for body in cast("list[Collection]", made["bodies"]):
        body.set(facecolor=face, edgecolor=style.INK, alpha=1, linewidth=1)
