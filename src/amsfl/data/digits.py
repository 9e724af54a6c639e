"""scikit-learn's embedded digits: 1,797 images of 8 x 8, no download."""

import numpy as np

from amsfl.data.dataset import Dataset, hold_out
from amsfl.data.recipe import ColumnRecipe, Recipe

FEATURES = tuple(f"pixel_{row}_{col}" for row in range(8) for col in range(8))
RECIPE = Recipe(tuple(ColumnRecipe(name, "number", "point", scale=16.0) for name in FEATURES), label="digit")


def load_digits(holdout: float = 0.2, seed: int = 0) -> Dataset:
    """Ten classes, 64 grey values scaled from the known range 0..16 to [0, 1].

    UCI "Optical Recognition of Handwritten Digits", its test half, as scikit-learn ships it.
    """
    # A second of import that other data need not pay.
    from sklearn.datasets import load_digits as embedded

    images, labels = embedded(return_X_y=True)
    x, y = (images / 16).astype(np.float32), labels.astype(np.int32)
    return hold_out(Dataset("digits", x, y, {}, tuple("0123456789"), FEATURES, recipe=RECIPE), holdout, seed)
