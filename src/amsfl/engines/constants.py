"""A method's numbers as arguments of its programs: methods that differ in numbers only are compiled once.

A factory's hyper-parameters sit in the closures of the functions that it returns, and jax would write them
into a program as they stand: another mu, another program. Here every float of these closures gets a place in
a vector, and inside a program the same functions run with that vector's numbers in theirs. So no method has
to know of it, whoever wrote it and whatever was put around it. A float that a function must have as a plain
number (it asks `if mu`, or counts by it) stays in the program.
"""

from collections.abc import Callable, Sequence
from itertools import count
from types import CellType, FunctionType
from typing import Any, NamedTuple

import jax
import numpy as np

from amsfl.core import Total
from amsfl.methods import Method

PARTS = ("init", "correct", "stride", "pace", "report", "mix", "aggregate", "objective")


class Family(NamedTuple):
    """All methods that are one but for their numbers."""

    values: Any  # [constants], this one's
    made: Callable[[Any], Method]  # the method with other values in their places


def family(method: Method, dim: int, dtype: Any) -> Family:
    """The method's family, for models of so many parameters."""
    found = _all(method, float)
    free = list(range(len(found)))
    if not _runs(method, free, dim, dtype):
        free = [place for place in free if _runs(method, [place], dim, dtype)]
    values = np.array([found[place] for place in free], dtype)
    return Family(values, lambda vector: _with(method, free, vector))


def opened(name: str, kin: Family, build: Callable[[Method], Callable[..., Any]]) -> Callable[..., Any]:
    """The program that `build` makes of a method; its first argument is the method's values.

    `name` is what profiles and logs of the compiler call it.
    """

    def program(constants: Any, *arguments: Any) -> Any:
        return build(kin.made(constants))(*arguments)

    program.__name__ = name
    return program


def handed(method: Method) -> tuple[list[Any], Callable[[Sequence[Any]], Method]]:
    """The values that a made method holds, and the method with others in their places.

    For what may hold nothing: a kernel, which is handed all that it reads.
    """

    def made(values: Sequence[Any]) -> Method:
        each = iter(values)
        return _placed(method, jax.Array, lambda _: next(each))

    return _all(method, jax.Array), made


def _with(method: Method, free: Sequence[int], vector: Any) -> Method:
    every, places = count(), {place: nth for nth, place in enumerate(free)}

    def put(number: float) -> Any:
        place = next(every)
        return vector[places[place]] if place in places else number

    return _placed(method, float, put)


def _all(method: Method, kind: type) -> list[Any]:
    found: list[Any] = []

    def look(value: Any) -> Any:
        found.append(value)
        return value

    _placed(method, kind, look)
    return found


def _placed(method: Method, kind: type, put: Callable[[Any], Any]) -> Method:
    """The method with put(value) for every value of a kind in its functions, always in the same order."""
    found: Method = _inside(method, kind, put, {})
    return found


def _inside(thing: Any, kind: type, put: Callable[[Any], Any], seen: dict[int, Any]) -> Any:
    if isinstance(thing, kind):
        return put(thing)
    if isinstance(thing, Method):
        return thing._replace(**{part: _inside(getattr(thing, part), kind, put, seen) for part in PARTS})
    if isinstance(thing, tuple):
        parts = [_inside(part, kind, put, seen) for part in thing]
        if all(new is old for new, old in zip(parts, thing, strict=True)):
            return thing
        return type(thing)(*parts) if hasattr(thing, "_fields") else tuple(parts)
    if isinstance(thing, FunctionType) and thing.__closure__:
        cells = tuple(_cell(cell, kind, put, seen) for cell in thing.__closure__)
        if all(new is old for new, old in zip(cells, thing.__closure__, strict=True)):
            return thing
        again = FunctionType(thing.__code__, thing.__globals__, thing.__name__, thing.__defaults__, cells)
        again.__kwdefaults__ = thing.__kwdefaults__
        return again
    return thing


def _cell(cell: CellType, kind: type, put: Callable[[Any], Any], seen: dict[int, Any]) -> CellType:
    """Functions of one factory share its cells, and do so afterwards; one that holds itself is left alone."""
    if id(cell) not in seen:
        seen[id(cell)] = cell
        try:
            content = cell.cell_contents
        except ValueError:  # nothing in it yet
            return cell
        fresh = _inside(content, kind, put, seen)
        if fresh is not content:
            seen[id(cell)] = CellType(fresh)
    found: CellType = seen[id(cell)]
    return found


def _runs(method: Method, free: Sequence[int], dim: int, dtype: Any) -> bool:
    """Whether a method's functions can do with numbers that are not known yet."""

    def all_of_it(vector: Any, x: Any, number: Any, few: Any) -> Any:
        one = _with(method, free, vector)
        server, client = one.init(x)
        seen = one.told(server, x)
        length = number if one.stride is None else one.stride(number, number)
        pace = () if one.pace is None else one.pace(length, number, number, number)
        moved = one.correct(x, x, x, seen, client)
        sent, kept = one.report(moved, x, number, number, seen, client)
        total = Total(*sent, number)
        return pace, kept, one.mix(few, few), one.aggregate(x, total, few, few, server)

    kinds = (jax.ShapeDtypeStruct(shape, dtype) for shape in ((len(free),), (dim,), (), (2,)))
    try:
        jax.eval_shape(all_of_it, *kinds)
    except Exception:  # whatever asks for a plain number; any other mistake comes again when it has one
        return False
    return True
