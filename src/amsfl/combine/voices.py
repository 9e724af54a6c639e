"""Clients that always err together have one voice."""

from amsfl.combine.base import mean_steps, remembering
from amsfl.combine.sketch import SKETCH, centre, sketched
from amsfl.combine.weighted import lengths, middle
from amsfl.core import Combine, Upload, UserError, namespace
from amsfl.core.records import Array


def voices(kept: float = 0.9, alike: float = 0.5) -> Combine:
    """Who deviates in the same way as others, over the rounds, shares one client's weight with them.

    h_i <- kept h_i + (1 - kept) e_i,   e_i = (x_i - c) / max(||x_i - c||, median_j ||x_j - c||)
    w_i <- w_i w_i / sum_j w_j s_ij,    s_ij = max(0, cos(h_i, h_j) - alike) / (1 - alike),   s_ii = 1

    c is the geometric median. What honest clients of unlike data have in common with each other is in c, and
    where each of them errs is its own; attackers that push together err together, and chance that hides it in
    one round does not in many. Only sketches of deviations are kept.
    After Fung, Yoon and Beschastnikh 2020, arXiv 1808.04866 (FoolsGold), on deviations instead of uploads.
    """
    if not (0 <= kept < 1 and 0 <= alike < 1):
        raise UserError("The rule 'voices' takes two numbers from 0 and below 1, as in voices:0.9/0.5.")

    def recall(
        uploads: Upload, weights: Array, steps: Array, history: Array
    ) -> tuple[Upload, Array, Array, Array]:
        space = namespace(weights)
        rows, counted = mean_steps(uploads, weights, steps)
        off = sketched(rows.delta)
        off = off - centre(off, counted)[0]
        apart = lengths(off)
        usual = middle(apart, counted)
        off = off / space.maximum(apart, usual + (usual == 0))[:, None]
        now = kept * history + (1 - kept) * space.where((counted > 0)[:, None], off, history)
        size = lengths(now)
        unit = now / (size + (size == 0))[:, None]
        eye = space.eye(len(weights), dtype=weights.dtype)
        cosines = unit @ unit.T
        same = space.maximum(cosines - alike, 0 * cosines) / (1 - alike) * (1 - eye) + eye
        shared = counted * counted / (same @ counted + (counted == 0))
        return uploads, shared / shared.sum(), eye, now

    return remembering(f"voices:{kept:g}/{alike:g}", recall, SKETCH)
