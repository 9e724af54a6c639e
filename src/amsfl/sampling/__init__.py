"""Which rows a minibatch holds: a counter-based generator, the same on every engine and device.

Row numbers are a hash of (seed, round, client, step, place), so a batch can be drawn anywhere, in any
order, without state: engines agree, resumed runs agree, and drawing costs a handful of integer
operations (jax's threefry took a fifth of a client step on two cores). Sampling is i.i.d. with
replacement, or in passes over all rows; clients with fewer rows than a batch need no special case. Under
differential privacy a row is in a batch by a chance of its own (`gaps`), and noise comes from here, too.
The functions use operators only: numpy and jax arrays both pass through.
"""

from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np

from amsfl.core.algorithm import NUMBERS

Array = Any
U32 = np.uint32
HELD_DRAW = 0x4E1D  # the stream that these are drawn from
TURNS = 24  # of a shuffle: two rows stay where they were, side by side, once in 2^24 times
PROTOTYPES = 0xFFFF  # a step number that no run reaches: the stream for FedCSDA's prototype rows


def scramble(x: Array) -> Array:
    """A bijection of 32-bit words with low bias (constants: C. Wellons, hash-prospector, public domain)."""
    x = (x ^ (x >> U32(16))) * U32(0x7FEB352D)
    x = (x ^ (x >> U32(15))) * U32(0x846CA68B)
    return x ^ (x >> U32(16))


def stream(seed: Array, round_: Array, client: Array) -> tuple[Array, Array]:
    """Two key words for one client's round. Arguments are uint32 arrays (0-d is fine)."""
    first = scramble(scramble(scramble(seed + U32(0x9E3779B9)) + round_) + client)
    return first, scramble(first ^ U32(0xB5297A4D))


def draw(key: tuple[Array, Array], step: Array, places: Array, rows: Array, batch: int = 0) -> Array:
    """Row numbers in [0, rows) for the given places of step's minibatch (places: arange, uint32).

    With `batch`, minibatches of that size are cut from passes over all rows, without replacement.
    """
    if batch:
        return _in_passes(key, step * U32(batch) + places, rows)
    return _below(scramble(scramble((step << U32(16)) + places + key[0]) ^ key[1]), rows)


def _below(bits: Array, rows: Array) -> Array:
    """Words as numbers in [0, rows)."""
    # 24 bits make an exact float32 in [0, 1); the product can round up to `rows` itself, hence the clip
    picked = ((bits >> U32(8)).astype(np.float32) * np.float32(2**-24) * rows.astype(np.float32)).astype(
        np.int32
    )
    return picked - (picked >= rows)


def _in_passes(key: tuple[Array, Array], number: Array, rows: Array) -> Array:
    """The row at place `number` of passes over all rows, each in an order of its own.

    A pass is shuffled by swap-or-not (Hoang, Morris, Rogaway 2012, arXiv 1208.1176): in every turn row x and
    its partner k - x change places or not, by a coin that both see. So no order has to be stored.
    """
    count = rows.astype(np.uint32)
    one = number // count
    x = (number - one * count).astype(np.int32)
    first = scramble(key[0] + scramble(one ^ U32(0x51ED270B)))
    for turn in range(TURNS):
        word = scramble(first ^ scramble(key[1] + U32(turn)))
        middle = _below(word, rows)
        partner = middle - x + rows * (middle < x)
        upper = x + (partner - x) * (partner > x)
        x = x + (partner - x) * (scramble(upper.astype(np.uint32) ^ word) & U32(1)).astype(np.int32)
    return x


def uniform(key: tuple[Array, Array], places: Array) -> Array:
    """Float32 numbers in [0, 1), one a place, from a stream of their own: no minibatch shares them."""
    bits = scramble(scramble(places + scramble(key[0] + U32(0x68E31DA4))) ^ key[1])
    return (bits >> U32(8)).astype(np.float32) * np.float32(2**-24)


def chance(batch: int, rows: Array) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """The largest word by which a row is in a minibatch: its chance is (word + 1) / 2^32, to the bit.

    That is batch/rows, rounded down; certain where there are no more rows than the batch has room for.
    """
    words = (np.uint64(batch) << np.uint64(32)) // np.maximum(np.asarray(rows, np.uint64), np.uint64(1))
    return (np.minimum(words, np.uint64(2**32)) - np.uint64(1)).astype(np.uint32)


def room(batch: int, rows: int) -> int:
    """Rows looked at in one go, where a batch has no fixed size: of forty batches one or two are larger."""
    return min(rows, batch + 2 * int(np.ceil(batch**0.5)))


def share(word: Array) -> float:
    """The chance that a word of `chance` stands for."""
    return (int(word) + 1) / 2**32


def digits(batch: int, rows: Array) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Thresholds for `gaps`, [..., digits], by which every row is in with the chance that `chance` says.

    Between two rows that are in, k are not, with P(k) = q s^k, s = 1 - q. The binary digits of such a k are
    independent of each other: digit j is 1 with chance s^(2^j) / (1 + s^(2^j)). So a batch is drawn in as
    many looks as it has rows, whatever their number. Rounded up: no row is in with more than q.
    """
    stays = 1 - (np.asarray(chance(batch, rows), float) + 1) / 2**32  # exact
    count = int(np.ceil(np.log2(max(25 / (1 - stays.max()), 2))))  # further digits are 1 once in 10^10
    with np.errstate(under="ignore"):
        powers = stays[..., None] ** (2.0 ** np.arange(count))
    return np.asarray(np.ceil(powers / (1 + powers) * 2**32), np.uint32)


def gaps(key: tuple[Array, Array], step: Array, places: Array, thresholds: Array) -> Array:
    """How many rows are passed over before each of those that are in step's minibatch (places: arange)."""
    space = places.__array_namespace__()
    each = space.arange(thresholds.shape[-1], dtype=np.uint32)
    bits = _bits(key, step, places[:, None] * U32(len(each)) + each, U32(0x3C6EF372))[0]
    return ((bits < thresholds).astype(np.uint32) << each).sum(1, dtype=np.uint32)


def normal(key: tuple[Array, Array], step: Array, places: Array) -> Array:
    """Standard normal float32 numbers, one a place, of step's noise.

    The sum of two from a table, 16 bits each: a logarithm and a cosine took twice the time of a whole step.
    """
    bits = _bits(key, step, places, U32(0xDAA66D2B))[0]
    table = places.__array_namespace__().asarray(_quantiles())
    return table[(bits >> U32(16)).astype(np.int32)] + table[(bits & U32(0xFFFF)).astype(np.int32)]


@cache
def _quantiles() -> np.ndarray[Any, np.dtype[np.float32]]:
    """Means of the normal distribution over 2^16 parts of equal chance, scaled: two have variance 1."""
    bell, half = NormalDist(), 2**15
    edges = [bell.inv_cdf(place / (2 * half)) for place in range(1, half + 1)]
    density = np.array([0.0, *map(bell.pdf, edges)])
    means = (density[:-1] - density[1:]) * 2 * half
    whole = np.concatenate([means, -means[::-1]])
    return np.asarray(whole / (2 * np.mean(whole**2)) ** 0.5, np.float32)


def noise_of_round(seed: Array, number: Array, places: Array) -> Array:
    """Standard normal float32 numbers for the server's own noise of a round: no client has that stream."""
    return normal(stream(seed, number, U32(0xFFFFFFFF)), U32(0), places)


def _bits(key: tuple[Array, Array], step: Array, places: Array, purpose: Array) -> tuple[Array, Array]:
    """Two words a place. Both keys are the step's own: windows of places that overlap must not repeat."""
    first = scramble(scramble(key[0] + purpose) + step)
    second = scramble(key[1] ^ first)
    bits = scramble(scramble(places + first) ^ second)
    return bits, scramble(bits + second)


def words(values: Array) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Python or numpy integers as the uint32 arrays that the functions above expect."""
    return np.asarray(values, np.int64).astype(np.uint32)


def held_count(rows: int, share: float) -> int:
    """How many of a client's rows are held back: a share, rounded up, 32 at most, never more than half."""
    return min(int(np.ceil(share * rows - 1e-9)), NUMBERS.held_most, rows // 2)


def hold_back(seed: int, client: int, rows: int, share: float) -> tuple[Array, Array]:
    """Places of the rows that a client trains on, and of those that it holds back: always the same."""
    order = np.random.default_rng([seed, client, HELD_DRAW]).permutation(rows)
    kept = rows - held_count(rows, share)
    return order[:kept], order[kept:]
