"""A client's steps as one kernel: what it computes, by jax's interpreter, and that a GPU can have it."""

from typing import Any

import jax
import numpy as np
import pytest

import amsfl
from amsfl.engines import jax_engine, kernel

# neither the batch nor the network's sides are powers of two
SETTINGS: dict[str, Any] = {"data": "digits", "rounds": 2, "steps": 3, "batch": 20, "model": "mlp:24-12"}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """As if this were a GPU that kernels are for; whether they were."""
    asked = list[bool]()
    monkeypatch.setattr(
        kernel, "serves", lambda task, _, batch: asked.append(kernel.fits(task, batch)) or asked[-1]
    )
    return asked


@pytest.mark.parametrize("method", ["fedprox", "scaffold", "feddyn", "amsfl"])  # numbers, states, readings
def test_a_kernel_does_what_the_loop_does(method: str, served: list[bool]) -> None:
    found, expected = (amsfl.run(**SETTINGS, method=method, engine=engine) for engine in ("jax", "loop"))
    np.testing.assert_allclose(found.params, expected.params, atol=2e-5)
    assert served and all(served)


@pytest.mark.parametrize("method", ["scaffold", "amsfl"])
def test_kernels_lower_for_a_gpu(method: str, served: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """As a program for one, made here: nothing in it that its compiler has no word for."""
    texts = list[str]()

    def lowered(engine: Any, calls: Any, one_by_one: bool) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(jax, "default_backend", lambda: "gpu")
            wave = jax_engine.wave_program(engine.task, engine.federation, 20, engine.readings)
            texts.append(jax.jit(wave).trace(*calls[0][1]).lower(lowering_platforms=("cuda",)).as_text())
        raise StopIteration

    monkeypatch.setattr(jax_engine.JaxEngine, "_run", lowered)
    with pytest.raises(RuntimeError):
        amsfl.run(**SETTINGS, method=method, engine="jax")
    assert texts[0].count("__gpu$xla.gpu.triton") == 1  # a reading's three parts share one
