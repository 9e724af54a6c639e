"""The data of the interactive curves, as JSON for chart.js."""

from amsfl.core.records import Json
from amsfl.report.draw.drawing import look
from amsfl.report.measure import curves
from amsfl.report.measure.measures import MeasuredSeries
from amsfl.report.measure.subject import Subject

# of an axis: the name to choose it by, the title below it, the unit of a value
AXES = {
    "seconds": ("virtual time", "virtual seconds", "s"),
    "rounds": ("rounds", "rounds", "rounds"),
    "megabytes": ("bytes", "megabytes sent, both ways, all clients", "MB"),
    "joules": ("energy", "joules of all clients", "J"),
}


def data(subject: Subject) -> Json:
    trials = [trial for one in subject.methods for trial in one.series.trials]
    shared = [  # what every trial is on record for
        axis for axis in AXES if all(curves.positions(t, axis, subject.clock) is not None for t in trials)
    ]
    axes = [chart_axis(axis, *AXES[axis]) for axis in shared]
    axes[0]["title"] += f" ({subject.clock} clock)"
    splits = [
        {
            "key": split,
            "name": title,
            "target": subject.target if split == "holdout" else None,
            "base": subject.base.get(split),
            "least": subject.score.least,  # lower end of the axis, at least
            "most": subject.score.most if subject.score.most == 1 else None,
        }
        for split, title in subject.splits
    ]
    series = [
        {
            "label": one.label,
            "trials": len(one.values),
            "reference": one is subject.reference,
            **look(one).for_chart,
            "curves": {split: _curves(subject, one, split, shared) for split, _ in subject.splits},
        }
        for one in subject.methods
    ]
    return {"axes": axes, "splits": splits, "series": series}


def chart_axis(key: str, name: str, title: str, unit: str) -> dict[str, str]:
    return {"key": key, "name": name, "title": title, "unit": unit}


def _curves(subject: Subject, one: MeasuredSeries, split: str, axes: list[str]) -> Json:
    """By axis, with as many digits as the tables print."""
    points: Json = {}
    for axis in axes:
        curve = curves.curve(one.series, subject.score, split, axis, subject.clock)
        if curve is not None:
            columns = curve._asdict().items()
            points[axis] = {name: [float(f"{value:.7g}") for value in part] for name, part in columns}
    return points
