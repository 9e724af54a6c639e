"""FedSPS."""

from typing import Any

from amsfl.methods.base import Method


def fedsps(c: float = 0.5) -> Method:
    """FedAvg with Polyak's step at every client: lr is only the longest that it may be.

    y <- y - min(lr, loss / (c ||g||^2)) g

    The loss's lower bound is taken as 0. Sohom Mukherjee, Loizou and Stich 2023, arXiv 2307.06306.
    """

    def stride(loss: Any, grad_sq: Any) -> Any:
        length = loss / (c * grad_sq + 1e-12)
        return length * (length > 0)

    return Method("fedsps", stride=stride, title="FedSPS")
