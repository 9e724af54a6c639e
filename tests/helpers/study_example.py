"""A small study on the embedded digits, for the tests of studies and reports."""

from pathlib import Path

SETTINGS = """
title = "A small study"
kind = "{kind}"
trials = {trials}

[run]
data = "digits"
engine = "loop"
model = "softmax"
partition = "dirichlet:0.3"
seconds = {seconds}
target = 0.6

[methods.fedavg]
steps = 5

[methods.fedcsda]
steps = 4

[methods.amsfl]
"""


def settings(folder: Path, trials: int = 2, seconds: float = 4, kind: str = "reproduce") -> Path:
    path = folder / "small.toml"
    path.write_text(SETTINGS.format(trials=trials, seconds=seconds, kind=kind), encoding="utf-8")
    return path
