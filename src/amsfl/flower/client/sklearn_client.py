"""scikit-learn models with `partial_fit` as clients: their coefficients travel, their own rule moves them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp

from amsfl import sampling
from amsfl.core import UserError
from amsfl.flower.client.app import Own, client_app
from amsfl.flower.client.local_round import Trainer
from amsfl.flower.client.step_loop import LocalTask
from amsfl.flower.messages import Buffers, GlobalModel, Order, TensorSpec, Vector
from amsfl.flower.scores import errors
from amsfl.methods import Method

GOOD = "SGDClassifier, SGDRegressor, Perceptron, PassiveAggressiveClassifier, MLPClassifier or MLPRegressor"


def sklearn_client(
    model: Callable[[], Any],
    rows: Callable[[Context], tuple[Any, Any]],
    classes: Sequence[Any] | None = None,
    test_rows: Callable[[Context], tuple[Any, Any]] | None = None,
    metrics: Callable[[Any, Any, Any], Mapping[str, float]] | None = None,
    own: Own = (),
) -> ClientApp:
    """A ClientApp from an estimator with partial_fit. A step is one partial_fit on a minibatch (the server's
    `batch`).

    Args:
        model: Makes the estimator.
        rows: `rows(context)` returns this site's X and y.
        classes: All that there are anywhere, which classifiers need: a site may not have seen each of them.
        test_rows: `test_rows(context)` returns X and y to score by.
        metrics: `metrics(model, X, y)` returns numbers of your own on the test rows.
        own: Methods and transmissions of your own; the server's order names which to use.

    Returns:
        The app that a pyproject.toml names as `clientapp`.
    """
    setup = SklearnSetup(model, rows, None if classes is None else np.asarray(classes), test_rows, metrics)
    _check(model(), setup.classes)
    return client_app(lambda context: SklearnTrainer(setup, context), own)


class SklearnSetup(NamedTuple):
    """What sklearn_client was given; see there."""

    model: Callable[[], Any]
    rows: Callable[[Context], tuple[Any, Any]]
    classes: Vector | None
    test_rows: Callable[[Context], tuple[Any, Any]] | None
    metrics: Callable[[Any, Any, Any], Mapping[str, float]] | None


class SklearnTrainer(Trainer):
    """There are no gradients: AMSFL plans by seconds alone."""

    own_optimizer = True

    def __init__(self, setup: SklearnSetup, context: Context):
        self.setup, self.context = setup, context
        self.x, self.y = _rows(setup.rows(context), setup.classes)
        self.rows = self.x.shape[0]
        if not self.rows:
            raise UserError("This client has no rows.")
        self.trained, self.held, self.held_rows = np.arange(self.rows), np.arange(0), 0
        self.model: Any = None
        self.state: Vector = np.zeros(0, np.float32)

    def start(self, seed: int) -> tuple[Vector, Buffers]:
        """A linear model begins at 0, a network as its seed draws it: the same at all clients."""
        self._allocate(seed)
        flat = self.to_numpy(_flat(self.model))
        return (flat if hasattr(self.model, "coefs_") else 0 * flat), {}

    def tensors(self) -> tuple[TensorSpec, ...]:
        parts = _parts(self.model)
        if not hasattr(self.model, "coefs_"):
            names = ["coef_", "intercept_"]
        else:
            names = [f"{kind}.{k}" for kind in ("coefs_", "intercepts_") for k in range(len(parts) // 2)]
        return tuple(TensorSpec(name, part.shape) for name, part in zip(names, parts, strict=True))

    def begin(self, order: Order, model: GlobalModel, method: Method) -> None:
        self.random = np.random.default_rng([order.seed, order.round, order.client])
        if method.judges and order.held_back:
            self.trained, self.held = sampling.hold_back(order.seed, order.client, self.rows, order.held_back)
            self.held_rows = len(self.held)
        self._allocate(int(self.random.integers(2**31)))

    def probe(self, x: Any, step: int) -> None:
        return None

    def load_state(self, state: Vector) -> None:
        self.state = state

    def saved_state(self) -> Vector | None:
        """Where the learning rate's schedule stands: begun anew each round, it would never fall."""
        return np.array([getattr(self.model, "t_", 1.0)], np.float32)

    def take_steps(self, x: Any, task: LocalTask) -> tuple[Any, float | None]:
        _put(self.model, x)
        if self.state.size and hasattr(self.model, "t_"):
            self.model.t_ = type(self.model.t_)(self.state[0])
        picks = self._picks(task.batch)
        for _ in task:
            picked = next(picks)
            self._learn(self.x[picked], self.y[picked])
        return self.to_numpy(_flat(self.model)), None

    def held_back(self, x: Any) -> tuple[float, float] | None:
        """Loss (half the squared error, the log loss, or where there is none the part of wrong answers) and
        spread of the rows that are held back."""
        if not self.held_rows:
            return None
        _put(self.model, x)
        rows, targets = self.x[self.held], self.y[self.held]
        answer = getattr(self.model, "predict_proba", None) or getattr(
            self.model, "decision_function", self.model.predict
        )
        outputs = np.asarray(answer(rows), float).reshape(len(targets), -1)
        scores = _scores(self.model, rows, targets)
        loss = scores.get("loss", 1 - scores["accuracy"]) if "accuracy" in scores else scores["mse"] / 2
        return loss, float(np.abs(outputs - outputs.mean(0)).max() / (1 + np.abs(outputs).max()))

    def evaluate(self, x: Any) -> dict[str, float] | None:
        if self.setup.test_rows is None:
            return None
        _put(self.model, x)
        rows, targets = _rows(self.setup.test_rows(self.context), self.setup.classes)
        scores = {**_scores(self.model, rows, targets), "rows": float(len(targets))}
        own = self.setup.metrics(self.model, rows, targets) if self.setup.metrics else {}
        return {**own, **scores}

    def _allocate(self, seed: int) -> None:
        """A model with coefficients. scikit-learn makes them when it first sees a row, and learns from that:
        here a row of zeros, since a first model leaves without privacy."""
        self.model = self.setup.model()
        if self.model.get_params().get("random_state", 0) is None:
            self.model.set_params(random_state=seed)
        label = np.zeros_like(self.y[:1]) if self.setup.classes is None else self.setup.classes[:1]
        self._learn(np.zeros((1, self.x.shape[1]), self.x.dtype), label)
        if hasattr(self.model, "t_"):
            self.model.t_ = type(self.model.t_)(0 if hasattr(self.model, "coefs_") else 1)
        if hasattr(self.model, "_optimizer"):
            del self.model._optimizer  # a network's moments begin anew each round
        linear = hasattr(self.model, "coef_") and hasattr(self.model, "intercept_")
        if not hasattr(self.model, "coefs_") and not linear:
            raise UserError(
                f"{type(self.model).__name__} has no coefficients whose average would be a model; use {GOOD}."
            )

    def _learn(self, rows: Any, targets: Vector) -> None:
        more = {} if self.setup.classes is None else {"classes": self.setup.classes}
        self.model.partial_fit(rows, targets, **more)

    def _picks(self, batch: int) -> Iterator[Vector]:
        """Minibatches without an end, every row once before any comes again."""
        batch, left = min(batch, len(self.trained)), np.zeros(0, int)
        while True:
            if len(left) < batch:
                left = np.concatenate([left, self.random.permutation(self.trained)])
            yield left[:batch]
            left = left[batch:]


def _scores(model: Any, rows: Any, targets: Any) -> dict[str, float]:
    from sklearn.base import is_classifier
    from sklearn.metrics import log_loss

    predicted = model.predict(rows)
    if not is_classifier(model):
        return {name: value for name, value in errors(predicted, targets).items() if name != "loss"}
    scores = {"accuracy": float(np.mean(predicted == targets))}
    if hasattr(model, "predict_proba"):
        scores["loss"] = float(log_loss(targets, model.predict_proba(rows), labels=model.classes_))
    return scores


def _parts(model: Any) -> list[Vector]:
    """The arrays that are averaged, in place."""
    if hasattr(model, "coefs_"):
        return [*model.coefs_, *model.intercepts_]
    return [model.coef_, model.intercept_]


def _flat(model: Any) -> Vector:
    return np.concatenate([np.ravel(part) for part in _parts(model)])


def _put(model: Any, x: Vector) -> None:
    place = 0
    for part in _parts(model):
        part[...] = x[place : place + part.size].reshape(part.shape)
        place += part.size


def _rows(given: tuple[Any, Any], classes: Vector | None) -> tuple[Any, Vector]:
    x, y = given
    x, y = (x.tocsr() if hasattr(x, "tocsr") else np.asarray(x)), np.asarray(y)
    strange = [] if classes is None else sorted({str(label) for label in np.setdiff1d(y, classes)})
    if strange:
        raise UserError(f"The label {strange[0]!r} is not among the classes that this client was given.")
    return x, y


def _check(model: Any, classes: Vector | None) -> None:
    from sklearn.base import is_classifier

    name = type(model).__name__
    if not hasattr(model, "partial_fit"):
        raise UserError(f"{name} has no partial_fit, so that it cannot be trained step by step: use {GOOD}.")
    if is_classifier(model) and classes is None:
        raise UserError(f"{name} is a classifier: say which classes there are, at all sites: classes=[0, 1].")
    if not is_classifier(model) and classes is not None:
        raise UserError(f"{name} has no classes; leave classes out.")
    if model.get_params().get("average"):
        raise UserError(
            f"{name} with average keeps two models, of which one would travel; leave average out."
        )
