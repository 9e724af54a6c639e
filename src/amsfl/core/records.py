"""What a client sends, what it measures, what the server plans; and what may be put between the two.

The same records carry numpy and jax arrays, so the names of their types only say what is meant. What
is put between works on numpy and on jax arrays alike: it asks an array for its own functions (`namespace`).
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from types import ModuleType
from typing import Any, NamedTuple

Array = Any  # of numpy or jax
Number = Any  # a float, or an array without axes
Tree = Any  # arrays in nested tuples, as a network's parameters are
Json = dict[str, Any]  # as JSON and TOML hold it: settings, scores, records
JsonMapping = Mapping[str, Any]  # the same, to look at


class Upload(NamedTuple):
    """What a client sends up.

    `extra` is a second model-sized vector for methods that need one, `x[:0]` otherwise;
    `delta_sq` is ||delta||^2, one scalar, which server step rules such as FedExP need.
    """

    delta: Array
    extra: Array
    delta_sq: Array


class Total(NamedTuple):
    """What the server aggregates: the cohort's uploads, mixed and summed.

    `age` is how often the server had moved since this work began, on average; 0 in synchronous rounds.
    """

    delta: Array
    extra: Array
    delta_sq: Array
    age: Array = 0.0


class Reading(NamedTuple):
    """Gradient-difference (GDA) scalars of one client in one round, on its first minibatch.

    g is its gradient at the anchor, dg how the same minibatch's gradient changed over the local steps. The
    client sends all but the last two: delta is its upload as it arrived, v the last global step, and the
    server has both.
    """

    loss: Array  # of the minibatch at the anchor
    grad_sq: Array  # ||g||^2; 0: the client takes no readings
    grad_diff: Array  # <g, dg>
    diff_sq: Array  # ||dg||^2
    held_loss: Array  # loss at the anchor of the rows that the client holds back; NaN: it holds none back
    spread: Array  # how much outputs differ from held-back row to row; NaN: no such row
    delta_sq: Array = 0.0  # ||delta||^2
    delta_dir: Array = 0.0  # <delta, v>


class Verdict(IntEnum):
    """What the judge says of a round (planning/learning.py)."""

    NONE = 0
    BETTER = 1  # no anchor was better: it is the one to go back to
    BACK = 2  # clearly worse, or not finite: back to the best anchor
    RESTART = 3  # a network that says the same of every row: from the first model again


class Plan(NamedTuple):
    """Steps for every client of the cohort, the seconds that they take, and why."""

    steps: Array  # int, one per client of the problem
    seconds: float  # of the round, by the problem's clock
    why: tuple[str, ...]  # per client, what stopped it: budget, rate, cap, fixed


Parts = dict[str, Array]  # what travels, by name: `delta`, `extra`, or what they were encoded to
Key = tuple[Array, Array]  # two 32-bit words, of one client's round: see amsfl.sampling


def no_memory(parts: Parts) -> Array:
    """Of the kind of the numbers that travel, whatever they are called by now."""
    return next(part for part in parts.values() if is_real(part))[:0]


def is_real(part: Array) -> bool:
    """Whether an array holds real numbers, not places or bytes."""
    return bool(namespace(part).isdtype(part.dtype, "real floating"))


def same_parts(parts: Parts) -> Parts:
    return parts


class Transmit(NamedTuple):
    """What a client does to its upload before it leaves, and the server undoes: clip, add noise, compress.

    init(parts)                -> memory         a flat vector; empty where nothing is remembered
    encode(key, parts, memory) -> parts, memory  at the client
    decode(parts)              -> parts          at the server; the same names and shapes as before `encode`

    Bytes are those of the encoded arrays, so their shapes must follow from the shapes that came in.
    """

    name: str
    encode: Callable[[Key, Parts, Array], tuple[Parts, Array]]
    decode: Callable[[Parts], Parts] = same_parts
    init: Callable[[Parts], Array] = no_memory


class Combined(NamedTuple):
    """What a rule leaves of a cohort."""

    uploads: Upload  # [m, ...]
    weights: Array  # [m], sum 1
    counts: Array | None = None  # [n] how much of each row that came in is in their sum; None: not known
    history: Array | None = None  # [n, remembers] what it keeps of each client


class Combine(NamedTuple):
    """What the server does to the stacked uploads of a cohort before it sums them: a median, a trimmed mean.

    apply(uploads[n, ...], weights[n], steps[n], history[n, remembers]) -> Combined

    The sum by `weights` at the end is not the rule's: with the rows and weights that came in it would be what
    the method aggregates without a rule. So rules chain, and one that chooses returns one row of weight 1.
    `steps` are how many of its client's mean steps a row is: rules that compare clients divide by them.
    `history` is what the server kept of each of these clients since it was last here, zeros at first. A rule
    that remembers stands before any that leaves fewer rows than clients.
    """

    name: str
    apply: Callable[[Upload, Array, Array, Array], Combined]
    attackers: float = 0.0  # clients that it doubts, or below 1 their share; 0: it does not say
    capped: Callable[[Array], Array] | None = None  # what claimed weights (sum 1) become; None: they stay
    remembers: int = 0  # numbers that the server keeps of each client from round to round
    links: "tuple[Combine, ...]" = ()  # of a chain, its rules


class RowPrivacy(NamedTuple):
    """A private step at a client: every row's gradient is cut to `clip`, and the order's noise times that is
    added to their sum."""

    clip: float


class ClientPrivacy(NamedTuple):
    """Private aggregation: the server cuts every delta and adds noise to their sum.

    apply(uploads[n, ...], weights[n], largest, draw) -> total

    `weights` are shares of all data, 0 for clients outside the cohort, `largest` the largest of all clients';
    draw(size) gives standard normal numbers, anew each round.
    """

    part: float  # of all clients: the chance of each to be in a round's cohort
    apply: Callable[[Upload, Array, Array, Callable[[int], Array]], Upload]


class Attack(NamedTuple):
    """What some clients of a simulation do to the others. Empty fields are honest.

    forge(rows[n, ...], attacking[n], weights[n]) -> what each row would be if its client attacked.
    Rows are mean steps, `attacking` is above 0 where a client attacks.
    """

    name: str
    clients: int
    forge: Callable[[Array, Array, Array], Array] | None = None
    poison: Callable[[Array, Array, int], tuple[Array, Array]] | None = None  # x, y, classes: what it learns
    falsify: Callable[[Reading], Reading] | None = None  # the readings that it reports
    rows: float = 1.0  # times its rows that it claims
    seconds: float = 1.0  # times its seconds a step that it claims
    awake: Callable[[int, Array], Array] | None = None  # by round and client: whether it forges; None: always


def namespace(array: Array) -> ModuleType:
    """The functions of an array's own library, by the names of the array standard.

    Args:
        array: Of numpy, jax or another library that keeps to the standard.

    Returns:
        The library's module.
    """
    library: ModuleType = array.__array_namespace__()
    return library


def scatter(size: int, index: Array, values: Array) -> Array:
    """A vector of zeros with `values` at `index`: the one thing that the array standard has no word for.

    Args:
        size: Of the vector.
        index: Places.
        values: What stands there.

    Returns:
        The vector, of the kind that `values` is.
    """
    zeros = namespace(values).zeros(size, dtype=values.dtype)
    if hasattr(zeros, "at"):
        return zeros.at[index].set(values)
    zeros[index] = values
    return zeros
