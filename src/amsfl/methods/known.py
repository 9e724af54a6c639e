"""What methods are compared with: FedAvg, FedProx, FedNova, SCAFFOLD, FedDyn, FedCSDA."""

from dataclasses import dataclass, field
from typing import NamedTuple

from amsfl.core import Total, Upload
from amsfl.methods.base import STATIC, Facts, Method, Number, Vector, average, upload


@dataclass(frozen=True)
class FedAvg(Method):
    """Average the clients' models by their share of the data.

    x+ = x + sum_i w_i (y_i - x),   y_i: t_i steps of SGD from x

    McMahan et al. 2017, arXiv 1602.05629.
    """

    facts = Facts("fedavg", "FedAvg")


@dataclass(frozen=True)
class FedProx(Method):
    """FedAvg whose local objective holds on to the anchor: F_i(y) + mu/2 ||y - x||^2.

    y <- y - lr (grad + mu (y - x))

    Li et al. 2020, arXiv 1812.06127. No mu is good everywhere; the paper tries 0.001 to 1.
    """

    mu: Number = 0.01
    facts = Facts("fedprox", "FedProx")

    def correct(self, grad: Vector, x: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
        return grad + self.mu * (x - anchor)


@dataclass(frozen=True)
class FedNova(Method):
    """Average the clients' mean steps, then take the mean number of them: unequal steps do not bias.

    x+ = x + tau_eff sum_i w_i (y_i - x) / t_i,   tau_eff = sum_i w_i t_i      (plain SGD: ||a_i||_1 = t_i)

    Wang et al. 2020, arXiv 2007.07481.
    """

    facts = Facts("fednova", "FedNova")

    def mix(self, weights: Vector, steps: Vector) -> Vector:
        return average(weights) / steps

    def aggregate(
        self, anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        return anchor + (average(weights) * steps).sum() * total.delta, server


@dataclass(frozen=True)
class ControlVariates(Method):
    """Control variates: every client steps along its gradient minus its own drift plus the mean one.

    y <- y - lr (grad - c_i + c);   c_i+ = c_i - c + (x - y) / (K lr),  K the steps actually run
    x+ = x + sum_i w_i (y_i - x);   c+ = c + sum_{cohort} W_i (c_i+ - c_i)

    W_i is the client's share of ALL clients' data: 1/N when clients are equal, as in the paper; by
    shares, the fixed point is the minimum of the weighted objective, which 1/N would miss.
    Karimireddy et al. 2020, arXiv 1910.06378.
    """

    # stale: control variates are differences from the newest model's
    facts = Facts("scaffold", "SCAFFOLD", stale="refused", vectors_down=2, vectors_up=2)

    def init(self, x: Vector) -> tuple[Vector, Vector]:
        return 0 * x, 0 * x

    def correct(self, grad: Vector, x: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
        return grad - client + server

    def report(
        self, x: Vector, anchor: Vector, steps: Number, lr: Number, server: Vector, client: Vector
    ) -> tuple[Upload, Vector]:
        fresh = client - server + (anchor - x) / (steps * lr)
        return upload(x - anchor, fresh - client), fresh

    def aggregate(
        self, anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        return anchor + total.delta, server + weights.sum() * total.extra


@dataclass(frozen=True)
class DynamicRegularisation(Method):
    """Dynamic regularisation: the local optima are bent until they agree with the global one.

    y <- y - lr (grad - g_i + alpha (y - x));   g_i+ = g_i - alpha (y_i - x)
    h+ = h - alpha sum_{cohort} W_i (y_i - x);   x+ = sum_i w_i y_i - h+ / alpha

    W_i is the client's share of ALL clients' data (1/N when clients are equal, as in the paper), w_i
    its share of the cohort's. Few steps hurt it: g_i is exact only where the local problem is solved.
    Acar et al. 2021, arXiv 2111.04263.
    """

    alpha: Number = 0.1
    facts = Facts("feddyn", "FedDyn", stale="refused")  # h is the sum of clients' own of one model alone

    def init(self, x: Vector) -> tuple[Vector, Vector]:
        return 0 * x, 0 * x

    def correct(self, grad: Vector, x: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
        return grad - client + self.alpha * (x - anchor)

    def report(
        self, x: Vector, anchor: Vector, steps: Number, lr: Number, server: Vector, client: Vector
    ) -> tuple[Upload, Vector]:
        return upload(x - anchor), client - self.alpha * (x - anchor)

    def aggregate(
        self, anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        h = server - self.alpha * weights.sum() * total.delta
        return anchor + total.delta - h / self.alpha, h


class Distillation(NamedTuple):
    """An objective other than the plain loss: learn from a teacher, too (its vector is the server state).

    loss = (1-weight) CE + weight * mask * T^2 KL(teacher || student); engines/losses.py has it whole.
    """

    weight: Number
    temperature: Number
    rows: int  # local rows from which a client takes the teacher's class prototypes each round


NOTE = (
    "FedCSDA has no public description; this row is a reading of the name: FedCSD, class-prototype "
    "similarity distillation with an adaptive mask (arXiv 2308.10162)."
)
ROWS = 512  # of FedCSDA's prototypes


@dataclass(frozen=True)
class FedCSDA(Method):
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

    mu: Number = 0.1
    temperature: Number = 4.0
    memory: Number = 0.9
    rows: int = field(default=ROWS, metadata=STATIC)

    @property
    def facts(self) -> Facts:  # type: ignore[override]
        # a forward pass is about a third of a gradient
        costs = {"vectors_down": 2, "extra_per_step": 1 / 3, "extra_rows": self.rows}
        return Facts("fedcsda", "FedCSDA", NOTE, **costs)  # type: ignore[arg-type]

    @property
    def objective(self) -> Distillation:  # type: ignore[override]
        return Distillation(self.mu, self.temperature, self.rows)

    def init(self, x: Vector) -> tuple[Vector, Vector]:
        return 1 * x, x[:0]

    def aggregate(
        self, anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        x = anchor + total.delta
        return x, self.memory * server + (1 - self.memory) * x
