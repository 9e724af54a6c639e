"""A row a client, time to the right: who worked, waited, was away, came too late."""

from typing import TYPE_CHECKING

import numpy as np

from amsfl.report.draw.drawing import Drawn, canvas, legend, name
from amsfl.report.measure import clients as each_client
from amsfl.report.measure import timeline
from amsfl.report.measure.measures import Measured
from amsfl.report.measure.subject import Study
from amsfl.report.measure.text import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS, ROWS, NAMED, COLUMNS, THICK = 4, 60, 12, 400, 4
COLOURS = {  # of timeline.KINDS
    "at work": "#0072B2",
    "at work, older model": "#56B4E9",
    "too late or failed": "#D55E00",
    "away": "#9A9A9A",
}


def who_worked(study: Study) -> Drawn | None:
    """The first trial of at most PANELS methods, the reference among them; of many clients some."""
    from matplotlib.patches import Patch

    known = [one for one in study.found if timeline.known(one.series)]
    panels = sorted(known, key=lambda one: one is not study.reference)[:PANELS]
    if not panels:
        return None
    most = min(max(each_client.count(one.series) for one in panels), ROWS)
    tall = 0.75 + (0.22 if most <= NAMED else 0.045) * most
    figure, grid = canvas(0.5 + tall * len(panels), len(panels))
    used: set[int] = set()
    for (axes,), one in zip(grid, panels, strict=True):
        used |= _panel(axes, study, one)
    shown = [place for place in range(len(COLOURS)) if place + 1 in used]
    labels = list(COLOURS)
    handles = [Patch(color=COLOURS[labels[place]]) for place in shown]
    legend(figure, handles, [labels[place] for place in shown], columns=2)
    caption = "Each row is a client; where it is empty, the client waits."
    if any(len(one.series.trials[0].rounds) > timeline.ROUNDS for one in panels):
        caption += f" The first {timeline.ROUNDS} rounds."
    if len(known) > len(panels):
        caption += f" {len(panels)} of {len(known)} methods."
    if max(each_client.count(one.series) for one in panels) > ROWS:
        caption += f" {ROWS} of the clients, from the fastest to the slowest."
    return Drawn("timeline", "Who worked when", caption, figure)


def _panel(axes: "Axes", study: Study, one: Measured) -> set[int]:
    from matplotlib.colors import to_rgba

    who = _rows(study, each_client.count(one.series))
    found, end = timeline.painted(one.series, study.clock, who, COLUMNS)
    colours = np.array([(0.0, 0.0, 0.0, 0.0), *(to_rgba(colour) for colour in COLOURS.values())])
    axes.imshow(
        colours[_apart(found)],
        aspect="auto",
        interpolation="nearest",
        extent=(0.0, end, len(who) - 0.5, -0.5),
    )
    axes.grid(axis="y", visible=False)
    axes.set_title(name(one))
    axes.set_xlabel(f"seconds ({study.clock})")
    if len(who) <= NAMED:
        axes.set_yticks(range(len(who)), [short(study.client(client + 1), 14) for client in who])
    else:
        axes.set_yticks([])
        axes.set_ylabel("clients, slowest below" if study.step_seconds else "clients")
    return {*np.unique(found).tolist()}


def _apart(found: timeline.Map) -> timeline.Map:
    """Every row with a gap below it."""
    tall = np.repeat(found, THICK + 1, axis=0)
    tall[THICK :: THICK + 1] = 0
    return tall


def _rows(study: Study, count: int) -> list[int]:
    """Clients in their order; many of them by speed, and of too many some, evenly."""
    if count <= NAMED:
        return list(range(count))
    speeds = [*study.step_seconds[:count], *[0.0] * (count - len(study.step_seconds))]
    order = sorted(range(count), key=lambda client: speeds[client])
    picked = np.unique(np.linspace(0, count - 1, min(count, ROWS)).round().astype(int))
    return [order[place] for place in picked]
