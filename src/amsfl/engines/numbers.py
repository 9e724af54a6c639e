"""A method's numbers as arguments of its programs: methods that differ in numbers only are compiled once.

jax writes a Python float into a program as it stands: another mu would be another program. A method declares
its numbers (`methods.tuned`), and here its arithmetic is built inside the program from an argument instead.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike

from amsfl.core.records import Array, Tree
from amsfl.engines.devices import Program
from amsfl.methods import Method


def numbers_of(method: Method, dtype: DTypeLike) -> Array:
    """The first argument of every program that `with_numbers` makes."""
    return np.array(method.arithmetic.numbers, dtype)


def with_numbers(name: str, method: Method, build: Callable[[Method], Program]) -> Program:
    """program(numbers, *arguments) = build(the method with these numbers)(*arguments).

    `name` is what profiles and logs of the compiler call it.
    """

    def program(numbers: Array, *arguments: Tree) -> Tree:
        own = method.with_numbers([numbers[place] for place in range(len(method.arithmetic.numbers))])
        return build(own)(*arguments)

    program.__name__ = name
    return program
