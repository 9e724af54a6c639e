"""A user's module and loader: gradients for the method's own steps, or steps of an optimizer of theirs."""

from collections.abc import Callable, Iterator, Mapping, Sized
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from flwr.app import Context
from torch.utils.data import Dataset, IterableDataset

from amsfl.core import RowPrivacy, UserError
from amsfl.flower.client import torch_rows
from amsfl.flower.client.step_loop import NoMoreData
from amsfl.flower.client.torch_module import TorchModule, flat
from amsfl.flower.messages import GlobalModel, Order
from amsfl.flower.scores import ScoreSums
from amsfl.methods import Method

NOTHING = object()


class TorchSetup(NamedTuple):
    """What torch_client was given; see there."""

    model: Callable[[], Any]
    loader: Callable[[Context], Any]
    test_loader: Callable[[Context], Any] | None
    loss: Callable[[Any, Any], Any] | None
    batch_loss: Callable[[Any, Any], Any] | None
    metrics: Callable[[Any, Any], Mapping[str, float]] | None
    on_step: Callable[[int, float, Any], Mapping[str, float] | None] | None
    rows: int | Callable[[Context], int] | None
    precision: str | None
    device: str
    optimizer: Callable[[Any, float], Any] | None
    schedule: Callable[[Any], Any] | None
    clip: float | None
    keep_optimizer: bool


class TorchTrainer(TorchModule):
    """One flat tensor on the device, copied into the module for each step."""

    def __init__(self, site: TorchSetup, context: Context):
        super().__init__(site.model, site.device)
        self.site, self.context = site, context
        self.loader = batches(site.loader(context))
        self.rows = self._count()
        self.training, self.held_loader, self.held_rows = self.loader, None, 0
        self.loss = site.loss or torch.nn.functional.cross_entropy
        self.means = WeightedMeans()
        self.source: Iterator[Any] = iter(())
        self.first: Any = NOTHING  # the round's first batch, kept for the reading
        self.held: Any = NOTHING  # a batch that was drawn and not stepped by yet

    def begin(self, order: Order, model: GlobalModel, method: Method) -> None:
        super().begin(order, model, method)
        share = order.held_back if method.judges else 0.0
        self.training, self.held_loader = torch_rows.hold_back(self.loader, order.seed, order.client, share)
        self.held_rows = 0 if self.held_loader is None else len(self.held_loader.dataset)
        self.source, self.first, self.held, self.means = self._cycle(), NOTHING, NOTHING, WeightedMeans()

    def gradient(self, x: Any, step: int) -> tuple[float, Any]:
        batch = self._draw()
        if step == 0:
            self.first = batch
        return self.loss_and_gradient(x, step, lambda: self.loss_of(batch))

    def probe(self, x: Any, step: int) -> tuple[float, Any]:
        if self.first is NOTHING:
            self.first = self.held = self._draw()
        return self.with_buffers_restored(
            lambda: self.loss_and_gradient(x, step, lambda: self.loss_of(self.first))
        )

    def check_rows(self) -> None:
        """See private_steps.py."""
        torch_rows.check_model(self.module)
        torch_rows.check_loader(self.loader, self.rows)
        if self.site.on_step is not None:
            raise UserError(
                "on_step hears of losses as they are, and what it returns would leave: under privacy leave "
                "it out."
            )
        self.row_sum(flat(self.trained), np.zeros(1, int), np.ones(1, bool), RowPrivacy(1.0))

    def row_sum(self, x: Any, places: Any, present: Any, private: Any) -> Any:
        """See private_steps.py."""
        self.load_parameters(x)
        self.module.train()
        held = self.loader.dataset

        def draw(some: Any) -> Any:
            rows = [held[int(place)] for place in some]
            return torch_rows.moved(self.loader.collate_fn(rows), self.device)

        return torch_rows.private_sum(self.module, self.loss_of, draw, places, present, private)

    def training_metrics(self) -> dict[str, float]:
        """What on_step returned, the mean over steps."""
        return self.means.values()

    def evaluate(self, x: Any) -> dict[str, float] | None:
        if self.site.test_loader is None:
            return None
        tally, own = ScoreSums(), WeightedMeans()

        def look(batch: Any, size: int, outputs: Any) -> None:
            if outputs is not None:
                tally.add(outputs, torch_rows.split(batch)[1])
            if self.site.metrics is not None:
                with self.autocast():
                    own.add(self.site.metrics(self.module, batch), size)

        loss, count = self._mean_loss(x, self.site.test_loader(self.context), look)
        return {"loss": loss, **tally.scores(), **own.values(), "rows": float(count)}

    def held_back(self, x: Any) -> tuple[float, float] | None:
        """Mean loss and spread of the rows that are held back; None where none are."""
        if self.held_loader is None:
            return None
        every: list[Any] = []
        with torch.random.fork_rng():  # a loader draws a number when it begins
            loss, _ = self._mean_loss(x, self.held_loader, lambda batch, size, outputs: every.append(outputs))
        return loss, 1.0 if None in every else torch_rows.spread(every)

    def _mean_loss(self, x: Any, loader: Any, look: Callable[[Any, int, Any], None]) -> tuple[float, int]:
        """Over all rows of a loader, and how many they are; `look` is shown every batch with its outputs,
        which are None where the loss is the module's or the user's own."""
        self.load_parameters(x)
        self.module.eval()
        loss, count = 0.0, 0
        with torch.no_grad():
            for each in loader:
                batch, size, outputs = torch_rows.moved(each, self.device), torch_rows.rows(each), None
                if self.site.batch_loss is not None or torch_rows.labelled(batch):
                    loss += float(self.loss_of(batch)) * size
                else:
                    with self.autocast():
                        inputs, targets = torch_rows.split(batch)
                        outputs = self.module(*inputs)
                        loss += float(self.loss(outputs, targets)) * size
                look(batch, size, outputs)
                count += size
        return loss / max(count, 1), count

    def loss_of(self, batch: Any) -> Any:
        """Of a batch as the loader gave it, or on the device already."""
        batch = torch_rows.moved(batch, self.device)
        with self.autocast():
            loss = self._loss(batch)
        if getattr(loss, "numel", lambda: 0)() != 1:
            what = f"a tensor of shape {tuple(loss.shape)}" if hasattr(loss, "shape") else f"{loss!r}"
            raise UserError(f"The loss of a batch is {what}; return one number, the mean over its rows.")
        return loss

    def _loss(self, batch: Any) -> Any:
        if self.site.batch_loss is not None:
            return self.site.batch_loss(self.module, batch)
        if torch_rows.labelled(batch):
            return torch_rows.own_loss(self.module, batch)
        inputs, targets = torch_rows.split(batch)
        outputs = self.module(*inputs)
        if isinstance(outputs, Mapping):
            raise UserError(
                f"The module returns a dictionary ({', '.join(map(str, outputs))}), and the loss takes a "
                "tensor: give torch_client a batch_loss(module, batch) that returns the batch's mean loss."
            )
        return self.loss(outputs, targets)

    def autocast(self) -> AbstractContextManager[Any]:
        if self.site.precision is None:
            return nullcontext()
        return torch.autocast(self.device.type, getattr(torch, self.site.precision))

    def stepped(self, step: int, loss: float) -> None:
        """After a step that was taken."""
        metrics = self.site.on_step(step, loss, self.module) if self.site.on_step else None
        if metrics:
            self.means.add(metrics, 1)

    def _count(self) -> int:
        rows = self.site.rows
        if rows is not None:
            return int(rows(self.context) if callable(rows) else rows)
        if isinstance(self.loader, list | tuple):
            return sum(map(torch_rows.rows, self.loader))
        held = getattr(self.loader, "dataset", None)
        if not isinstance(held, Sized):
            raise UserError(
                "Nobody can tell how many rows this loader has, and they say how much the client counts: "
                "give torch_client rows=1000, or rows=lambda context: ..."
            )
        return len(held)

    def _draw(self) -> Any:
        batch, self.held = self.held, NOTHING
        batch = next(self.source, NOTHING) if batch is NOTHING else batch
        if batch is not NOTHING:
            return batch
        if self.first is NOTHING:
            raise UserError(
                "This client's loader has no batch: it is empty, or drop_last leaves nothing of its rows."
            )
        raise NoMoreData

    def _cycle(self) -> Iterator[Any]:
        """The loader again and again; one that can be read but once is then at its end."""
        batches_left = True
        while batches_left:
            batches_left = False
            for batch in self.training:
                batches_left = True
                yield batch


def batches(source: Any) -> Any:
    """What a loader function returned; a data set has rows in place of batches (an iterable one may have)."""
    if isinstance(source, Dataset) and not isinstance(source, IterableDataset):
        raise UserError(
            f"loader(context) returned a {type(source).__name__}, which gives single rows: return batches, "
            "DataLoader(dataset, batch_size=32, shuffle=True)."
        )
    return source


class WeightedMeans:
    """Means of what a user's functions return, by weight."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.weights: dict[str, float] = {}

    def add(self, metrics: Mapping[str, float], weight: float) -> None:
        if not isinstance(metrics, Mapping):
            raise UserError(
                f"Metrics of your own are a dictionary of numbers, as in {{'recall': 0.9}}; got {metrics!r}."
            )
        for name, value in metrics.items():
            self.sums[name] = self.sums.get(name, 0.0) + weight * float(value)
            self.weights[name] = self.weights.get(name, 0.0) + weight

    def values(self) -> dict[str, float]:
        return {name: total / self.weights[name] for name, total in self.sums.items()}
