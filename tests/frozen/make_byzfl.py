"""What byzfl 0.0.11's rules make of 1,000 random inputs: writes byzfl.npz beside itself.

    pip install byzfl && python tests/frozen/make_byzfl.py

byzfl brings torch and torchvision, so the tests keep its answers instead of it. Inputs are drawn anew from
their seeds (`inputs`), in the test as here.
"""

from pathlib import Path

import numpy as np

COUNT, DIM = 1000, 3


def inputs(number):
    """The vectors [n, 3], with some far off, and how many may be false: n from 5 to 11, f below half."""
    rng = np.random.default_rng([number, 0xB])
    clients = int(rng.integers(5, 12))
    attackers = int(rng.integers(1, (clients - 1) // 2 + 1))
    vectors = rng.normal(size=(clients, DIM))
    vectors[:attackers] += rng.normal(size=DIM) * rng.choice([0.0, 1.0, 10.0])
    return vectors, attackers


def answers(vectors, attackers):
    from byzfl.aggregators import aggregators as a
    from byzfl.aggregators import preaggregators as p

    return {
        "median": a.Median()(vectors),
        "trimmed": a.TrMean(attackers)(vectors),
        "krum": a.Krum(attackers)(vectors),
        "clip": p.Clipping(1.5)(vectors.copy()).mean(0),
    }


if __name__ == "__main__":
    found = [answers(*inputs(number)) for number in range(COUNT)]
    # to 1e-8, as whole numbers: half the size
    columns = {name: np.array([each[name] for each in found]) for name in found[0]}
    whole = {name: np.round(1e8 * column).astype(np.int64) for name, column in columns.items()}
    np.savez_compressed(Path(__file__).with_name("byzfl.npz"), **whole)
