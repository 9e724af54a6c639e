"""A method whose clients cut every row's gradient and add noise, if it can go without what is raw."""

from amsfl.core import UserError
from amsfl.methods import Method


def with_clipping(method: Method, clip: float) -> Method:
    """The method under record-level privacy: readings then come from uploads.

    Args:
        method: As it was made.
        clip: The norm that every row's gradient is cut to.

    Returns:
        The method that clips.
    """
    if method.needs_raw_values:
        names = ", ".join(name for name, _ in method.facts.private_options)
        way = f"leave its {names} as they then are" if names else "use fedavg, scaffold, feddyn or amsfl"
        raise UserError(
            f"{method.title} goes by losses or gradients as they are, which would tell of "
            f"single rows; under privacy {way}."
        )

    def clipped(each: Method) -> Method:
        extra = 0.0 if each.facts.readings else each.cost.extra_gradients
        return each._replace(clip=clip, cost=each.cost._replace(extra_gradients=extra))

    return method.changed(clipped)
