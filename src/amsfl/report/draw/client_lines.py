"""Lines of clients: one each where they are few, percentiles where they are many."""

from typing import TYPE_CHECKING

import numpy as np

from amsfl.report.draw import style
from amsfl.report.draw.drawing import legend, look
from amsfl.report.measure.curves import Floats
from amsfl.report.measure.measures import Measured
from amsfl.report.measure.subject import Study
from amsfl.report.measure.text import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEW = 8  # clients that can be drawn one by one


def draw_lines(axes: "Axes", study: Study, one: Measured, rows: Floats, x: Floats) -> None:
    """A line a client in tones of the method's colour, dashes and markers apart; many: percentiles."""
    from matplotlib.colors import to_rgb

    if len(rows) > FEW:
        there = np.isfinite(rows).any(0)
        spread = np.full((3, rows.shape[1]), np.nan)
        spread[:, there] = np.nanpercentile(rows[:, there], [10, 50, 90], axis=0)
        lines = list(zip(spread, ("10% of clients below", "median client", "90% below"), strict=True))
    else:
        lines = [(row, _client(study, i)) for i, row in enumerate(rows)]
    base = np.array(to_rgb(look(one).colour))
    every = max(1, len(x) // 6)
    for i, (row, label) in enumerate(lines):
        tone = np.clip(base * (1 - 0.3 * i / len(lines)) + 0.2 * (1 - i / len(lines)), 0, 1)
        its = _client_look(i)
        axes.plot(
            x,
            row,
            color=tuple(tone.tolist()),
            linewidth=1.4,
            linestyle=its.line,
            marker=its.marker.code,
            ms=4,
            markevery=(i * every // len(lines), every),
            label=label,
        )


def _client_look(client: int) -> style.Look:
    """Dashes and markers that tell clients apart; the colour is the method's."""
    return style.look(0)._replace(
        dash=style.DASHES[client % len(style.DASHES)], marker=style.MARKERS[client % len(style.MARKERS)]
    )


def _client(study: Study, client: int) -> str:
    label = short(study.client(client + 1), 24)
    if client >= len(study.step_seconds):
        return label
    return f"{label}, {1000 * study.step_seconds[client]:.3g} ms a step"


def ink_legend(figure: "Figure", axes: "Axes") -> None:
    """A legend for panels of several colours: dashes and markers in ink."""
    from matplotlib.lines import Line2D

    handles, labels = axes.get_legend_handles_labels()
    looks = [_client_look(i) for i in range(len(handles))]
    inked = [
        Line2D([], [], color=style.INK, linestyle=its.line, marker=its.marker.code, ms=4) for its in looks
    ]
    legend(figure, inked, [str(label) for label in labels], columns=2)
