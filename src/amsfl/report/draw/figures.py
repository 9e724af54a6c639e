"""The figures: accuracy over time, time to the target, over trials (A and B); then client by client."""

from collections.abc import Callable

from amsfl.report.draw import style
from amsfl.report.draw.calibration import reliability
from amsfl.report.draw.client_figures import drift, steps
from amsfl.report.draw.drawing import Drawn, Picture, render
from amsfl.report.draw.energy import energy
from amsfl.report.draw.progress_figures import time, to_target
from amsfl.report.draw.spread_figures import figure_a, figure_b
from amsfl.report.draw.timeline import who_worked
from amsfl.report.measure.subject import Study

MAKERS: list[Callable[[Study], Drawn | None]] = [
    *(time, to_target, energy, figure_a, figure_b, who_worked, steps, drift, reliability)
]


def figures(study: Study, notes: list[str]) -> list[Picture]:
    """All of them, drawn, `notes` below each file; matplotlib is imported here and not before."""
    import matplotlib

    with matplotlib.rc_context(style.RC):
        return [render(made, notes) for make in MAKERS if (made := make(study)) is not None]
