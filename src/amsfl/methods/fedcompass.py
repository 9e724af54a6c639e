"""FedCompass."""

from amsfl.methods.arithmetic import Arithmetic, Number, Vector, tuned
from amsfl.methods.base import Facts, Method


def fedcompass(alpha: float = 0.9) -> Method:
    """Clients get the steps by which groups of them arrive together; what comes late is mixed in by its age.

    x+ = x + alpha sum_i s(t_i) w_i (y_i - x_start_i)   over a group, and over what came late before it

    w_i is a client's share of all data: a group counts as much as its clients have rows. s(t) is the run's
    `staleness`; theirs is (1+t)^-0.5, which `sqrt` is, too. How groups are made: `--round-end groups`
    (clock/arrival_groups.py).
    Li et al. 2024, arXiv 2309.14675, Algorithms 1 and 2. Steps between a fifth of the most and all, alpha and
    the age's exponent are their code's; it waits 1.5 times a group's time, where we keep the paper's 1.2, and
    first rounds take all steps there, where ours take the least.
    """
    facts = Facts("FedCompass", round_end="groups", all_clients=True)
    return Method("fedcompass", tuned(arithmetic, alpha), facts=facts)


def arithmetic(alpha: Number) -> Arithmetic:
    def mix(weights: Vector, steps: Vector) -> Vector:
        return alpha * weights

    return Arithmetic(mix=mix)
