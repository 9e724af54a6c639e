"""Batches of any make (pairs, longer tuples, dictionaries, with text or None among the tensors), and rows one
by one: which of them can be drawn, and the sum of their cut gradients.

torch.func takes the gradients of many rows at once, each as a batch of its own: no row sees another.
"""

import math
from collections.abc import Callable, Mapping, Sized
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, Subset

from amsfl import sampling
from amsfl.core import RowPrivacy, UserError
from amsfl.privacy import private_step

AT_ONCE = 2**26  # numbers of rows' gradients that are kept at a time


def check_model(module: Any) -> None:
    """A row must have a gradient of its own."""
    for part in module.modules():
        if isinstance(part, torch.nn.modules.batchnorm._NormBase) and (
            isinstance(part, torch.nn.modules.batchnorm._BatchNorm) or part.track_running_stats
        ):
            raise UserError(
                f"Rows have no gradient of their own in {type(part).__name__}; under privacy use GroupNorm."
            )


def check_loader(loader: Any, rows: int) -> None:
    """Every row must be there to be drawn, by a chance of its own."""
    if not _is_plain(loader):
        raise UserError(
            "Under privacy the loader is a DataLoader of numbered rows, without a sampler of yours."
        )
    if rows != (there := len(loader.dataset)):
        raise UserError(f"There are {there} rows, and torch_client was given rows={rows}: leave that out.")


def _is_plain(loader: Any) -> bool:
    """Whether it has every row of a data set with numbered rows once, in some order."""
    once = (RandomSampler, SequentialSampler)
    if not isinstance(loader, DataLoader) or not isinstance(loader.sampler, once):
        return False
    held: Any = loader.dataset
    return isinstance(held, Sized) and hasattr(held, "__getitem__") and len(loader.sampler) == len(held)


def hold_back(loader: Any, seed: int, client: int, share: float) -> tuple[Any, Any]:
    """The loader without a share of its rows, and one of those; None where rows cannot be told apart."""
    if not share or not _is_plain(loader) or loader.batch_size is None:
        return loader, None
    count, size = len(loader.dataset), loader.batch_size
    trained, held = sampling.hold_back(seed, client, count, share)
    if len(trained) > size > 1 and len(trained) % size == 1 != count % size and not loader.drop_last:
        trained, held = trained[:-1], np.append(trained[-1:], held)  # batch normalisation takes no lone row
    common = {"batch_size": loader.batch_size, "collate_fn": loader.collate_fn}
    rest = DataLoader(
        Subset(loader.dataset, sorted(trained.tolist())),
        **common,
        shuffle=isinstance(loader.sampler, RandomSampler),
        drop_last=loader.drop_last,
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
        worker_init_fn=loader.worker_init_fn,
        generator=loader.generator,
    )
    if not len(held) or not len(rest):
        return loader, None
    return rest, DataLoader(Subset(loader.dataset, held.tolist()), **common)


def spread(outputs: list[Any]) -> float:
    """How much outputs differ from row to row: 0 of one that says the same of all (planning/learning.py)."""
    whole = torch.cat([part.reshape(len(part), -1).float() for part in outputs])
    return float((whole - whole.mean(0)).abs().max() / (1 + whole.abs().max()))


def private_sum(
    module: Any,
    loss_of: Callable[[Any], Any],
    draw: Callable[[Any], Any],
    places: Any,
    present: Any,
    private: RowPrivacy,
) -> Any:
    """The sum of the gradients of the rows that are present, each cut as `private` says, as one flat vector.

    `draw(places)` collates rows to a batch on the device; a row whose gradient is no number counts nothing.
    """
    trained = {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}
    whole: Any = torch.nn.Module()  # whose output is a batch's loss: so that parameters can be given
    whole.inner, whole.forward = module, loss_of
    numbers = sum(part.numel() for part in trained.values())
    total = np.zeros(numbers, np.float32)

    def lost(params: Any, row: Any) -> Any:
        named = {f"inner.{name}": part for name, part in params.items()}
        one = mapped(row, lambda part: part.unsqueeze(0))
        return torch.func.functional_call(whole, named, (one,))

    turn = max(AT_ONCE // numbers, 1)
    for begin in range(0, len(places), turn):
        batch = draw(places[begin : begin + turn])
        each = torch.func.vmap(torch.func.grad(lost), (None, 0), randomness="different")(trained, batch)
        flat = torch.cat([part.reshape(len(part), -1).float() for part in each.values()], dim=1)
        grads = flat.cpu().numpy()
        factors = private_step.row_factors(private, private_step.norms(grads), present[begin : begin + turn])
        total += private_step.weighted_sum(factors, grads)
    return total


def moved(batch: Any, device: Any) -> Any:
    """The same batch with its tensors on the device."""
    return mapped(batch, lambda part: part.to(device))


def mapped(batch: Any, change: Callable[[Any], Any]) -> Any:
    """The same batch with its tensors changed."""
    if isinstance(batch, Mapping):
        return {key: mapped(part, change) for key, part in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(mapped(part, change) for part in batch))
    if isinstance(batch, tuple | list):
        return [mapped(part, change) for part in batch]
    return change(batch) if hasattr(batch, "to") else batch


def rows(batch: Any) -> int:
    """How many rows a batch has: as many as its first tensor is long."""
    sizes: list[int] = []
    mapped(batch, lambda part: sizes.extend(part.shape[:1]))
    if not sizes:
        raise UserError(f"A {type(batch).__name__} without a tensor in it is no batch of rows.")
    return sizes[0]


def count(loader: Any) -> int:
    """How many rows a loader has."""
    if isinstance(loader, list | tuple):
        return sum(map(rows, loader))
    held = getattr(loader, "dataset", None)
    if not isinstance(held, Sized):
        raise UserError("How many rows are in this loader? Give rows=1000, or rows=lambda context: ...")
    return len(held)


def scores(outputs: Any, targets: Any) -> dict[str, float]:
    """Accuracy of a batch's logits: one a class, or one a row for targets of 0 and 1; of amounts none."""
    if outputs.ndim == targets.ndim + 1 and outputs.shape[1] > 1:
        return {"accuracy": float((outputs.argmax(1) == targets).float().mean())}
    if outputs.numel() != targets.numel() or not ((targets == 0) | (targets == 1)).all():
        return {"accuracy": math.nan}
    return {"accuracy": float(((outputs.reshape(targets.shape) > 0) == (targets > 0)).float().mean())}


def split(batch: Any) -> tuple[list[Any], Any]:
    """Inputs and targets of a tuple: the targets come last."""
    if not isinstance(batch, tuple | list) or len(batch) < 2:
        raise UserError(
            f"A batch is a {type(batch).__name__}, not (inputs, ..., targets): give a batch_loss(...)."
        )
    return list(batch[:-1]), batch[-1]
