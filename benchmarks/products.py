"""The products of a client step of large layers, one thread: XLA's, those of scipy's BLAS as the engine
calls it, and torch's where it is installed, in GFLOP a second; and how long those of a whole step of jobs D
and F take at the best pace of each: nobody's step is shorter.

    python benchmarks/products.py
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from amsfl.engines import blas, products

import jax  # isort: skip  # after amsfl, which sets it up

# rows, inputs and outputs of layers of jobs A, C (as patches), D, E, F
SHAPES = [
    (64, 122, 64),
    (6272, 144, 16),
    (1024, 128, 128),
    (1024, 128, 384),
    (1024, 128, 512),
    (64, 122, 256),
    (64, 122, 1024),
    (64, 1024, 512),
    (1024, 512, 128),
]
BLOCK = [(1024, 128, 384), (1024, 128, 128), (1024, 128, 512), (1024, 512, 128)]  # of D's transformer
ALL, FIRST = ("forwards", "back", "weights"), ("forwards", "weights")  # nobody asks for an input's gradient
STEPS = {
    "D": [(shape, ALL) for shape in 2 * BLOCK],
    "F": [((64, 122, 1024), FIRST), ((64, 1024, 512), ALL)],
}


def pace(function: Callable[[], Any], arithmetic: float, seconds: float = 0.6) -> float:
    """By processor time, which others on the machine disturb less; the best of many turns.

    A turn is long enough for systems that count processor time in hundredths of a second.
    """
    function()
    turn = max(1, round(0.05 * 30e9 / arithmetic))
    best, end = np.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        begun = time.process_time()
        for _ in range(turn):
            function()
        best = min(best, (time.process_time() - begun) / turn)
    return arithmetic / best / 1e9


def by_torch(a: Any, b: Any, turn_a: bool, turn_b: bool) -> Callable[[], Any] | None:
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    left, right = torch.from_numpy(a), torch.from_numpy(b)
    return lambda: (left.T if turn_a else left) @ (right.T if turn_b else right)


def main() -> None:
    name = blas.library()
    print(f"BLAS: {name}; jax {jax.__version__}")
    print("forwards: x W; back: d W'; weights: x' d\n")
    print("| rows, inputs, outputs | product | XLA | BLAS | torch |\n| --- | --- | --- | --- | --- |")
    draw = np.random.default_rng(0).standard_normal
    paces: dict[Any, float] = {}
    for rows, inputs, outputs in SHAPES:
        x, w, d = (
            draw(shape).astype(np.float32) for shape in ((rows, inputs), (inputs, outputs), (rows, outputs))
        )
        cases = {
            "forwards": (x, w, False, False),
            "back": (d, w, False, True),
            "weights": (x, d, True, False),
        }
        for what, (a, b, *turns) in cases.items():
            sides = jax.device_put(a), jax.device_put(b)
            known = {"turn_a": turns[0], "turn_b": turns[1]}
            ways = {"XLA": jax.jit(partial(products.times, **known))}
            ways |= {"BLAS": jax.jit(partial(blas.times, **known))} if name else {}
            timed = {
                way: partial(lambda f, s: f(*s).block_until_ready(), f, sides) for way, f in ways.items()
            }
            if (torch := by_torch(a, b, *turns)) is not None:
                timed["torch"] = torch
            told = {way: pace(f, 2.0 * rows * inputs * outputs) for way, f in timed.items()}
            paces[(rows, inputs, outputs), what] = max(told.values())
            cells = [f"{told[way]:.1f}" if way in told else "" for way in ("XLA", "BLAS", "torch")]
            print(f"| {rows}, {inputs}, {outputs} | {what} | {' | '.join(cells)} |", flush=True)
    print()
    for job, layers in STEPS.items():
        each = [
            (2e-9 * rows * inputs * outputs, paces[(rows, inputs, outputs), what])
            for (rows, inputs, outputs), whats in layers
            for what in whats
        ]
        work, best = sum(part for part, _ in each), sum(part / pace_ for part, pace_ in each)
        print(f"The products of a step of {job}: {work:.2f} GFLOP, {1e3 * best:.1f} ms by the best of these.")


if __name__ == "__main__":
    main()
