"""Rules that remember clients, by a few numbers in place of each upload: enough to compare them."""

from amsfl import sampling
from amsfl.combine.chain import mean_steps
from amsfl.combine.weighted import SMALL, cut, doubted, lengths, middle
from amsfl.core import Combine, Combined, Upload, UserError, namespace
from amsfl.core.records import Array

SKETCH = 512  # numbers: products of two uploads are right to about 1/sqrt(512) of their lengths
ROUNDS = 8  # of Weiszfeld's steps
NEAREST = 1e-3  # of the usual distance: nobody is nearer to the centre than that
LARGEST = 0.1  # product of two uploads that counts: a few that are the same must not pass for all
SHARP = 3  # rounds in which clients hardly agree say next to nothing


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

    def apply(uploads: Upload, weights: Array, steps: Array, history: Array) -> Combined:
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
        shared = shared / shared.sum()
        return Combined(uploads, shared, shared, now)

    return Combine(f"voices:{kept:g}/{alike:g}", apply, remembers=SKETCH)


def trust(attackers: float, kept: float = 0.99, enough: float = 0.5) -> Combine:
    """Of all clients those `attackers` that go most against what the others have in common, over the rounds,
    lose their weight.

    z_i = x_i / s,   s_k^2 = sum_i w_i x_ik^2, coordinate by coordinate
    P_ij = sqrt(w_i w_j) clip(<z_i, z_j>, -0.1, 0.1), P_ii = 0;   P v = l v, the largest l, most of v positive
    A_i <- kept A_i + l^3 v_i / sqrt(w_i),   L_i <- kept L_i + l^3,   a_i = A_i / L_i
    w_i <- w_i clip(a_i / (enough median_j a_j), 0, 1)   for those of the lowest a_i

    Which classes a client has is in few, large coordinates. Over their size they count as the others do, and
    what is left tells who learns from who works against it. Lengths of z are cut to the median. Honest
    clients of unlike data are almost at right angles, but while a model is far from where it ends all of
    them have one way in common, and who turns uploads or labels round goes against it: v tells them apart
    where distances do not. Close to the end nobody's upload goes along with the others' (l is small): such
    rounds hardly count, and what was seen before stays.
    """
    if not (0 <= kept < 1 and 0 < enough <= 1):
        raise UserError("The rule 'trust' takes a number below 1 and one up to 1, as in trust:2/0.99/0.5.")
    share = doubted("trust", attackers)

    def apply(uploads: Upload, weights: Array, steps: Array, history: Array) -> Combined:
        space = namespace(weights)
        rows, counted = mean_steps(uploads, weights, steps)
        largest, along = _common_way(sketched(_evened(rows.delta, counted)), counted)
        says = largest**SHARP
        fresh = kept * history + space.stack([says * along, says + 0 * along], axis=1)
        now = space.where((counted > 0)[:, None], fresh, history)
        own = now[:, 0] / (now[:, 1] + (now[:, 1] == 0))
        usual = enough * middle(own, counted)
        part = space.where(usual > 0, own / (usual + (usual == 0)), 0 * own + 1)
        order = space.argsort(own, stable=True)
        lowest = cut(space.take(counted, order), 0.0, share(counted))[space.argsort(order, stable=True)]
        left = counted * space.where(lowest > SMALL, space.clip(part, 0.0, 1.0), 0 * part + 1)
        left = left / left.sum()
        return Combined(uploads, left, left, now)

    return Combine(f"trust:{attackers:g}/{kept:g}/{enough:g}", apply, attackers, remembers=2)


def _evened(rows: Array, weights: Array) -> Array:
    """Every coordinate over its root mean square of all clients."""
    size = (rows * rows * weights[:, None]).sum(0) ** 0.5
    return rows / (size + (size == 0))


def _common_way(rows: Array, weights: Array) -> tuple[Array, Array]:
    """How much rows agree, and how far each goes along with the others: about 1; below 0: against them."""
    space = namespace(rows)
    length = lengths(rows)
    usual = middle(length, weights)
    rows = rows / space.maximum(length, usual + (usual == 0))[:, None]
    root = weights**0.5
    products = space.clip(rows @ rows.T, -LARGEST, LARGEST) * root[:, None] * root
    products = products * (1 - space.eye(len(weights), dtype=weights.dtype))
    values, vectors = space.linalg.eigh(products)
    along = vectors[:, -1] / (root + (root == 0))
    side = space.sign((weights * space.sign(along)).sum())
    return space.maximum(values[-1], 0 * values[-1]), along * (side + (side == 0))


def sketched(rows: Array) -> Array:
    """[n, d] as [n, SKETCH]: coordinates with random signs, every SKETCH-th added up."""
    space = namespace(rows)
    clients, size = rows.shape
    words = sampling.words([SKETCH, size])
    places = space.arange(size, dtype=words.dtype)
    signs = 1 - 2 * space.astype(sampling.uniform((words[:1], words[1:]), places) < 0.5, rows.dtype)
    fill = space.zeros((clients, -size % SKETCH), dtype=rows.dtype)
    return space.concat([rows * signs, fill], axis=1).reshape(clients, -1, SKETCH).sum(1)


def centre(rows: Array, weights: Array) -> tuple[Array, Array]:
    """The geometric median, and how much of each row is in it."""
    space = namespace(rows)
    shares = weights / weights.sum()
    for _ in range(ROUNDS):
        apart = lengths(rows - shares @ rows)
        usual = middle(apart, weights)
        pull = weights / space.maximum(apart, NEAREST * usual + (usual == 0))
        shares = pull / pull.sum()
    return shares @ rows, shares
