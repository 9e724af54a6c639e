"""A row a client, time to the right: who worked, waited, was away, was too late."""

from typing import TYPE_CHECKING

import numpy as np

from amsfl.report.draw.drawing import DrawnFigure, canvas, legend, name
from amsfl.report.measure import clients as each_client
from amsfl.report.measure.curves import evenly
from amsfl.report.measure.measures import MeasuredSeries
from amsfl.report.measure.subject import Subject
from amsfl.report.measure.text import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS, ROWS, NAMED, COLUMNS, THICK = 4, 60, 12, 400, 4
COLOURS = {  # of each_client.KINDS
    "at work": "#0072B2",
    "at work, older model": "#56B4E9",
    "too late or failed": "#D55E00",
    "away": "#9A9A9A",
}


def client_timeline(subject: Subject) -> DrawnFigure | None:
    """The first trial of at most PANELS methods, the reference among them; of many clients some."""
    from matplotlib.patches import Patch

    timed = [one for one in subject.methods if each_client.has_times(one.series)]
    panels = sorted(timed, key=lambda one: one is not subject.reference)[:PANELS]
    if not panels:
        return None
    most = max(each_client.count(one.series) for one in panels)
    tall = 0.75 + (0.22 if most <= NAMED else 0.045) * min(most, ROWS)
    figure, grid = canvas(0.5 + tall * len(panels), len(panels))
    used: set[int] = set()
    for (axes,), one in zip(grid, panels, strict=True):
        used |= _panel(axes, subject, one)
    labels = [label for place, label in enumerate(COLOURS, start=1) if place in used]
    legend(figure, [Patch(color=COLOURS[label]) for label in labels], labels, columns=2)
    caption = "Each row is a client; where it is empty, the client waits."
    if any(len(one.series.trials[0].rounds) > each_client.ROUNDS for one in panels):
        caption += f" The first {each_client.ROUNDS} rounds."
    if len(timed) > len(panels):
        caption += f" {len(panels)} of {len(timed)} methods."
    if most > ROWS:
        caption += f" At most {ROWS} of the clients that took part, from the fastest to the slowest."
    return DrawnFigure("timeline", "Who worked when", caption, figure)


def _panel(axes: "Axes", subject: Subject, one: MeasuredSeries) -> set[int]:
    """Draws a method's map; the kinds that it shows."""
    from matplotlib.colors import to_rgba

    clients = _rows(subject, one)
    kinds, end = each_client.time_map(one.series, subject.clock, clients, COLUMNS)
    tall = np.repeat(kinds, THICK + 1, axis=0)
    tall[THICK :: THICK + 1] = 0  # a gap below every row
    colours = np.array([(0.0, 0.0, 0.0, 0.0), *(to_rgba(colour) for colour in COLOURS.values())])
    extent = (0.0, end, len(clients) - 0.5, -0.5)
    axes.imshow(colours[tall], aspect="auto", interpolation="nearest", extent=extent)
    axes.grid(axis="y", visible=False)
    axes.set_title(name(one))
    axes.set_xlabel(f"seconds ({subject.clock})")
    if len(clients) <= NAMED:
        axes.set_yticks(range(len(clients)), [short(subject.client(client + 1), 14) for client in clients])
    else:
        axes.set_yticks([])
        axes.set_ylabel("clients, slowest below" if subject.step_seconds else "clients")
    return {*np.unique(kinds).tolist()}


def _rows(subject: Subject, one: MeasuredSeries) -> list[int]:
    """Clients in their order; many of them by speed, and of too many some that took part, evenly."""
    count = each_client.count(one.series)
    if count <= NAMED:
        return list(range(count))
    shown = one.series.trials[0].rounds[: each_client.ROUNDS]
    some = sorted({client for each in shown for client in each.cohort}) if count > ROWS else range(count)
    speeds = [*subject.step_seconds[:count], *[0.0] * (count - len(subject.step_seconds))]
    order = sorted(some, key=lambda client: speeds[client])
    return [order[place] for place in evenly(len(order), ROWS)]
