"""Rows of a torch client one by one: which of them can be drawn, and the sum of their cut gradients.

torch.func takes the gradients of many rows at once, each as a batch of its own: no row sees another.
"""

import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

from amsfl.core import RowPrivacy, UserError
from amsfl.flower.client import torch_batches
from amsfl.privacy import safe_sum

AT_ONCE = 2**26  # numbers of rows' gradients that are kept at a time


class LossModule(torch.nn.Module):
    """A batch's loss as a module's output: so that parameters can be given, whatever `of` does with it."""

    def __init__(self, inner: Any, of: Callable[[Any], Any]):
        super().__init__()
        self.inner, self.of = inner, of

    def forward(self, batch: Any) -> Any:
        return self.of(batch)


def check_model(module: Any) -> None:
    """A row must have a gradient of its own."""
    for name, part in module.named_modules():
        if isinstance(part, torch.nn.modules.batchnorm._NormBase) and (
            isinstance(part, torch.nn.modules.batchnorm._BatchNorm) or part.track_running_stats
        ):
            raise UserError(
                f"The module's {name or 'whole'} is a {type(part).__name__}, which mixes the rows of a batch "
                "or keeps statistics of them: no row has a gradient of its own to clip. Under privacy use "
                "GroupNorm or LayerNorm in its place."
            )


def check_loader(loader: Any, rows: int) -> None:
    """Every row must be there to be drawn, by a chance of its own."""
    plain = isinstance(loader, DataLoader) and isinstance(loader.sampler, RandomSampler | SequentialSampler)
    if not plain or not hasattr(loader.dataset, "__getitem__") or len(loader.sampler) != len(loader.dataset):
        raise UserError(
            "Under privacy every row is drawn by a chance of its own, so the loader must be a DataLoader "
            "over a data set with numbered rows, shuffled or not, without a sampler of your own."
        )
    if rows != len(loader.dataset):
        raise UserError(
            f"torch_client was given rows={rows}, and the data set has {len(loader.dataset)}: what a row "
            "tells goes by their number; leave rows out under privacy."
        )


def norms(rows: Any) -> Any:
    """As safe_sum.norms: squares neither underflow nor overflow."""
    largest = rows.abs().amax(1)
    scale = largest.clamp(safe_sum.SMALLEST, safe_sum.LARGEST)
    lengths = (rows / scale[:, None]).square().sum(1).sqrt() * scale
    return torch.where(largest <= safe_sum.LARGEST, lengths, torch.inf)


def private_sum(
    module: Any,
    loss_of: Callable[[Any], Any],
    draw: Callable[[Any], Any],
    places: Any,
    present: Any,
    private: RowPrivacy,
) -> Any:
    """The sum of the gradients of the rows that are present, each cut as `private` says, as one flat tensor.

    `draw(places)` collates rows to a batch on the device; a row whose gradient is no number counts nothing.
    """
    trained = {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}
    whole = LossModule(module, loss_of)
    numbers = sum(part.numel() for part in trained.values())
    total = torch.zeros(numbers, device=next(iter(trained.values())).device)

    def lost(params: Any, row: Any) -> Any:
        named = {f"inner.{name}": part for name, part in params.items()}
        one = torch_batches.mapped(row, lambda part: part.unsqueeze(0))
        return torch.func.functional_call(whole, named, (one,))

    turn = max(AT_ONCE // numbers, 1)
    for begin in range(0, len(places), turn):
        batch = draw(places[begin : begin + turn])
        try:
            each = torch.func.vmap(torch.func.grad(lost), (None, 0), randomness="different")(trained, batch)
        except Exception as error:  # whatever users' modules raise; what it says may be of rows
            traceback.print_exc()
            raise UserError(
                f"torch.func cannot take this model's gradients row by row ({type(error).__name__}; the "
                "client's log has more): under privacy use modules, and batches of tensors, that it can."
            ) from None
        flat = torch.cat([part.reshape(len(part), -1).float() for part in each.values()], dim=1)
        lengths = norms(flat).cpu().numpy()
        factors = safe_sum.row_factors(private, lengths, present[begin : begin + turn])
        by = torch.from_numpy(factors).to(flat.device)
        total += by @ torch.where(by[:, None] > 0, flat, 0.0)
    return total
