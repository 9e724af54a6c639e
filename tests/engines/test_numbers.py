"""Methods that differ in their numbers only share their compiled programs."""

import numpy as np
import pytest
from federation_small import SMALL, own_data

from amsfl import methods
from amsfl.engines import Orders
from amsfl.engines.numbers import numbers_of
from amsfl.methods import Arithmetic, Method
from amsfl.settings.custom import CustomParts
from amsfl.simulation import make_config
from amsfl.simulation.setup import assemble

ORDERS = Orders(np.arange(3)[None], np.array([[2, 1, 2]]), np.array([0.1]), np.full((1, 3), 1 / 3))


def engine_of(method: Method):
    settings = {key: value for key, value in SMALL.items() if key not in ("engine", "dataset")}
    settings |= {"clients": 3, "engine": "jax"}
    return assemble([make_config(settings)], CustomParts(own_data(), method=method)).engine


def lowered(engine) -> tuple[str, str]:
    """The programs of a round as they are handed to the compiler."""
    state, orders = engine.start(), engine._typed(ORDERS)
    [[queue, *_], *_] = engine._queues(orders.steps)
    given = state, engine.rows, engine._table(orders, 0), engine._share(orders.weights, orders.steps), queue
    work = engine._work[False].lower(engine.numbers, *given)
    found = [work.out_info] * engine.workers
    settle = engine._settle.lower(engine.numbers, state, orders, found, np.uint32(0), engine._seeds)
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
def test_other_numbers_give_the_same_programs(name, one, other):
    """The compiler is given the same text, so its cache has the answer."""
    one, other = (engine_of(methods.make(name, options)) for options in (one, other))
    assert lowered(one) == lowered(other)
    assert not np.array_equal(one.numbers, other.numbers)


def test_declared_numbers_take_effect():
    """The first step is rate (1 - beta1) D / (sqrt(v) + tau): at three times the rate, three times as far."""
    options = {"beta1": 0.5, "tau": 1e6}
    one, other = (engine_of(methods.make("fedadam", options | {"rate": rate})) for rate in (1e6, 3e6))
    first, second = (np.asarray(each.round(each.start(), ORDERS, 0)[0].anchor) for each in (one, other))
    start = np.asarray(one.start().anchor)
    assert np.abs(first - start).max() > 1e-3
    np.testing.assert_allclose(second - start, 3 * (first - start), rtol=1e-9)


def test_numbers_of_what_is_put_around_a_method_are_declared_with_its_own():
    """FedProx within FedExP, and an optimizer over FedDyn: built again, they compute with the new ones."""
    wrapped = methods.make("fedprox", {"mu": 0.3}, extrapolation=4.0).arithmetic
    assert wrapped.numbers == (4.0, 0.3)
    assert wrapped.with_numbers([4.0, 0.5]).correct(1.0, 3.0, 1.0, 0.0, 0.0) == 1 + 0.5 * 2
    over = methods.optimize(methods.make("feddyn"), methods.server_optimizer("momentum:0.7")).arithmetic
    assert over.numbers == (0.7, 0.1)
    assert over.with_numbers([0.5, 0.2]).numbers == (0.5, 0.2)


def test_a_method_that_declares_no_numbers_is_as_it_was_made():
    def mine(rate: float) -> Method:
        def aggregate(anchor, total, weights, steps, server):
            return anchor + rate * total.delta, server

        return Method("mine", Arithmetic(aggregate=aggregate))

    method = mine(0.25)
    assert numbers_of(method, np.float64).size == 0 and method.with_numbers([]) == method
