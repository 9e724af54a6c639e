"""What a model makes of rows: predictions as a table, how good they are, and which columns it goes by."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from amsfl.core import UserError, listed
from amsfl.core.scores import UNBALANCED
from amsfl.data.recipe import Recipe
from amsfl.portable.model import PortableModel
from amsfl.portable.network import Array

if TYPE_CHECKING:
    from amsfl.data.read_table import RawTable

REPEATS = 5  # shuffles of a column
BINS = 10  # of confidence, equally wide
RISKY = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would take such a cell for a formula
# a lone sign, a number, a word behind signs: they call nothing
HARMLESS = re.compile(r"=|[-+@]*[\w.,]*([eE][-+]\d+)?")
LARGE = 200  # classes; a larger confusion matrix would be most of a record, and nobody reads it


class Evaluation(NamedTuple):
    """Scores by name, what always saying the same would score, and how honest probabilities are."""

    rows: int
    scores: dict[str, float]
    baseline: dict[str, float]
    calibration: tuple[dict[str, float], ...] = ()  # confidence, accuracy and rows of those about as sure
    trained_on: bool = False  # the very rows that the model was trained on, and chosen by


class Importance(NamedTuple):
    """The score that is lost without a column."""

    column: str
    lost: float
    deviation: float  # over the shuffles
    score: str  # accuracy, AUC or r2


def as_csv(
    model: PortableModel, rows: Any, kept: Mapping[str, Sequence[str]] | None = None
) -> tuple[bytes, int]:
    """Every row's class and a probability of each, or its number; `kept` are columns beside them."""
    import pandas

    beside, chances = kept or {}, [f"p({name})" for name in model.classes]
    for name in beside:
        if name in ("row", "prediction", *chances):
            raise UserError(
                f"Predictions have a column {name!r} of their own; rename that of the new rows, or leave "
                "it out of --keep."
            )
    outputs = model.logits(rows)
    predicted = model.named(outputs).tolist()  # all digits of numbers
    frame = pandas.DataFrame({"row": range(1, 1 + len(outputs))})
    for name, cells in beside.items():
        frame[_cell(name)] = [_cell(cell) for cell in cells]
    frame["prediction"] = [_cell(value) if model.classes else repr(value) for value in predicted]
    if model.classes:
        frame[chances] = model.chances(outputs)
    return frame.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode(), len(frame)


def _cell(text: str) -> str:
    """Text as it is; an apostrophe before one that a spreadsheet would run."""
    return f"'{text}" if text.startswith(RISKY) and not HARMLESS.fullmatch(text) else text


def has_labels(model: PortableModel, table: "RawTable") -> bool:
    """Whether the table has the column that the model predicts, with something in it."""
    recipe = model.recipe
    return (
        recipe is not None and recipe.label in table.frame and bool(table.frame[recipe.label].notna().any())
    )


def evaluate(model: PortableModel, rows: Any) -> Evaluation:
    """Score a model on a table that has its label column.

    Args:
        model: Of `amsfl.portable.load`.
        rows: A file, a data frame or a dict of raw columns, the label among them.

    Returns:
        Scores, the base rate, and the calibration curve of classes.
    """
    from amsfl.data.features import checksum_rows

    recipe, table, answers = _labelled(model, rows)
    evaluation = _score(model, model.logits(table), answers)
    return evaluation._replace(trained_on=bool(recipe.rows) and recipe.rows == checksum_rows(recipe, table))


def explain(model: PortableModel, rows: Any) -> list[Importance]:
    """Permutation importance of every raw column, the most important first.

    Args:
        model: Of `amsfl.portable.load`.
        rows: A table with the label column, as in `evaluate`.

    Returns:
        What is lost of the score (`explained_score`) where a column is shuffled within each client's rows.
    """
    recipe, table, answers = _labelled(model, rows)
    owners = np.zeros(len(answers), np.int64)
    if recipe.client in table.frame:
        owners = np.unique(table.frame[recipe.client].astype(str), return_inverse=True)[1]

    def predict(x: Array) -> Array:
        outputs = model.outputs(x)
        return outputs.astype(np.float64) if model.classes else model.named(outputs)[:, None]

    return permutation_importance(predict, model.encode(table), answers, recipe, owners)


def explained_score(answers: Array) -> str:
    """R² of numbers; accuracy, or where most rows are of one class AUC."""
    if answers.dtype.kind == "f":
        return "r2"
    shares = np.bincount(answers) / len(answers)
    return "AUC" if UNBALANCED <= shares.max() < 1 else "accuracy"


def _labelled(model: PortableModel, rows: Any) -> tuple[Recipe, "RawTable", Array]:
    """The recipe, rows that have a label, and their labels: class numbers, or numbers in their own units."""
    from amsfl.data.table import class_places, label_numbers

    table, recipe = model.read(rows), model.recipe
    if recipe is None or not has_labels(model, table):
        raise UserError(
            f"{table.name} has no column {recipe.label if recipe else ''!r} with the answers, so nothing can "
            "be scored; add it, or predict alone: amsfl predict."
        )
    table = table._replace(frame=table.frame[table.frame[recipe.label].notna()])
    cells = table.frame[recipe.label]
    if not model.classes:
        numbers = label_numbers(table, recipe.label)
        if np.isnan(numbers).any():
            row = int(np.argmax(np.isnan(numbers)))
            raise UserError(f"{table.name}: {table.place(row)}: {cells.iloc[row]!r} is no number.")
        return recipe, table, numbers
    words = list(cells.unique())
    place = class_places(model.classes, words)
    unknown = [word for word in words if word not in place]
    if unknown:
        raise UserError(
            f"{table.name} has the class {unknown[0]!r}; the model knows {listed(model.classes)}."
        )
    return recipe, table, cells.map(place).to_numpy(np.int64)


def _score(model: PortableModel, outputs: Array, answers: Array) -> Evaluation:
    if model.classes:
        return _score_classes(outputs.astype(np.float64), answers)
    mean = np.full(len(answers), (model.amount or (0.0, 1.0))[0])
    own = _number_scores(answers, model.named(outputs))
    return Evaluation(len(answers), own, _number_scores(answers, mean))


def _number_scores(answers: Array, predicted: Array) -> dict[str, float]:
    away, spread = answers - predicted, float(((answers - answers.mean()) ** 2).sum())
    r2 = 1 - float((away**2).sum()) / spread if spread else float("nan")
    return {"r2": r2, "mae": float(np.abs(away).mean()), "rmse": float((away**2).mean() ** 0.5)}


def _score_classes(outputs: Array, answers: Array) -> Evaluation:
    commonest = np.full(len(answers), np.bincount(answers).argmax())
    scores, baseline = (_right(guess, answers) for guess in (outputs.argmax(axis=1), commonest))
    detailed = of_classes(outputs, answers)
    if detailed["macro_auc"] is not None:
        scores["AUC"], baseline["AUC"] = detailed["macro_auc"], 0.5
    powers = outputs - outputs.max(axis=1, keepdims=True)
    own = np.take_along_axis(powers, answers[:, None], axis=1)[:, 0]
    scores["log loss"] = float((np.log(np.exp(powers).sum(axis=1)) - own).mean())
    names = "confidence", "accuracy", "rows"
    calibration = tuple(dict(zip(names, each, strict=True)) for each in detailed["reliability"])
    return Evaluation(len(answers), scores, baseline, calibration)


def _right(guess: Array, answers: Array) -> dict[str, float]:
    """Accuracy, and means over the classes that are there."""
    most = int(max(guess.max(), answers.max())) + 1
    true, guessed, hits = (
        np.bincount(each, minlength=most) for each in (answers, guess, guess[guess == answers])
    )
    present = true > 0
    recall, f1 = hits[present] / true[present], (2 * hits / np.maximum(true + guessed, 1))[present]
    return {
        "accuracy": float((guess == answers).mean()),
        "balanced accuracy": float(recall.mean()),
        "macro-F1": float(f1.mean()),
    }


def permutation_importance(
    predict: Callable[[Array], Array],
    x: Array,
    answers: Array,
    recipe: Recipe,
    owners: Array,
) -> list[Importance]:
    """Of every raw column, the most important first; `predict(x)` gives a number a class, or one of all.

    A column's features are moved together, which is the same as moving its raw cells; rows change places with
    rows of their own owner alone, so no row leaves its client for it.
    """
    name = explained_score(answers)

    def score(x: Array) -> float:
        predicted = predict(x)
        if name == "r2":  # answers that are all the same are explained by nothing
            return float(np.nan_to_num(_number_scores(answers, predicted[:, 0])["r2"]))
        if name == "AUC":
            return float(of_classes(predicted, answers)["macro_auc"])
        return float((predicted.argmax(1) == answers).mean())

    before, importances, start = score(x), [], 0
    for column in recipe.columns:
        span = slice(start, start + len(column.features))
        start = span.stop
        rng = np.random.default_rng([0, *column.name.encode()])
        moved, lost = x.copy(), []
        for _ in range(REPEATS):
            moved[:, span] = x[_shuffle_within(owners, rng), span]
            lost.append(before - score(moved))
        importances.append(Importance(column.name, float(np.mean(lost)), float(np.std(lost)), name))
    return sorted(importances, key=lambda each: -each.lost)


def _shuffle_within(owners: Array, rng: np.random.Generator) -> Array:
    order = np.argsort(owners, kind="stable")
    shuffled = np.empty_like(order)
    shuffled[order] = order[np.lexsort((rng.random(len(order)), owners[order]))]
    return shuffled


def of_classes(outputs: Array, y: Array) -> dict[str, Any]:
    """Confusion (true class by predicted one), one-against-rest AUC a class, and how sure is how right."""
    chances = np.exp(outputs - outputs.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    columns = np.ascontiguousarray(chances.T)  # numpy is quicker along many rows than across few classes
    guess, sure, classes = chances.argmax(1), columns.max(0), len(columns)
    table = np.bincount(y * classes + guess, minlength=classes**2)
    each = [auc(y == place, column) for place, column in enumerate(columns)]
    known = [value for value in each if value is not None]
    place = np.clip((sure * BINS).astype(int), -1, BINS - 1) + 1  # 0: not a number
    order = np.argsort(place.astype(np.uint8), kind="stable")
    ends = np.cumsum(np.bincount(place, minlength=BINS + 1))[:-1]
    bins = zip(*(np.split(part[order], ends)[1:] for part in (sure, guess == y)), strict=True)
    curve = [
        [float(confidence.mean()), float(right.mean()), len(confidence)]
        for confidence, right in bins
        if len(confidence)
    ]
    return {
        "confusion": table.reshape(classes, classes).tolist() if classes <= LARGE else None,
        "rows": np.bincount(y, minlength=classes).tolist(),
        "auc": each,
        "macro_auc": float(np.mean(known)) if known else None,
        "ece": sum(rows * abs(confidence - right) for confidence, right, rows in curve) / len(y),
        "reliability": curve,  # of every bin that has rows: mean confidence, share that is right, rows
    }


def auc(positive: Array, score: Array) -> float | None:
    """The chance that a row of the class is ranked above another one; ties count half (Mann and Whitney).

    All counts are whole numbers and halves, so nothing is rounded before the end.
    """
    yes, no = np.sort(score[positive]), np.sort(score[~positive])
    if not len(yes) or not len(no):
        return None
    below = sum(np.searchsorted(no, yes, side).sum() for side in ("left", "right")) / 2
    return float(below / (len(yes) * len(no)))
