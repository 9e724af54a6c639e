"""Calls of compiled programs side by side, each in a thread of its own."""

from collections.abc import Callable, Iterable
from functools import cache
from queue import SimpleQueue
from threading import Thread
from typing import Any

import jax

from amsfl.core.records import Tree
from amsfl.engines.devices import Program

Answer = tuple[int, Any, BaseException | None]  # whose, what, or what went wrong


def in_threads(program: Program) -> Callable[[Iterable[tuple[Tree, ...]]], list[Tree]]:
    """The function over many argument lists at once, each in a thread of its own; jax releases the GIL.

    The first time they take turns, so that one compilation serves them all.
    """
    compiled = False

    def call(many: Iterable[tuple[Tree, ...]]) -> list[Tree]:
        nonlocal compiled
        first, *others = many
        if not compiled:
            compiled = True
            return [program(*arguments) for arguments in (first, *others)]
        answers: SimpleQueue[Answer] = SimpleQueue()
        # which jax keeps for each thread
        products = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]  # made at run time
        settings = bool(jax.config.read("jax_enable_x64")), products
        for place, arguments in enumerate(others):
            _helper(place).put((program, arguments, place, answers, settings))
        results = [program(*first), *others]
        for _ in others:
            place, result, error = answers.get()
            if error is not None:
                raise error
            results[1 + place] = result
        return results

    return call


@cache
def _helper(number: int) -> "SimpleQueue[Any]":
    """The queue of a thread of its own; it wakes in half the time of a pool."""
    calls: SimpleQueue[Any] = SimpleQueue()

    def work() -> None:
        while True:
            program, arguments, place, answers, (wide, products) = calls.get()
            try:
                with jax.enable_x64(wide), jax.default_matmul_precision(products):
                    answers.put((place, program(*arguments), None))
            except BaseException as error:  # the caller's to raise
                answers.put((place, None, error))
            del program, arguments, answers  # or the last round's arrays stay until the next one

    Thread(target=work, name=f"amsfl-{number}", daemon=True).start()
    return calls
