"""Private steps at a real client: as engines/private_gradients.py, with the system's own randomness.

    g = (sum_{i in batch} grad_i min(1, clip/||grad_i||) + noise clip z) / b,   z standard normal,  b = q rows

A trainer that can do that has more:

    x                           the flat model, which is set after every step
    check_rows()                a UserError where a row has no gradient of its own
    row_sum(x, places, present, private)
                                the sum of the gradients at x of those rows that are present, each cut as
                                `private` says. `places` are always as many: how long it takes does not tell
                                how many rows are in a minibatch.
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from amsfl import sampling
from amsfl.core import RowPrivacy, UserError
from amsfl.privacy import safe_sum, system_random


def gradient(trainer: Any, private: RowPrivacy, noise: float, batch: int, x: Any) -> Any:
    """One private gradient at x, with `noise` times the clip; who is in its minibatch is a secret."""
    places = system_random.chosen(int(sampling.chance(batch, trainer.rows)), trainer.rows)
    padded, present = pad(places, room(batch, trainer.rows))
    total = np.asarray(trainer.row_sum(x, padded, present, private), np.float32)
    length = safe_sum.norms(total.astype(float)[None])[0]
    if not safe_sum.is_safe(length, len(places), private.clip):
        total = np.zeros_like(total)
    drawn = noise * private.clip * system_random.normal(len(x))
    return ((total + drawn) / min(batch, trainer.rows)).astype(np.float32)


def room(batch: int, rows: int) -> int:
    """Rows that are looked at in every step; of 10,000 minibatches one or none is larger."""
    return min(rows, batch + 4 * int(np.ceil(batch**0.5)) + 4)


def pad(places: Any, size: int) -> tuple[Any, Any]:
    """Places filled up to the next multiple of `size`, at least one, and which of them are present."""
    length = max(-(-len(places) // size), 1) * size
    return np.resize(np.append(places, 0), length), np.arange(length) < len(places)


def coarse(seconds: float) -> float:
    """Seconds rounded up to one of four marks between powers of two: finer ones would tell of single rows."""
    return float(2.0 ** (np.ceil(4 * np.log2(max(seconds, 1e-3))) / 4))


def check(trainer: Any) -> None:
    """Whether this client can keep its rows private; a UserError says why not."""
    if not hasattr(trainer, "row_sum"):
        raise UserError(
            f"A {type(trainer).__name__} has no gradients row by row, and each must be cut by itself: under "
            "privacy use torch_client or jax_client, or give it check_rows() and row_sum()."
        )
    trainer.check_rows()


@contextmanager
def silent(private: bool, *passed: type[Exception]) -> Iterator[None]:
    """Errors travel to the server with what they say; under privacy that stays here: it may be of rows.

    Those of the kinds in `passed` are sentences of ours, and travel.
    """
    try:
        yield
    except passed:
        raise
    except Exception:
        if not private:
            raise
        traceback.print_exc()
        raise UserError(
            "This site's work failed, and why may tell of its rows: its own log says it."
        ) from None
