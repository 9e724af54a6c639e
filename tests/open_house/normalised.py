"""A privacy mechanism of one's own: every row's gradient is made about as long as the clip."""

from math import log

from amsfl.privacy import Mechanism, row_mechanism


def zero_concentrated(events, delta):
    """rho + 2 sqrt(rho ln(1/delta)), rho = sum steps/(2 noise^2): no amplification by sampling."""
    rho = sum(event.steps / (2 * event.noise**2) for event in events)
    return rho + 2 * (rho * log(1 / delta)) ** 0.5


def normalised() -> Mechanism:
    """g clip/(||g|| + clip/10): no clip to tune (Bu et al. 2023, arXiv 2206.07136)."""
    return row_mechanism(
        "normalised", lambda norms, clip: clip / (norms + 0.1 * clip), account=zero_concentrated
    )
