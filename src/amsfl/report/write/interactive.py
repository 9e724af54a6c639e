"""The data of the interactive curves: what page.js draws, as plain JSON."""

from typing import TypedDict

from amsfl.report.draw.drawing import look
from amsfl.report.measure import curves
from amsfl.report.measure.subject import Study


class Line(TypedDict):
    x: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]


class Shown(TypedDict):
    label: str
    trials: int
    reference: bool
    colour: str
    marker: str  # an SVG path
    dash: list[float]
    curves: dict[str, dict[str, Line]]  # by split, then by axis


class Axis(TypedDict):
    key: str
    name: str  # to choose it by
    title: str  # below it
    unit: str


class Split(TypedDict):
    key: str
    name: str
    target: float | None
    base: float | None
    least: float  # where the picture may begin
    most: float | None  # what the score cannot be above; None: it has no upper end


class Curves(TypedDict):
    axes: list[Axis]
    splits: list[Split]
    series: list[Shown]


def data(study: Study) -> Curves:
    axes: dict[str, Axis] = {
        "seconds": {
            "key": "seconds",
            "name": "virtual time",
            "title": f"virtual seconds ({study.clock} clock)",
            "unit": "s",
        },
        "rounds": {"key": "rounds", "name": "rounds", "title": "rounds", "unit": "rounds"},
        "megabytes": {
            "key": "megabytes",
            "name": "bytes",
            "title": "megabytes sent, both ways, all clients",
            "unit": "MB",
        },
        "joules": {"key": "joules", "name": "energy", "title": "joules of all clients", "unit": "J"},
    }
    shared = curves.shared_axes([one.series for one in study.found], study.clock)
    return {
        "axes": [axes[axis] for axis in shared],
        "splits": [
            {
                "key": split,
                "name": title,
                "target": study.target if split == "holdout" else None,
                "base": study.base.get(split),
                "least": study.score.least,
                "most": study.score.most if study.score.most == 1 else None,
            }
            for split, title in study.splits
        ],
        "series": [
            {
                "label": one.label,
                "trials": len(one.values),
                "reference": one is study.reference,
                "colour": look(one).colour,
                "marker": look(one).marker.path,
                "dash": list(look(one).dash),
                "curves": {
                    split: {
                        axis: _line(found)
                        for axis in shared
                        if (found := curves.curve(one.series, study.score, split, axis, study.clock))
                        is not None
                    }
                    for split, _ in study.splits
                },
            }
            for one in study.found
        ],
    }


def _line(found: curves.Curve) -> Line:
    """With digits enough to print what the tables print."""
    x, mean, low, high = ([float(f"{value:.7g}") for value in part] for part in found)
    return {"x": x, "mean": mean, "low": low, "high": high}
