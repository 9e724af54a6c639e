"""scikit-learn models with partial_fit as clients: what one does alone, what averages do, what is refused."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from flwr.app import ConfigRecord, Context, Message, RecordDict
from scipy.sparse import csr_matrix
from sklearn import linear_model, naive_bayes, neural_network
from sklearn.tree import DecisionTreeClassifier

from amsfl.core import UserError
from amsfl.flower import messages, serve, sklearn_client
from amsfl.flower.in_process import InProcessGrid

RNG = np.random.default_rng(5)
X = RNG.normal(size=(3, 40, 4)).astype(np.float32)
SCORES = X @ np.array([1.0, -2.0, 0.5, 0.0], np.float32)
WORDS = np.where(SCORES > 0.5, "high", np.where(SCORES < -0.5, "low", "mid"))


def served(app: Any, clients: int = 3, **more: Any) -> Any:
    nodes = [{"partition-id": place} for place in range(clients)]
    settings = {"method": "fedavg", "clients": clients, "rounds": 3, "steps": 2, "batch": 16}
    return serve(InProcessGrid(app, nodes), {**settings, "poll": 0.001, "patience": 0.05, **more})


def words(context: Any) -> Any:
    place = int(context.node_config["partition-id"])
    return X[place], WORDS[place]


def numbers(context: Any) -> Any:
    place = int(context.node_config["partition-id"])
    return csr_matrix(X[place]), SCORES[place]


def test_one_client_alone_is_plain_partial_fit() -> None:
    """All rows in a batch: three rounds of one step are three calls, and the schedule goes on."""

    def model() -> Any:
        return linear_model.SGDClassifier(loss="log_loss", shuffle=False, alpha=0.01, random_state=0)

    x, y = np.tile(X[0, :2], (5, 1)), np.tile(["high", "low"], 5)
    app = sklearn_client(model, lambda context: (x, y), classes=["high", "low"])
    state, records = served(app, 1, batch=10, steps=1)
    alone = model()
    rng = [np.random.default_rng([0, number, 0]) for number in range(3)]
    for each in rng:
        each.integers(2**31)
        picked = each.permutation(10)
        alone.partial_fit(x[picked], y[picked], classes=["high", "low"])
    want = np.concatenate([alone.coef_.ravel(), alone.intercept_])
    np.testing.assert_allclose(state.anchor, want, rtol=1e-4, atol=1e-5)
    assert [record.steps for record in records] == [[1], [1], [1]]
    assert not any(record.plan["notes"] or record.plan["refused"] for record in records)


CLASSIFIERS = {
    "sgd": lambda: linear_model.SGDClassifier(loss="log_loss"),
    "perceptron": linear_model.Perceptron,
    "mlp": lambda: neural_network.MLPClassifier((8,), learning_rate_init=0.05),
}


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_classifiers_learn_together(kind: str) -> None:
    """The third site has two of the three classes only; all of them are known beforehand."""

    def rows(context: Any) -> Any:
        x, y = words(context)
        keep = y != "mid" if context.node_config["partition-id"] == 2 else y == y
        return x[keep], y[keep]

    def share(model: Any, x: Any, y: Any) -> dict[str, float]:
        return {"mids": float(np.mean(model.predict(x) == "mid"))}

    app = sklearn_client(CLASSIFIERS[kind], rows, ["low", "mid", "high"], test_rows=words, metrics=share)
    state, records = served(app, method="amsfl" if kind == "mlp" else "fedavg", rounds=6, evaluate_clients=6)
    assert state.status == "finished" and state.anchor.size == (
        4 * 8 + 8 + 8 * 3 + 3 if kind == "mlp" else 15
    )
    scores = records[-1].metrics["clients"]
    assert scores["accuracy"] > 0.6 and scores["rows"] == 120 and 0 <= scores["mids"] < 1
    assert ("loss" in scores) == (kind != "perceptron")
    assert not any(record.plan["notes"] or record.plan["refused"] for record in records)


@pytest.mark.parametrize("kind", ["mlp", "numbers"])
def test_a_first_model_tells_nothing_of_rows(kind: str) -> None:
    """It leaves in answer to a hello, also where rows are private, so it must not be of a step on them."""
    regressor = sklearn_client(lambda: neural_network.MLPRegressor(hidden_layer_sizes=(8,)), numbers)
    app = regressor if kind == "numbers" else sklearn_client(CLASSIFIERS[kind], words, ["low", "mid", "high"])
    InProcessGrid(app, [{}])  # Flower's messages ask which task is speaking
    models = []
    for place in range(3):
        ask = ConfigRecord({"model": True, "seed": 7, "probe": False, "batch": 16})
        context = Context(1, 1000, {"partition-id": place}, RecordDict(), {})
        hello = app(Message(RecordDict({"ask": ask}), 1000, "query"), context).content
        models.append(messages.unpack_hello(hello).model)
    assert models[0].any() and all(np.array_equal(each, models[0]) for each in models)


def test_a_regression_on_sparse_rows() -> None:
    app = sklearn_client(linear_model.SGDRegressor, numbers, test_rows=numbers)
    _, records = served(app, method="fednova", rounds=10, evaluate_clients=10)
    assert records[-1].metrics["clients"]["mse"] < 0.2 * float(np.var(SCORES))


def test_what_makes_no_sense_is_refused_with_a_sentence() -> None:
    for model, classes, why in (
        (DecisionTreeClassifier, ["low"], "has no partial_fit"),
        (linear_model.Perceptron, None, "say which classes there are"),
        (linear_model.SGDRegressor, [0, 1], "has no classes; leave classes out"),
        (lambda: linear_model.SGDClassifier(average=True), [0], "with average keeps two models"),
    ):
        with pytest.raises(UserError, match=why):
            sklearn_client(model, words, classes)
    known = ["low", "mid", "high"]
    for app, method, why in (
        (sklearn_client(linear_model.Perceptron, words, known), "scaffold", "optimizer of their own"),
        (
            sklearn_client(linear_model.Perceptron, words, known[:2]),
            "fedavg",
            "'high' is not among the classes",
        ),
        (
            sklearn_client(naive_bayes.GaussianNB, words, known),
            "fedavg",
            "No client could give the first model",
        ),
    ):
        with pytest.raises(UserError, match=why):
            served(app, method=method)
