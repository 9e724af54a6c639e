"""AMSFL."""

from amsfl.methods.base import Method
from amsfl.methods.fedavg import fedavg


def amsfl() -> Method:
    """FedAvg's arithmetic; every client has its own number of steps, planned by what a second is worth.

    x+ = x + sum_i w_i (y_i - x),   t_i = argmax of planned gain (federation/planner.py)

    Costs one extra gradient a round: the first minibatch again at the final model, for the
    gradient-difference reading. Xu, "AMSFL: Adaptive Multi-Step Federated Learning via Gradient
    Difference-Based Error Modeling".
    """
    return fedavg()._replace(name="amsfl", extra_gradients=1.0, readings=True)
