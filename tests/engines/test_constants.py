"""Methods that differ in their numbers only share their compiled programs, whoever wrote them."""

import numpy as np
import pytest
from federation_small import SMALL, own_data

from amsfl import methods
from amsfl.engines import Orders
from amsfl.engines.constants import family
from amsfl.methods import Method
from amsfl.settings.custom import CustomParts
from amsfl.simulation import make_config
from amsfl.simulation.setup import prepare

ORDERS = Orders(np.arange(3)[None], np.array([[2, 1, 2]]), np.array([0.1]), np.full((1, 3), 1 / 3))


def engine_of(method: Method):
    settings = {key: value for key, value in SMALL.items() if key not in ("engine", "dataset")}
    settings |= {"clients": 3, "engine": "jax"}
    return prepare(make_config(settings), [0], CustomParts(own_data(), method=method)).engine


def lowered(engine) -> tuple[str, str]:
    """The programs of a round as they are handed to the compiler."""
    state, orders = engine.start(), engine._typed(ORDERS)
    [[queue, *_], *_] = engine._queues(orders.steps)
    given = state, engine.fixed, engine._cards(orders, 0), engine._share(orders), queue
    work = engine._work[False].lower(engine.constants, *given)
    found = [work.out_info[0]] * engine.workers
    settle = engine._settle.lower(engine.constants, state, orders, found, np.uint32(0), engine._seeds)
    return work.as_text(), settle.as_text()


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("fedprox", {"mu": 0.01}, {"mu": 0.1}),
        ("feddyn", {"alpha": 0.1}, {"alpha": 1.0}),
        ("fedcsda", {"mu": 0.1, "temperature": 4.0}, {"mu": 0.02, "temperature": 2.0}),
        ("amsfl", {"momentum": 0.95, "balance": 0.25}, {"momentum": 0.5, "balance": 0.5}),
    ],
)
def test_other_numbers_are_the_same_programs(name, one, other):
    """The compiler is given the same text, so its cache has the answer."""
    one, other = (engine_of(methods.make(name, options)) for options in (one, other))
    assert lowered(one) == lowered(other)
    assert not np.array_equal(one.constants, other.constants)


def test_numbers_count_all_the_same():
    """The first step is rate (1 - beta1) D / (sqrt(v) + tau): at three times the rate, three times as far."""
    options = {"beta1": 0.5, "tau": 1e6}
    one, other = (engine_of(methods.make("fedadam", options | {"rate": rate})) for rate in (1e6, 3e6))
    first, second = (np.asarray(each.round(each.start(), ORDERS, 0)[0].anchor) for each in (one, other))
    start = np.asarray(one.start().anchor)
    assert np.abs(first - start).max() > 1e-3
    np.testing.assert_allclose(second - start, 3 * (first - start), rtol=1e-9)


def test_what_stands_around_a_method_and_whose_own_it_is_does_not_matter():
    """FedProx within FedExP, an optimizer over FedDyn, and a user's own: every number is found."""
    wrapped = methods.make("fedprox", {"mu": 0.3}, extrapolation=4.0)
    assert family(wrapped, 5, np.float64).values.tolist() == [0.3, 4.0]
    over = methods.optimize(methods.make("feddyn"), methods.server_optimizer("momentum:0.7"))
    assert family(over, 5, np.float64).values.tolist() == [0.1, 0.7]


def test_a_number_that_must_be_known_stays():
    """`if beta` and `int(many)` cannot wait; `rate` can, and the rest is as it was."""

    def mine(beta: float, rate: float, many: float) -> Method:
        def aggregate(anchor, total, weights, steps, server):
            delta = rate * total.delta if beta else total.delta
            return anchor + sum([delta] * int(many)), server

        return Method("mine", aggregate=aggregate)

    kin = family(mine(0.5, 0.25, 2.0), 5, np.float64)
    assert kin.values.tolist() == [0.25]
    made = kin.made(np.array([3.0]))
    total = methods.base.upload(np.array([1.0]))
    assert made.aggregate(np.zeros(1), total, None, None, None)[0].tolist() == [6.0]
    assert made._replace(aggregate=None) == mine(0.5, 0.25, 2.0)._replace(aggregate=None)
