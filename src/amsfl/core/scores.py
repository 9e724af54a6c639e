"""What a model is scored by: its name, where it stands on record, which way is better and how far it goes.

Targets, curves, tables and the choice of a best round ask this record: only it says that accuracy
should be large and an error small.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from amsfl.core.errors import UserError, nearest
from amsfl.core.records import Json, JsonMapping

UNBALANCED = 0.75  # share of the commonest class from which accuracy tells little


class Score(NamedTuple):
    name: str  # as in --target f1=0.8
    key: str  # among a split's scores on record
    title: str  # in a sentence
    short: str  # above a column
    larger: bool = True  # is better
    most: float = 1.0  # the best there is; errors have no upper end
    least: float = 0.0  # where a picture of it begins; R² goes deeper
    place: int | None = None  # of a list that has one value a class; None: a number, or the classes' mean
    ranks: bool = False  # whether it needs every row's outputs, which evaluations keep only where it is asked

    def of(self, scores: JsonMapping) -> float | None:
        """Its value among a split's scores; None where it was not measured or does not exist."""
        value = scores.get(self.key)
        if isinstance(value, list | tuple):
            numbers = [each for each in value if each is not None]
            mean = sum(numbers) / len(numbers) if numbers else None
            value = mean if self.place is None else value[self.place]
        return None if value is None else float(value)

    def gain(self, value: float, over: float) -> float:
        """By how much a value is better than another one; below 0 where it is worse."""
        return value - over if self.larger else over - value

    def met(self, scores: JsonMapping, target: float | None) -> bool:
        """Whether a target is reached."""
        value = self.of(scores)
        return target is not None and value is not None and self.gain(value, target) >= 0

    @property
    def listed(self) -> bool:
        """Whether it stands on record as a list, one value a class."""
        return self.key in BY_CLASS

    @property
    def heading(self) -> str:
        return self.title[0].upper() + self.title[1:]

    def measure(self, split: str) -> str:
        """Its name among a report's measures, as in accuracy_holdout and f1_holdout_2."""
        return f"{self.key}_{split}" if self.place is None else f"{self.key}_{split}_{self.place}"


CLASSES = {
    "accuracy": Score("accuracy", "accuracy", "accuracy", "ACC"),
    "f1": Score("f1", "macro_f1", "macro-F1", "Macro-F1"),
}
RARER = {  # of classes, on request
    "auc": Score("auc", "macro_auc", "AUC", "AUC", ranks=True),
    "recall": Score("recall", "recall", "balanced accuracy", "Balanced ACC"),
    "precision": Score("precision", "precision", "mean precision", "Precision"),
}
BY_CLASS = {
    "f1": Score("f1", "f1", "F1", "F1"),
    "recall": Score("recall", "recall", "recall", "Recall"),
    "precision": Score("precision", "precision", "precision", "Precision"),
    "auc": Score("auc", "auc", "AUC", "AUC", ranks=True),
}
NUMBERS = {
    "r2": Score("r2", "r2", "R²", "R²", least=-0.5),
    "mae": Score("mae", "mae", "mean absolute error", "MAE", larger=False, most=math.inf),
    "rmse": Score("rmse", "rmse", "root mean squared error", "RMSE", larger=False, most=math.inf),
}
ANY = {"loss": Score("loss", "loss", "loss", "Loss", larger=False, most=math.inf)}  # whatever is predicted
LESS = ("loss", "mse", "rmse", "mae")  # scores of which less is better
NAMED = CLASSES | RARER | NUMBERS | ANY
KNOWN = (*NAMED, *(f"{name}:CLASS" for name in BY_CLASS))


def score(name: str, classes: Sequence[str]) -> Score:
    """A score by name, if the data can have it."""
    kind, _, of_class = name.partition(":")
    if not classes:
        if kind in CLASSES or kind in RARER or kind in BY_CLASS:
            raise UserError(
                f"The score {name!r} is of classes, and here numbers are predicted; take r2, mae or rmse, "
                "as in --target r2=0.8, or make classes of the label: --columns LABEL=words."
            )
        chosen = (NUMBERS | ANY).get(name or "r2")
    elif name in NUMBERS:
        raise UserError(
            f"The score {name!r} is of numbers, and here classes are predicted; take "
            "accuracy, f1 or f1:CLASS, or predict the label as a number: --columns LABEL=number."
        )
    elif of_class and kind in BY_CLASS:
        if of_class not in classes:
            raise UserError(f"There is no class {of_class!r} to score{nearest(of_class, classes)}.")
        titled = BY_CLASS[kind]
        return titled._replace(
            name=name,
            title=f"{titled.title} of {of_class}",
            short=f"{titled.short} {of_class}",
            place=list(classes).index(of_class),
        )
    else:
        chosen = (CLASSES | RARER | ANY).get(name or "accuracy")
    if chosen is None:
        raise UserError(f"Unknown score {name!r}{nearest(kind, KNOWN)}.")
    return chosen


def describe_scores(scores: JsonMapping) -> str:
    """A split's scores that are one number each, in a line: accuracy 0.9512, macro-F1 0.8841."""
    values = [(each, each.of(scores)) for each in (*CLASSES.values(), *NUMBERS.values())]
    return ", ".join(
        f"{each.title} {value:.4f}" if each.most == 1 else f"{each.title} {value:.4g}"
        for each, value in values
        if value is not None
    )


def recorded_score(name: str, classes: Sequence[str] = ()) -> Score:
    """The score that a record names; it was checked when the record was written."""
    return NAMED.get(name) or score(name, classes)


def shown_score(name: str, scores: JsonMapping) -> Score | None:
    """The score to show of a round: the named one, else the first that it has."""
    if name:
        return NAMED.get(name)
    return next((NAMED[key] for key in ("accuracy", "r2") if key in scores), None)


def judged_by(scores: JsonMapping, score: Score | None, by_loss: bool = False) -> tuple[str, bool]:
    """The name of the score that rounds are compared by, and whether more of it is better; "" for none.

    It is the run's score, or the loss where that is asked for, or there is no score.
    """
    if score is not None and not by_loss:
        return score.key, score.larger
    return next((name for name in LESS if name in scores), "loss" * by_loss), False


def worth(scores: JsonMapping, score: Score | None, by_loss: bool = False) -> float | None:
    """What rounds are compared by, more is better; None where this round has none."""
    name, larger = judged_by(scores, score, by_loss)
    value = scores.get(name) if score is None or by_loss else score.of(scores)
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value if larger else -value)


def check_name(name: str) -> str:
    """The name of a score; a UserError if there is none of that name."""
    kind, sign, of_class = name.partition(":")
    if not (kind in BY_CLASS and of_class if sign else kind in ("", *NAMED)):
        raise UserError(f"unknown score {name!r}{nearest(kind, KNOWN)}")
    return name


def check_target(name: str, target: float) -> float:
    """A target within its score's range; an error says how to write 95%."""
    if not 0 < target < math.inf:
        raise UserError("a target is a number above 0")
    what = (NUMBERS | ANY).get(name)
    if what is not None and what.most > 1:
        return target
    if target > 1:
        percent = f"; for {target:g}% write {target / 100:g}" if target <= 100 else ""
        raise UserError(f"a target of {name or 'accuracy or R²'} lies between 0 and 1{percent}")
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
