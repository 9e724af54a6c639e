"""What every client adds to the score against the time that it alone causes."""

from amsfl.report.draw import style
from amsfl.report.draw.drawing import DrawnFigure, canvas, name
from amsfl.report.measure.subject import Subject
from amsfl.report.measure.text import short
from amsfl.worth.costs import client_costs
from amsfl.worth.statement import WorthStatement

COLOURS = {"useful": 2, "duplicate": 5, "useless": 1, "harmful": 0}  # of style.PALETTE


def worth_and_cost(subject: Subject) -> DrawnFigure | None:
    """The first trial with a ledger, of every method that has one."""
    kept = [(one, t) for one in subject.methods for t in one.series.trials[:1] if t.summary.worth]
    if not kept:
        return None
    figure, grid = canvas(0.6 + 2.6 * len(kept), len(kept), 1)
    for (axes,), (one, trial) in zip(grid, kept, strict=True):
        statement = WorthStatement.read(trial.summary.worth)
        costs = client_costs(trial.rounds, len(statement.clients), subject.clock)
        for number, (each, cost) in enumerate(zip(statement.clients, costs, strict=True)):
            colour = style.PALETTE[COLOURS[each.kind]]
            reach = [[100 * (each.adds.mean - each.adds.low)], [100 * (each.adds.high - each.adds.mean)]]
            place = cost.seconds, 100 * each.adds.mean
            axes.errorbar(*place, reach, fmt=style.MARKERS[COLOURS[each.kind]].code, color=colour)
            label = f"C{number + 1}" if each.name == str(number) else short(each.name)  # as elsewhere
            axes.annotate(
                f"{label}: {each.kind}", place, (5, 4), textcoords="offset points", fontsize=8, color=colour
            )
        axes.axhline(0, color=style.INK, linewidth=0.8)
        axes.margins(x=0.25, y=0.15)
        axes.set_title(name(one))
        axes.set_ylabel("points it adds")
    grid[-1][0].set_xlabel("seconds that it alone causes")
    caption = (
        f"Shapley values of the {statement.score} with 90% intervals over {statement.rows} rows. Who is high "
        "and on the left is worth its time."
    )
    return DrawnFigure("worth", "What each client adds, and what it costs", caption, figure)
