"""A large model at the server: worked on piece by piece, its state on disk, a few models of memory."""

import runpy
import tracemalloc
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from amsfl import methods
from amsfl.core import Total, Verdict
from amsfl.flower import arrays, internals, vector_files
from amsfl.flower.server import pieces
from amsfl.methods import extrapolate
from amsfl.record import tensors

TOOL = Path(__file__).parents[2] / "tools" / "server_memory.py"
SIZE = 45
RNG = np.random.default_rng(3)


def vector(size: int = SIZE) -> Any:
    return RNG.normal(size=size).astype(np.float32)


def some_total(method: methods.Method) -> Total:
    two = method.cost.vectors_up > 1 or method.arithmetic.second is not None
    extra = vector() if two else vector(0)
    return Total(vector(), extra, np.float32(90.0), np.float32(2.0), np.float32(0.5), np.float32(1.0))


def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MOST", "PIECE"):
        monkeypatch.setattr(vector_files, name, 10)


@pytest.mark.parametrize("name", sorted(methods.METHODS.table))
def test_pieces_make_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rounds and every verdict, in pieces of ten numbers and at once."""
    method = methods.make(name)
    weights, steps = np.array([0.5, 0.5], np.float32), np.array([2, 3], np.float32)
    anchor = vector()
    whole = anchor, np.asarray(method.arithmetic.init(anchor)[0], np.float32)
    small_pieces(monkeypatch)
    parts = anchor, pieces.first_state(method, anchor)
    judged = [Verdict.BETTER, Verdict.BACK, Verdict.BRANCH, Verdict.RESTART]
    for verdict in judged if method.judges else [None]:
        for _ in range(3):
            total = some_total(method)
            whole = method.arithmetic.aggregate(whole[0], total, weights, steps, whole[1])
            parts = pieces.aggregate(method, parts[0], total, weights, steps, parts[1])
        if verdict is not None and method.arithmetic.revise is not None:
            whole = method.arithmetic.revise(*whole, verdict)
            parts = pieces.revise(method, *parts, verdict)
        for one, other in zip(whole, parts, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert vector_files.file_of(parts[0]) is not None


def test_who_looks_at_the_whole_vector_gets_it() -> None:
    """FedExP's step goes by the length of the whole step: over AMSFL, nothing runs piece by piece."""
    amsfl = methods.make("amsfl")
    assert pieces.piece_vectors(amsfl.arithmetic) == 6
    assert pieces.piece_vectors(amsfl.adapted(methods.Variant(part=True)).arithmetic) == 5
    assert pieces.piece_vectors(extrapolate(amsfl).arithmetic) is None


def test_a_round_that_is_not_finite_leaves_every_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """One NaN in the last piece: no piece moves, as the whole would not."""
    small_pieces(monkeypatch)
    method, anchor = methods.make("amsfl"), vector()
    total = some_total(method)
    total.delta[-1] = np.nan
    one = np.ones(1, np.float32)
    moved, _ = pieces.aggregate(method, anchor, total, one, one, pieces.first_state(method, anchor))
    np.testing.assert_array_equal(moved, anchor)


def test_a_server_holds_few_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All vectors are on disk, uploads as well. In memory: pieces, and one reply while it is checked."""
    for place, name in (
        (vector_files, "MOST"),
        (vector_files, "PIECE"),
        (arrays, "SMALL"),
        (tensors, "PIECE"),
    ):
        monkeypatch.setattr(place, name, 1 << 12)
    numbers, peaks = 100_000, {}
    federation = runpy.run_path(str(TOOL))["federation"]
    federation(10, 2, "amsfl", tmp_path / "first")()  # imports are memory, too
    for method, clients in (("fedavg", 3), ("amsfl", 3), ("amsfl", 6)):
        run = federation(numbers, clients, method, tmp_path / f"{method}-{clients}")
        tracemalloc.start()
        run()
        peaks[method, clients] = tracemalloc.get_traced_memory()[1] / (4 * numbers)
        tracemalloc.stop()
    assert max(peaks.values()) < 3, peaks


@pytest.mark.parametrize("again", [False, True])
def test_an_array_is_joined_once(again: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """From chunks of which some are alike, as Flower itself does it, with one copy less of it in memory."""
    module: Any = import_module(internals.ARRAY)
    monkeypatch.setattr(module, "FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE", 1 << 18)
    for _ in range(1 + again):
        internals.join_once(module)
    sent = np.concatenate([np.zeros(300_000, np.float32), vector(200_000)])
    whole = module.Array(sent)
    parts = {key: part.deflate() for key, part in whole.children.items()}
    content = whole.deflate()
    del whole
    tracemalloc.start()
    chunks = {key: module.ArrayChunk.inflate(part) for key, part in parts.items()}
    received = module.Array.inflate(content, chunks)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(received.numpy(), sent)
    assert peak < 2.2 * sent.nbytes
    with pytest.raises(ValueError, match="Unexpected set"):
        module.Array.inflate(content, dict(list(chunks.items())[1:]))
