"""Robust rules: limits on what a client may weigh and how far it may go, medians, Krum.

First what they are made of: quantiles, ranks and neighbours of clients that weigh unequally, where one of
weight 2 is two equal clients. Last the rules that remember clients, by a few numbers in place of each upload.
"""

from collections.abc import Callable

from amsfl import sampling
from amsfl.combine.chain import by_step, mean_steps
from amsfl.core import Combine, Combined, Upload, UserError, namespace
from amsfl.core.records import Array

SMALL = 1e-6  # weights are rounded: two that differ by less are equal


def doubted(rule: str, attackers: float) -> Callable[[Array], Array]:
    """From weights the share that may be false: the heaviest `attackers` clients', or `attackers` if below 1.

    Half is the most that any rule can stand. Where so few clients hold more, or so many are doubted of the
    few that came, it is taken for half: a real client that stays away must not end a run.
    """
    if not attackers >= 0 or (attackers % 1 if attackers >= 1 else attackers > 0.5):
        raise UserError(
            f"The rule '{rule}:{attackers:g}': give it a whole number of clients, as in {rule}:2, "
            f"or a share of the weight up to a half, as in {rule}:0.2."
        )

    def share(weights: Array) -> Array:
        if attackers < 1:
            return attackers
        space = namespace(weights)
        heaviest = space.sort(weights)[max(0, len(weights) - int(attackers)) :].sum()
        return space.minimum(heaviest, space.zeros_like(heaviest) + 0.5)

    return share


def cut(weights: Array, low: Array, high: Array) -> Array:
    """How much of each weight lies between two ranks, as shares of the sum; weights in order, axis 0.

    Between two equal ranks (the middle of all) it is what lies around them.
    """
    space = namespace(weights)
    low, high = low - SMALL * (high - low < SMALL), high + SMALL * (high - low < SMALL)
    upto = space.cumulative_sum(weights, axis=0)
    zero = space.zeros_like(upto)
    inside = space.minimum(upto, zero + high) - space.maximum(upto - weights, zero + low)
    return space.maximum(inside, zero)


def between(values: Array, weights: Array, low: Array, high: Array) -> Array:
    """Shares of the values between two ranks, along the first axis; they sum to 1."""
    space = namespace(values)
    order = space.argsort(values, axis=0, stable=True)
    kept = cut(space.take(weights / weights.sum(), order), low, high)
    kept = space.take_along_axis(kept, space.argsort(order, axis=0, stable=True), axis=0)
    return kept / kept.sum(0)


def around_middle(values: Array, weights: Array) -> Array:
    """1 for the value in the middle of the weights, along the first axis; of two middles a half each."""
    here = between(values, weights, 0.5, 0.5) > 0
    kept = namespace(values).astype(here, values.dtype)
    return kept / kept.sum(0)


def middle(values: Array, weights: Array) -> Array:
    """The weighted median along the first axis; of two middles the mean.

    Args:
        values: One row a client.
        weights: Of the clients.

    Returns:
        One row.
    """
    share = around_middle(values, weights)
    space = namespace(values)
    return space.where(share > 0, share * values, space.zeros_like(values)).sum(0)


def neighbour_distances(rows: Array, weights: Array, share: Array) -> Array:
    """Of every row the squared distances to the nearest others of such a share of the weight, by weight."""
    space = namespace(rows)
    square, product = (rows * rows).sum(1), rows @ rows.T  # n n d numbers would not fit
    apart = space.maximum(square[:, None] + square[None, :] - (product + product.T), 0 * product)
    apart = apart * (1 - space.eye(len(rows), dtype=rows.dtype))
    far = space.where(weights[None, :] > 0, apart, space.zeros_like(apart) + float("inf"))
    order = space.argsort(far, axis=1, stable=True)
    near = cut(space.take(weights, order).T, 0.0, share).T
    return (near * space.take_along_axis(apart, order, axis=1)).sum(1)


def lengths(rows: Array) -> Array:
    return (rows * rows).sum(1) ** 0.5


Ruled = tuple[Upload, Array, Array]


def cap(share: float) -> Combine:
    """No client counts more than `share` of the cohort, however many rows it claims.

    w_i <- min(w_i, u) / sum_j min(w_j, u),   u the largest for which no weight exceeds `share`

    Portnoy, Tirosh and Hendler 2020, arXiv 2004.04986. Where even equal weights exceed it, they are equal.
    The one rule that counts heads: a client of weight 2 is one client here.
    """
    if not 0 < share <= 1:
        raise UserError(f"The rule 'cap:{share:g}': a share is above 0 and at most 1, as in cap:0.2.")

    def rule(uploads: Upload, weights: Array) -> Ruled:
        after = capped(weights, share)
        return uploads, after, after

    return by_step(f"cap:{share:g}", rule)._replace(capped=lambda weights: capped(weights, share))


def capped(weights: Array, share: float) -> Array:
    """With the k heaviest at the limit, u = share (rest + k u); the least k whose u holds for the others."""
    space = namespace(weights)
    rising = space.sort(weights)
    falling, rest = space.flip(rising), space.flip(space.cumulative_sum(rising))
    heaviest = space.cumulative_sum(space.ones_like(weights)) - 1  # k = 0, 1, ...
    room = 1 - heaviest * share
    limit = share * rest / space.where(room > 0, room, space.ones_like(room))
    holds = (room > 0) & (limit >= falling) & (falling > 0)
    least = space.min(space.where(weights > 0, weights, space.zeros_like(weights) + float("inf")))
    cap = space.where(space.any(holds), limit[space.argmax(holds)], least)
    cut = space.minimum(weights, cap)
    return cut / space.sum(cut)


def clip(norm: float = 0.0) -> Combine:
    """No client's mean step is longer than `norm`; without a number, than the weighted median of all.

    x_i <- x_i min(1, norm / ||x_i||)

    Sun et al. 2019, arXiv 1911.07963.
    """
    if norm < 0:
        raise UserError(
            f"The rule 'clip:{norm:g}': a length is above 0, as in clip:1.0; clip alone finds one."
        )

    def rule(uploads: Upload, weights: Array) -> Ruled:
        space = namespace(weights)
        length = lengths(uploads.delta)
        limit = norm or middle(length, weights)
        by = space.minimum(space.ones_like(length), limit / (length + (length == 0)))
        rows = Upload(uploads.delta * by[:, None], uploads.extra * by[:, None], uploads.delta_sq * by * by)
        return rows, weights, weights * by

    return by_step(f"clip:{norm:g}", rule)


def median() -> Combine:
    """Of every coordinate the weighted median: a client of weight 2 counts as two of weight 1.

    Yin et al. 2018, arXiv 1803.01498, with weights.
    """

    def rule(uploads: Upload, weights: Array) -> Ruled:
        return _alone([around_middle(part, weights) for part in uploads], uploads, weights)

    return by_step("median", rule)


def trimmed(attackers: float) -> Combine:
    """Of every coordinate the mean of what is left without the lowest and the highest of `attackers` clients.

    m = 1/(1-2a) integral of the weighted quantiles from a to 1-a,   a the weight of `attackers` clients

    Yin et al. 2018, arXiv 1803.01498, with weights. Where `attackers` clients hold half, it is the median.
    """
    share = doubted("trimmed", attackers)

    def rule(uploads: Upload, weights: Array) -> Ruled:
        doubt = share(weights)
        return _alone([between(part, weights, doubt, 1 - doubt) for part in uploads], uploads, weights)

    return by_step(f"trimmed:{attackers:g}", rule, attackers)


def krum(attackers: float) -> Combine:
    """The one upload whose neighbours are nearest; those of `attackers` clients' weight it may lie far from.

    argmin_i sum_{j near i} w_j ||x_i - x_j||^2,   over the nearest of weight 1-a, a of `attackers` clients

    Blanchard et al. 2017, with weights. (A client is its own nearest neighbour, at no distance.)
    """
    share = doubted("krum", attackers)

    def rule(uploads: Upload, weights: Array) -> Ruled:
        space = namespace(weights)
        score = neighbour_distances(uploads.delta, weights, 1 - share(weights))
        best = space.argmin(space.where(weights > 0, score, space.zeros_like(score) + float("inf")))
        picked = space.astype(space.arange(len(weights)) == best, weights.dtype)
        return Upload(*(part[best][None] for part in uploads)), weights[:1] * 0 + 1, picked

    return by_step(f"krum:{attackers:g}", rule, attackers)


def _alone(shares: list[Array], uploads: Upload, weights: Array) -> Ruled:
    """A single row that stands for all: sums of rows by such shares, coordinate by coordinate."""
    one = [(share * part).sum(0)[None] for share, part in zip(shares, uploads, strict=True)]
    return Upload(*one), weights[:1] * 0 + 1, shares[0].mean(1)


SKETCH = 512  # numbers: products of two uploads are right to about 1/sqrt(512) of their lengths
ROUNDS = 8  # of Weiszfeld's steps
NEAREST = 1e-3  # of the usual distance: nobody is nearer to the centre than that
LARGEST = 0.1  # product of two uploads that counts: a few that are the same must not pass for all
KEPT, ALIKE = 0.9, 0.5  # of deviations from round to round; cosines that two may have by chance
KEPT_LONGER, ENOUGH = 0.99, 0.5  # of directions; of the usual one that counts in full
SHARP = 3  # rounds in which clients hardly agree say next to nothing


def voices() -> Combine:
    """Who deviates in the same way as others, over the rounds, shares one client's weight with them.

    h_i <- kept h_i + (1 - kept) e_i,   e_i = (x_i - c) / max(||x_i - c||, median_j ||x_j - c||)
    w_i <- w_i w_i / sum_j w_j s_ij,    s_ij = max(0, cos(h_i, h_j) - alike) / (1 - alike),   s_ii = 1,
    kept = 0.9, alike = 0.5

    c is the geometric median. What honest clients of unlike data have in common with each other is in c, and
    where each of them errs is its own; attackers that push together err together, and chance that hides it in
    one round does not in many. Only sketches of deviations are kept.
    After Fung, Yoon and Beschastnikh 2020, arXiv 1808.04866 (FoolsGold), on deviations instead of uploads.
    """

    def apply(uploads: Upload, weights: Array, steps: Array, history: Array) -> Combined:
        space = namespace(weights)
        rows, counted = mean_steps(uploads, weights, steps)
        off = sketched(rows.delta)
        off = off - centre(off, counted)[0]
        apart = lengths(off)
        usual = middle(apart, counted)
        off = off / space.maximum(apart, usual + (usual == 0))[:, None]
        now = KEPT * history + (1 - KEPT) * space.where((counted > 0)[:, None], off, history)
        size = lengths(now)
        unit = now / (size + (size == 0))[:, None]
        eye = space.eye(len(weights), dtype=weights.dtype)
        cosines = unit @ unit.T
        same = space.maximum(cosines - ALIKE, 0 * cosines) / (1 - ALIKE) * (1 - eye) + eye
        shared = counted * counted / (same @ counted + (counted == 0))
        shared = shared / shared.sum()
        return Combined(uploads, shared, shared, now)

    return Combine("voices", apply, remembers=SKETCH)


def trust(attackers: float) -> Combine:
    """Those `attackers` that go most against what the others have in common, over the rounds, lose weight.

    z_i = x_i / s,   s_k^2 = sum_i w_i x_ik^2, coordinate by coordinate
    P_ij = sqrt(w_i w_j) clip(<z_i, z_j>, -0.1, 0.1), P_ii = 0;   P v = l v, the largest l, most of v positive
    A_i <- kept A_i + l^3 v_i / sqrt(w_i),   L_i <- kept L_i + l^3,   a_i = A_i / L_i
    w_i <- w_i clip(a_i / (enough median_j a_j), 0, 1)   for those of the lowest a_i
    kept = 0.99, enough = 0.5

    Which classes a client has is in few, large coordinates. Over their size they count as the others do, and
    what is left tells who learns from who works against it. Lengths of z are cut to the median. Honest
    clients of unlike data are almost at right angles, but while a model is far from where it ends all of
    them have one way in common, and who turns uploads or labels round goes against it: v tells them apart
    where distances do not. Close to the end nobody's upload goes along with the others' (l is small): such
    rounds hardly count, and what was seen before stays.
    """
    share = doubted("trust", attackers)

    def apply(uploads: Upload, weights: Array, steps: Array, history: Array) -> Combined:
        space = namespace(weights)
        rows, counted = mean_steps(uploads, weights, steps)
        largest, along = _common_way(sketched(_evened(rows.delta, counted)), counted)
        says = largest**SHARP
        fresh = KEPT_LONGER * history + space.stack([says * along, says + 0 * along], axis=1)
        now = space.where((counted > 0)[:, None], fresh, history)
        own = now[:, 0] / (now[:, 1] + (now[:, 1] == 0))
        usual = ENOUGH * middle(own, counted)
        part = space.where(usual > 0, own / (usual + (usual == 0)), 0 * own + 1)
        order = space.argsort(own, stable=True)
        lowest = cut(space.take(counted, order), 0.0, share(counted))[space.argsort(order, stable=True)]
        left = counted * space.where(lowest > SMALL, space.clip(part, 0.0, 1.0), 0 * part + 1)
        left = left / left.sum()
        return Combined(uploads, left, left, now)

    return Combine(f"trust:{attackers:g}", apply, attackers, remembers=2)


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
