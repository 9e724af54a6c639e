"""examples/any-loop: short clients that learn, rehearsed here; in a real federation with --slow."""

import importlib.util
import io
import sys
import tokenize
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from amsfl.flower import serve
from amsfl.flower.in_process import InProcessGrid

HERE = Path(__file__).parents[2] / "examples" / "any-loop"
NEEDS = {"lora": ["torch", "transformers", "peft"], "scikit": []}
NAMES = ["adam", "dictionaries", "mixed_precision", "lora", "scikit"]


def load(name: str) -> Any:
    for module in NEEDS.get(name, ["torch"]):
        pytest.importorskip(module, reason=f"{module} is not installed")
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    spec = importlib.util.spec_from_file_location(f"any_loop_{name}", HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def code_lines(path: Path) -> int:
    """Lines that hold code: no comments, no docstring, nothing empty."""
    text = path.read_text(encoding="utf-8")
    aside = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        docstring = token.type == tokenize.STRING and token.line.lstrip().startswith('"""')
        if token.type not in aside and not docstring and token.string.strip():
            lines |= {*range(token.start[0], token.end[0] + 1)}
    return len(lines)


@pytest.mark.parametrize("name", NAMES)
def test_a_client_has_at_most_twenty_lines_and_learns(name: str) -> None:
    assert 5 < code_lines(HERE / f"{name}.py") <= 20
    app, rates = load(name).app, load("run").RATES
    settings = {"method": "amsfl", "clients": 3, "rounds": 3, "evaluate_clients": 1, "poll": 0.001}
    settings |= {"patience": 20.0, "lr": rates.get(name, 0.05)}
    grid = InProcessGrid(app, [{"partition-id": site} for site in range(3)])
    state, records = serve(grid, settings)
    scores = [record.metrics["clients"] for record in records]
    assert state.status == "finished" and not any(record.plan["refused"] for record in records)
    if "loss" in scores[0]:
        assert scores[-1]["loss"] < scores[0]["loss"]
    if name == "lora":
        assert state.anchor.size < 2000  # of 37,860: adapters and the head
    assert max(score.get("accuracy", score.get("right", 0.0)) for score in scores) > 0.6


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_real_federation(name: str, tmp_path: Path) -> None:
    load(name)  # what it needs is there, or it is skipped
    summary = load("run").federation(name, 3, tmp_path / "run")
    scores = summary.metrics["clients"]
    assert summary.status == "finished" and summary.rounds == 3 and summary.refused == 0
    assert np.isfinite(list(scores.values())).all()
