"""Methods that differ in their numbers only share their compiled programs."""

import numpy as np
import pytest
from federation_small import SMALL, own_data

from amsfl import methods
from amsfl.methods import Arithmetic, Method
from amsfl.settings.custom import CustomParts
from amsfl.simulation import make_config
from amsfl.simulation.rounds import begin, together
from amsfl.simulation.setup import assemble


def engine_of(method: Method):
    settings = {key: value for key, value in SMALL.items() if key not in ("engine", "dataset")}
    settings |= {"clients": 3, "engine": "jax"}
    return assemble([make_config(settings)], CustomParts(own_data(), method=method))


def lowered(setup) -> str:
    """The program of a round as it is handed to the compiler."""
    programs, texts = setup.engine._programs, []

    def seen(*arguments):
        texts.append(programs[False].lower(*arguments).as_text())
        return programs[False](*arguments)

    setup.engine._programs = {False: seen}
    next(together(setup, begin(setup)))
    return texts[0]


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("fedprox", {"mu": 0.01}, {"mu": 0.1}),
        ("feddyn", {"alpha": 0.1}, {"alpha": 1.0}),
        ("fedcsda", {"mu": 0.1, "temperature": 4.0}, {"mu": 0.02, "temperature": 2.0}),
    ],
)
def test_other_numbers_give_the_same_programs(name, one, other):
    """The compiler is given the same text, so its cache has the answer."""
    one, other = (engine_of(methods.make(name, options)) for options in (one, other))
    assert lowered(one) == lowered(other)
    assert not np.array_equal(one.engine.numbers, other.engine.numbers)


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
    assert method.arithmetic.numbers == () and method.with_numbers([]) == method
