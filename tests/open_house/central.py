"""A combine rule of one's own: the client that is farthest from the mean is left out."""

from amsfl.core import Combine, Combined, namespace


def central() -> Combine:
    """Weights of all but the client farthest from the weighted mean, raised to sum to what they did."""

    def apply(uploads, weights, steps, history):
        space = namespace(uploads.delta)
        mean = space.sum(uploads.delta * weights[:, None], axis=0)
        apart = space.sum((uploads.delta - mean) ** 2, axis=1)
        kept = weights * (apart < space.max(apart))
        return Combined(uploads, kept / space.sum(kept) * space.sum(weights))

    return Combine("central", apply)
