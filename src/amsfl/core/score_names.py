"""What users write of scores and targets: other names of scores, `f1=0.8`, and which values make sense."""

import math

from amsfl.core.errors import UserError, nearest
from amsfl.core.records import Json, JsonMapping
from amsfl.core.scores import ANY, BY_CLASS, CLASSES, KNOWN, NUMBERS, RARER

SPELLED = {  # as others call them
    "acc": "accuracy",
    "auroc": "auc",
    "roc_auc": "auc",
    "macro_auc": "auc",
    "balanced_accuracy": "recall",
    "macro_recall": "recall",
    "macro_precision": "precision",
    "macro_f1": "f1",
    "f1_macro": "f1",
    "r²": "r2",
    "log_loss": "loss",
    "logloss": "loss",
    "cross_entropy": "loss",
}
ENDS = {  # names that are no scores to stop at, and why
    "ece": "saying the commonest class with its share is calibrated and worth nothing; summary.json and the "
    "report have it at the end of every run",
    "mse": "rmse is the same in the label's own units",
    "mape": "it does not exist for numbers at 0; take mae",
}


def check_name(name: str) -> str:
    """The name that a score has here; a UserError if there is none of that name."""
    kind, sign, of_class = name.partition(":")
    kind = SPELLED.get(kind.lower(), kind)
    if kind in ENDS:
        raise UserError(f"{kind} is no score to go by: {ENDS[kind]}")
    if not (kind in BY_CLASS and of_class if sign else kind in ("", *CLASSES, *RARER, *NUMBERS, *ANY)):
        raise UserError(f"unknown score {name!r}{nearest(kind, KNOWN)}")
    return kind + sign + of_class


def check_target(name: str, target: float) -> float:
    """A target within its score's range; an error says how to write 95%."""
    if not 0 < target < math.inf:
        raise UserError("a target is a number above 0")
    what = (NUMBERS | ANY).get(name)
    if what is not None and what.most > 1:
        return target
    if target > 1:
        percent = f"; for {target:g}% write {target / 100:g}" if target <= 100 else ""
        score = what or (CLASSES | RARER).get(name) or BY_CLASS.get(name.partition(":")[0])
        which = score.title if score else "accuracy or R²"
        raise UserError(f"a target of {which} lies between 0 and 1{percent}")
    return target


def split_target(settings: JsonMapping) -> Json:
    """Settings with `target = "f1=0.8"` taken apart: a score and a number."""
    result = dict(settings)
    text = result.get("target")
    if not isinstance(text, str):
        return result
    name, sign, number = (part.strip() for part in text.rpartition("="))
    try:
        result["target"] = float(number)
    except ValueError:
        raise UserError(
            f"The target {text!r} is not a number or SCORE=NUMBER, as in f1=0.8. The column to predict is "
            "named by --label."
        ) from None
    if not sign:
        return result
    if result.get("score") not in (None, "", name):
        raise UserError(
            f"The target {text!r} and the score {result['score']!r} differ; leave one of them out."
        )
    return result | {"score": name}
