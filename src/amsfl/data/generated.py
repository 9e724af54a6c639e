"""Images and texts made up from a fixed seed, to try larger models on without a download.

images-synth: 28 x 28, ten classes, each a coarse pattern that is moved about and covered with noise.
texts-synth: 32 tokens a row, four classes; some words of a row are its class's own, the others common ones by
Zipf's law. Neither is like real images or texts.
"""

import numpy as np

from amsfl.data.dataset import Dataset, hold_out, random_stream

SIDE, KINDS = 28, 10
PLACES, WORDS, TOPICS = 32, 8192, 4  # token 0 fills rows up
OWN, OFTEN = 200, 0.25  # words of a class, and how often a word is one of them
IMAGES, TEXTS = 12_500, 12_500  # rows
SEED = 1998
NOTE = "Synthetic data ({}): generated from a fixed seed."


def load_images(holdout: float = 0.2, seed: int = 0, rows: int = IMAGES) -> Dataset:
    """28 x 28 grey values of mean 0 and deviation about 1."""
    rng = random_stream(SEED, "images")
    coarse = rng.normal(size=(KINDS, SIDE // 4, SIDE // 4))
    patterns = np.kron(coarse, np.ones((4, 4)))
    y = rng.integers(0, KINDS, rows).astype(np.int32)
    x = rng.normal(size=(rows, SIDE, SIDE))
    down, right = rng.integers(-3, 4, (2, rows))
    for row in range(rows):
        x[row] += np.roll(patterns[y[row]], (down[row], right[row]), (0, 1))
    flat = (x / 2**0.5).reshape(rows, -1).astype(np.float32)
    names = tuple(f"pixel_{row}_{col}" for row in range(SIDE) for col in range(SIDE))
    classes = tuple(map(str, range(KINDS)))
    note = NOTE.format("images-synth")
    whole = Dataset("images-synth", flat, y, {}, classes, names, synthetic=True, note=note)
    return hold_out(whole, holdout, seed)


def load_texts(holdout: float = 0.2, seed: int = 0, rows: int = TEXTS) -> Dataset:
    """Rows of 32 token numbers below 8,192; a quarter of the words of a row speak of its class."""
    rng = random_stream(SEED, "texts")
    y = rng.integers(0, TOPICS, rows).astype(np.int32)
    common = 1 + rng.zipf(1.2, (rows, PLACES)) % (WORDS - 1)
    own = rng.choice(np.arange(100, WORDS), (TOPICS, OWN), replace=False)
    topical = own[y[:, None], rng.integers(0, OWN, (rows, PLACES))]
    x = np.where(rng.random((rows, PLACES)) < OFTEN, topical, common)
    x[np.arange(PLACES) >= rng.integers(8, PLACES + 1, rows)[:, None]] = 0
    names = tuple(f"token_{place}" for place in range(PLACES))
    classes = tuple(f"topic_{kind}" for kind in range(TOPICS))
    note = NOTE.format("texts-synth")
    whole = Dataset("texts-synth", x.astype(np.float32), y, {}, classes, names, synthetic=True, note=note)
    return hold_out(whole, holdout, seed)
