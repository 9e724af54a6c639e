"""Which figures a report has."""

from collections.abc import Callable

from amsfl.report.draw import style
from amsfl.report.draw.client_figures import drift, steps
from amsfl.report.draw.drawing import DrawnFigure, Picture, render
from amsfl.report.draw.progress_figures import energy, score_over_time, target_times
from amsfl.report.draw.spread_figures import figure_a, figure_b, reliability
from amsfl.report.draw.timeline import client_timeline
from amsfl.report.measure.subject import Subject

MAKERS: list[Callable[[Subject], DrawnFigure | None]] = [
    *(score_over_time, target_times, energy, figure_a, figure_b),
    *(client_timeline, steps, drift, reliability),
]


def figures(subject: Subject, notes: list[str]) -> list[Picture]:
    """All figures, with `notes` below each file; matplotlib is imported here and not before."""
    import matplotlib

    with matplotlib.rc_context(style.RC):
        return [render(drawn, notes) for make in MAKERS if (drawn := make(subject)) is not None]
