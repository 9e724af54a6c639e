"""Time against energy: who gets to the target soonest, who for the fewest joules."""

from amsfl.report.draw import style
from amsfl.report.draw.drawing import Drawn, canvas, legend, look, name
from amsfl.report.measure.subject import Study


def energy(study: Study) -> Drawn | None:
    """Joules by seconds to the target, a small dot a trial and a large one their mean.

    None without a target (trials are equally long then, and the curves have joules as an axis), and where a
    record does not say what its clients spend.
    """
    x, y = f"least_{study.clock}", "least_joules"
    if study.target is None or not all(one.known(y) for one in study.found):
        return None
    figure, grid = canvas(3.6)
    axes, keys = grid[0][0], []
    for one in study.found:
        its = look(one)
        for row in one.values:
            late, when, spent = not row.get("reached"), row[x], row[y]
            if when is None or spent is None:
                continue
            axes.plot(when, spent, ">" if late else "o", ms=4, color=its.colour, alpha=0.6, mew=0)
        keys += axes.plot(
            one.value(x), one.value(y), its.marker.code, ms=8, color=its.colour, mec=style.INK, mew=0.8
        )
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"virtual seconds to {study.goal} ({study.clock} clock)")
    axes.set_ylabel(f"joules of all clients to {study.goal}")
    legend(figure, keys, [name(one) for one in study.found])
    text = "Large marks are means over the trials, small dots the trials."
    if not all(one.arrived for one in study.found):
        text += " A triangle ended before it got there, and would have spent more."
    return Drawn("energy", "Time and energy", text, figure)
