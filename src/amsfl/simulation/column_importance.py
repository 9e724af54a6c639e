"""Which columns of a table a run's model goes by, on rows of the hold-out, at the end of the run."""

from typing import Any

import numpy as np

from amsfl.core.scores import UNBALANCED
from amsfl.engines.models import tensors
from amsfl.portable.compute import logits
from amsfl.portable.evaluation import permutation_importance
from amsfl.portable.network import Array
from amsfl.simulation.class_scores import of_classes
from amsfl.simulation.setup import RunSetup

ROWS, COLUMNS = 2000, 300  # at most: some seconds


def column_importance(setup: RunSetup, params: Array) -> list[dict[str, Any]]:
    """Of every raw column; empty where the data are no table of columns, or the network is the user's own."""
    recipe, model, task = setup.data.recipe, setup.task.model, setup.task
    if recipe is None or not model.layers or not 0 < len(recipe.columns) <= COLUMNS:
        return []
    x, y = setup.data.evals["holdout"]
    some = np.linspace(0, len(y) - 1, min(len(y), ROWS)).astype(int)
    x, y, named = x[some], np.asarray(y)[some], tensors(model, task.arrays(params))
    shares = np.bincount(y) / len(y) if setup.data.classes else np.zeros(1)
    name = "r2" if not setup.data.classes else "AUC" if UNBALANCED <= shares.max() < 1 else "accuracy"

    def score(x: Array) -> float:
        predicted = np.asarray(logits(model.layers, named, x), np.float64)
        if name == "accuracy":
            return float((predicted.argmax(1) == y).mean())
        if name == "AUC":
            return float(of_classes(predicted, y)["macro_auc"])
        return float(1 - ((predicted[:, 0] - y) ** 2).sum() / max(((y - y.mean()) ** 2).sum(), 1e-30))

    owners = np.zeros(len(y), np.int64)  # rows of the hold-out are the server's
    importances = permutation_importance(name, score, x, recipe, owners)
    return [each._asdict() for each in importances]
