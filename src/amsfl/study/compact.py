"""One finished trial as one JSON line: the summary, and its rounds without what no report asks for."""

import json
import math
from typing import Any

from amsfl.core import RoundRecord
from amsfl.federation import Result

METRICS = ("accuracy", "macro_f1")  # a round's; the summary has the last round's losses and recalls, too
READINGS = ("grad_sq", "diff_sq")  # enough for the drift of a client's gradient


def line(entry: str, trial: int, result: Result) -> str:
    """Everything a report needs of a trial. What depends on the machine's speed stays under `wall`."""
    summary = dict(result.summary)
    found = {
        "entry": entry,
        "trial": trial,
        "seed": summary["seed"],
        "wall": summary.pop("wall"),
        "summary": summary,
        "rounds": [trimmed(record) for record in result.rounds],
    }
    return json.dumps(_finite(found), allow_nan=False)


def trimmed(record: RoundRecord) -> dict[str, Any]:
    """The record's own field names, so that one reader serves studies and plain runs."""
    return {
        "round": record.round,
        "seconds": record.seconds,
        "metrics": {
            split: {name: scores[name] for name in METRICS} for split, scores in record.metrics.items()
        },
        "cohort": record.cohort,
        "steps": record.steps,
        "lr": record.lr,
        "readings": {
            name: [float(f"{value:.5g}") for value in record.readings[name]]
            for name in READINGS
            if name in record.readings
        },
    }


def _finite(value: Any) -> Any:
    """JSON has no NaN: a diverged trial's numbers are null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value
