"""Batches of any make: pairs, longer tuples, dictionaries, with text or None among the tensors."""

from collections.abc import Callable, Mapping
from typing import Any

from amsfl.core import UserError


def moved(batch: Any, device: Any) -> Any:
    """The same batch with its tensors on the device."""
    return mapped(batch, lambda part: part.to(device))


def mapped(batch: Any, change: Callable[[Any], Any]) -> Any:
    """The same batch with its tensors changed."""
    if isinstance(batch, dict):
        return {key: mapped(part, change) for key, part in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(mapped(part, change) for part in batch))
    if isinstance(batch, tuple | list):
        return [mapped(part, change) for part in batch]
    return change(batch) if hasattr(batch, "to") else batch


def rows(batch: Any) -> int:
    """How many rows a batch has: as many as its first tensor is long."""
    count = _first(batch)
    if count is None:
        raise UserError(
            f"A batch is a {type(batch).__name__} without a tensor in it: its rows cannot be counted."
        )
    return int(count)


def _first(part: Any) -> int | None:
    if hasattr(part, "shape"):
        return int(part.shape[0]) if len(part.shape) else None
    if isinstance(part, Mapping):
        part = list(part.values())
    if isinstance(part, tuple | list):
        return next((count for count in map(_first, part) if count is not None), None)
    return None


def labelled(batch: Any) -> bool:
    """Whether a batch is a dictionary from which a model works out its own loss, as Hugging Face's do."""
    return isinstance(batch, Mapping) and "labels" in batch


def own_loss(module: Any, batch: Mapping[str, Any]) -> Any:
    """The loss that a module works out from a dictionary with labels, as an attribute or an entry."""
    try:
        outputs = module(**batch)
    except TypeError as error:
        raise UserError(
            f"The module cannot take this batch, whose columns are {', '.join(map(str, batch))}: {error}. "
            "Leave out what it does not take, such as text, or give torch_client a batch_loss(module, batch)."
        ) from error
    loss = outputs.get("loss") if isinstance(outputs, Mapping) else getattr(outputs, "loss", None)
    if loss is None:
        raise UserError(
            f"The module returns a {type(outputs).__name__} without a loss for a batch with labels: return "
            "one, or give torch_client a batch_loss(module, batch)."
        )
    return loss


def split(batch: Any) -> tuple[list[Any], Any]:
    """Inputs and targets of a tuple: the targets come last."""
    if not isinstance(batch, tuple | list) or len(batch) < 2:
        raise UserError(
            f"A batch is a {type(batch).__name__}, not (inputs, ..., targets): give torch_client a "
            "batch_loss(module, batch) that returns the batch's mean loss."
        )
    return list(batch[:-1]), batch[-1]
