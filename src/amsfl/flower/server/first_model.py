"""The first model of a run, from what several clients send: nobody's word alone."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from amsfl.core import UserError
from amsfl.flower.messages import Hello

ASKED = 3  # clients that are asked for it
LARGEST = 1e6  # number in it


def choose(models: Sequence[tuple[int, Hello]]) -> tuple[Hello, list[int]]:
    """Of a form that most clients have, and of usual length; and the clients whose form is another."""
    forms = [_form(hello) for _, hello in models]
    form, votes = Counter(forms).most_common(1)[0]
    if len(models) > 1 and votes == 1:
        sizes = ", ".join(f"client {who} {hello.model.size:,}" for who, hello in models)
        raise UserError(
            f"Clients do not agree on the model's form ({sizes} numbers): run the same model at all, or "
            "give the server the first one."
        )
    agreeing = [hello for (_, hello), each in zip(models, forms, strict=True) if each == form]
    by_length = sorted(agreeing, key=lambda hello: float(np.square(hello.model, dtype=float).sum()))
    others = [who for (who, _), each in zip(models, forms, strict=True) if each != form]
    return by_length[(len(by_length) - 1) // 2], others


def _form(hello: Hello) -> tuple[Any, ...]:
    """What models must have in common to be averaged."""
    buffers = sorted((name, part.shape, str(part.dtype)) for name, part in hello.buffers.items())
    return hello.model.size, hello.tensors, tuple(buffers)


def unfit(hello: Hello) -> str | None:
    floats = [hello.model, *(part for part in hello.buffers.values() if part.dtype.kind == "f")]
    if not hello.model.size or hello.model.ndim != 1 or hello.model.dtype != np.float32:
        return "it is no flat vector of float32"
    if not all(np.isfinite(part).all() and np.abs(part).max(initial=0.0) <= LARGEST for part in floats):
        return f"it holds numbers that are not finite, or beyond {LARGEST:g}"
    return None
