"""The data of the interactive curves, as JSON for chart.js."""

from typing import TypedDict

from amsfl.report.draw.drawing import look
from amsfl.report.measure import curves
from amsfl.report.measure.measures import MeasuredSeries
from amsfl.report.measure.subject import Subject


class CurvePoints(TypedDict):
    x: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]


class CurveSeries(TypedDict):
    label: str
    trials: int
    reference: bool
    colour: str
    marker: str  # an SVG path
    dash: list[float]
    curves: dict[str, dict[str, CurvePoints]]  # by split, then by axis


class CurveAxis(TypedDict):
    key: str
    name: str  # to choose it by
    title: str  # below it
    unit: str


class CurveSplit(TypedDict):
    key: str
    name: str
    target: float | None
    base: float | None
    least: float  # lower end of the axis, at least
    most: float | None  # upper end of the score; None: it has none


class CurveData(TypedDict):
    axes: list[CurveAxis]
    splits: list[CurveSplit]
    series: list[CurveSeries]


def data(subject: Subject) -> CurveData:
    seconds = f"virtual seconds ({subject.clock} clock)"
    axes: dict[str, CurveAxis] = {
        "seconds": CurveAxis(key="seconds", name="virtual time", title=seconds, unit="s"),
        "rounds": CurveAxis(key="rounds", name="rounds", title="rounds", unit="rounds"),
        "megabytes": CurveAxis(
            key="megabytes", name="bytes", title="megabytes sent, both ways, all clients", unit="MB"
        ),
        "joules": CurveAxis(key="joules", name="energy", title="joules of all clients", unit="J"),
    }
    shared = curves.shared_axes([one.series for one in subject.methods], subject.clock)
    return {
        "axes": [axes[axis] for axis in shared],
        "splits": [
            {
                "key": split,
                "name": title,
                "target": subject.target if split == "holdout" else None,
                "base": subject.base.get(split),
                "least": subject.score.least,
                "most": subject.score.most if subject.score.most == 1 else None,
            }
            for split, title in subject.splits
        ],
        "series": [
            {
                "label": one.label,
                "trials": len(one.values),
                "reference": one is subject.reference,
                "colour": look(one).colour,
                "marker": look(one).marker.path,
                "dash": list(look(one).dash),
                "curves": {split: _curves(subject, one, split, shared) for split, _ in subject.splits},
            }
            for one in subject.methods
        ],
    }


def _curves(subject: Subject, one: MeasuredSeries, split: str, axes: list[str]) -> dict[str, CurvePoints]:
    """By axis, with as many digits as the tables print."""
    points: dict[str, CurvePoints] = {}
    for axis in axes:
        curve = curves.curve(one.series, subject.score, split, axis, subject.clock)
        if curve is not None:
            x, mean, low, high = ([float(f"{value:.7g}") for value in part] for part in curve)
            points[axis] = {"x": x, "mean": mean, "low": low, "high": high}
    return points
