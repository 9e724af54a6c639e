"""FedCSDA: a reading of the name."""

from functools import partial

from amsfl.core import Total
from amsfl.methods.arithmetic import Arithmetic, Distillation, Number, Vector, tuned
from amsfl.methods.base import Cost, Facts, Method

NOTE = (
    "FedCSDA has no public description; this row is a reading of the name: FedCSD, class-prototype "
    "similarity distillation with an adaptive mask (arXiv 2308.10162)."
)


def fedcsda(mu: float = 0.1, temperature: float = 4.0, memory: float = 0.9, rows: int = 512) -> Method:
    """FedAvg whose clients also learn from a slow copy of the global model, class by class.

    A READING OF THE NAME: no description or code of "FedCSDA" is public. This is the nearest published
    method by letters and by cost, FedCSD. P_c: mean teacher logits of class c on local rows;
    s = softmax_c cos(z, P_c) reweights the teacher's logits; only rows on which the teacher is right
    with probability above 1/C count (the adaptive mask):

    loss = (1-mu) CE(z, y) + mu * mask * T^2 KL(softmax(s z_teacher / T) || softmax(z / T))
    teacher+ = memory * teacher + (1-memory) * x+

    Yan et al. 2023, arXiv 2308.10162. Prototypes come from `rows` random local rows a round instead
    of all of them; the clock charges that forward pass, and the teacher's at every step. mu is 0.1 where
    the FedCSD paper has 0.5: half of the loss given to a teacher that knows nothing yet costs more rounds
    than a run of tens has (digits, 60 rounds: 0.87 at 0.5, 0.94 at 0.1).
    """
    return Method(
        "fedcsda",
        tuned(partial(arithmetic, rows), mu, temperature, memory),
        # a forward pass is about a third of a gradient
        Cost(vectors_down=2, extra_per_step=1 / 3, extra_rows=rows),
        Facts("FedCSDA", NOTE),
    )


def arithmetic(rows: int, mu: Number, temperature: Number, memory: Number) -> Arithmetic:
    def init(x: Vector) -> tuple[Vector, Vector]:
        return 1 * x, x[:0]

    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        x = anchor + total.delta
        return x, memory * server + (1 - memory) * x

    return Arithmetic(init=init, aggregate=aggregate, objective=Distillation(mu, temperature, rows))
