"""FedAvg."""

from amsfl.methods.base import Facts, Method


def fedavg() -> Method:
    """Average the clients' models by their share of the data.

    x+ = x + sum_i w_i (y_i - x),   y_i: t_i steps of SGD from x

    McMahan et al. 2017, arXiv 1602.05629.
    """
    return Method("fedavg", facts=Facts("FedAvg"))
