"""PyTorch clients: a module and a loader, with our steps or a training loop of your own."""

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context
from flwr.clientapp import ClientApp
from torch.utils.data import Dataset, IterableDataset

from amsfl.core import RowPrivacy, UserError
from amsfl.flower import torch_rows
from amsfl.flower.arrays import unflat
from amsfl.flower.client import client_app
from amsfl.flower.trainer import LocalTask, Trainer, fading

Loss = Callable[[Any, Any], Any]


def torch_client(
    model: Callable[[], Any],
    loader: Callable[[Context], Any],
    test_loader: Callable[[Context], Any] | None = None,
    loss: Loss | None = None,
    batch_loss: Loss | None = None,
    optimizer: Callable[[Any, float], Any] | None = None,
    metrics: Callable[[Any, Any], Mapping[str, float]] | None = None,
    rows: int | Callable[[Context], int] | None = None,
    device: str = "cpu",
    train: Callable[[Any, Any, LocalTask], Any] | None = None,
) -> ClientApp:
    """A ClientApp from a module and a loader.

    A batch is (inputs, ..., targets), or anything, for `batch_loss`. Parameters that want gradients and
    running statistics travel; frozen parameters stay as `model()` makes them.

    Args:
        model: `model()` makes the nn.Module.
        loader: `loader(context)` returns this site's batches, which are iterated again and again.
        test_loader: `test_loader(context)` returns the batches to score by.
        loss: `loss(outputs, targets)`, the mean over rows; cross-entropy if left out.
        batch_loss: `batch_loss(module, batch)`, the mean loss of a batch's rows, in place of `loss`.
        optimizer: `optimizer(parameters, lr)` takes the steps, afresh in every round; plain SGD if left out.
        metrics: `metrics(module, batch)` returns numbers of your own on the test rows.
        rows: How many rows there are, or `rows(context)`; needed for an iterable data set.
        device: Torch's.
        train: A training loop of your own: `train(module, batches, task)`, in which `for step in task` ends
            by itself; `task` has lr, round, seed and the node's config as `node`. It may return numbers of
            your own, those of `Measured` among them.

    Returns:
        The app that a pyproject.toml names as `clientapp`.
    """
    _functions(model=model, loader=loader, test_loader=test_loader, optimizer=optimizer, train=train)
    given = model, loader, test_loader, loss, batch_loss, optimizer, metrics, rows, device, train
    return client_app(lambda context: TorchTrainer(context, *given))


def torch_arrays(module: Any) -> ArrayRecord:
    """What of a module travels: parameters that want gradients, and the buffers of its state_dict.

    Args:
        module: torch's.

    Returns:
        The first arrays, for `start`.
    """
    return ArrayRecord({name: Array(_numpy(part)) for name, part in travelling(module).items()})


def travelling(module: Any) -> dict[str, Any]:
    """By name, tied parameters once."""
    lasting = module.state_dict().keys()
    trained = {name: part for name, part in module.named_parameters() if part.requires_grad}
    return trained | {name: part for name, part in module.named_buffers() if name in lasting}


def _numpy(part: Any) -> Any:
    """numpy has no bfloat16: it travels as float32."""
    held = part.detach().cpu()
    return np.array((held.float() if held.dtype == torch.bfloat16 else held).numpy())


class TorchTrainer(Trainer):
    """A user's module, how it travels, and batches to step by."""

    def __init__(self, context: Context, *given: Any):  # as torch_client has them
        self.context, (model, loader, self.test_loader, self.loss, *rest) = context, given
        self.batch_loss, self.optimizer, self.metrics, rows, self.device, self.own_loop = rest
        self.loader = self.training = loader(context)
        torch.manual_seed(0)  # frozen parameters do not travel: every client must make the same ones
        self.module = model().to(self.device)
        self.trained = [part for part in self.module.parameters() if part.requires_grad]
        if not self.trained:
            raise UserError("The model has no parameter that wants a gradient: nothing would be trained.")
        if isinstance(self.loader, Dataset) and not isinstance(self.loader, IterableDataset):
            kind = type(self.loader).__name__
            raise UserError(f"A {kind} gives single rows: return DataLoader(dataset, 32).")
        count = rows(context) if callable(rows) else rows
        self.rows = torch_rows.count(self.loader) if count is None else int(count)

    def load(self, arrays: ArrayRecord, task: LocalTask) -> None:
        own, self.came = travelling(self.module), arrays
        missing = [name for name in own if name not in arrays]
        if missing:
            raise UserError(f"The server's model has no {missing[0]!r}, and this client's has.")
        whole = self.module.state_dict(keep_vars=True)
        for name in whole.keys() & {*arrays}:
            numbers, here = arrays[name].numpy(), tuple(whole[name].shape)
            if here != numbers.shape:
                raise UserError(f"The server's {name!r} is {numbers.shape}, and this client's {here}.")
            with torch.no_grad():
                whole[name].copy_(torch.from_numpy(numbers.copy()))
        task.correction = self._correction(task)
        # the loader's shuffle and dropout follow from (seed, round, client) alone
        words = np.random.SeedSequence([task.seed, task.draw, task.client])
        self.seed = int(words.generate_state(1)[0])
        torch.manual_seed(self.seed)

    def _correction(self, task: LocalTask) -> Any:
        """Of the trained parameters; the server's is of all float arrays that came, one after another."""
        if task.correction is None:
            return None
        parts = unflat(task.correction, self.came)
        named = [name for name, part in self.module.named_parameters() if part.requires_grad]
        return np.concatenate([parts[name].numpy().ravel() for name in named])

    def arrays(self) -> ArrayRecord:
        """What came, as it is now: what this client does not know is left as it was."""
        now = {
            name: Array(_numpy(part).astype(self.came[name].numpy().dtype))
            for name, part in self.module.state_dict().items()
            if name in self.came
        }
        return ArrayRecord({name: now.get(name, part) for name, part in self.came.items()})

    def train(self, task: LocalTask) -> Mapping[str, float]:
        if self.own_loop is not None:
            self.module.train()
            said = self.own_loop(self.module, self.training, task)
            if not task.done:
                raise UserError("The training loop took no step that was counted: write `for step in task`.")
            return {str(name): float(value) for name, value in (said or {}).items()}
        source, first, before = cycle(self.training), None, None
        make = self.optimizer or (lambda parameters, lr: torch.optim.SGD(parameters, lr=lr))
        optimizer, anchor = make(self.trained, task.lr), flat(self.trained)
        for step in task:
            batch = next(source, None)
            if batch is None:
                break
            self.module.train()
            if step == 0:
                torch.manual_seed(self.seed)  # dropout of the reading's minibatch
            optimizer.zero_grad(set_to_none=True)
            loss = self.loss_of(batch)
            task.check_loss(float(loss.detach()))
            loss.backward()
            if first is None:
                first, before = batch, gradients([part.grad for part in self.trained], self.trained)
            self._correct(task, anchor)
            optimizer.step()
        if first is None:
            return {}
        return fading(before, self._look_back(first), task.done, task.lr)

    def _look_back(self, batch: Any) -> Any:
        """The gradient of a minibatch for the reading: buffers and random streams stay as they were."""
        kept = [(buffer, buffer.clone()) for buffer in self.module.buffers()]
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            grads = torch.autograd.grad(self.loss_of(batch), self.trained, allow_unused=True)
        with torch.no_grad():
            for buffer, before in kept:
                buffer.copy_(before)
        return gradients(grads, self.trained)

    def _correct(self, task: LocalTask, anchor: Any) -> None:
        """g + mu (y - a) + correction."""
        if not task.mu and task.correction is None:
            return
        more = task.mu * (flat(self.trained) - anchor)
        with torch.no_grad():
            more = more if task.correction is None else more + self._tensor(task.correction)
            for part, own in zip(self.trained, split_like(more, self.trained), strict=True):
                part.grad = own if part.grad is None else part.grad + own

    def _tensor(self, vector: Any) -> Any:
        return torch.from_numpy(np.array(vector, np.float32)).to(self.device)

    def loss_of(self, batch: Any) -> Any:
        return self.loss_and_outputs(batch)[0]

    def loss_and_outputs(self, batch: Any) -> tuple[Any, Any]:
        """Of a batch as the loader gave it, or on the device already; no outputs where the loss is the
        user's own."""
        batch, outputs = torch_rows.moved(batch, self.device), None
        if self.batch_loss is not None:
            loss = self.batch_loss(self.module, batch)
        else:
            inputs, targets = torch_rows.split(batch)
            outputs = self.module(*inputs)
            if isinstance(outputs, Mapping):
                raise UserError("The module returns a dictionary: give a batch_loss(module, batch) for it.")
            loss = (self.loss or torch.nn.functional.cross_entropy)(outputs, targets)
        if getattr(loss, "numel", lambda: 0)() != 1:
            what = f"a tensor of shape {tuple(loss.shape)}" if hasattr(loss, "shape") else f"{loss!r}"
            raise UserError(f"The loss of a batch is {what}; return one number, the mean over its rows.")
        return loss, outputs

    @property
    def x(self) -> Any:
        return np.array(flat(self.trained).cpu().numpy(), np.float32)

    @x.setter
    def x(self, vector: Any) -> None:
        with torch.no_grad():
            parts = split_like(self._tensor(vector), self.trained)
            for part, numbers in zip(self.trained, parts, strict=True):
                part.copy_(numbers)

    def check_rows(self) -> None:
        if self.optimizer is not None or self.own_loop is not None:
            raise UserError("Under privacy steps are plain ones: leave the optimizer and the loop out.")
        torch_rows.check_model(self.module)
        torch_rows.check_loader(self.loader, self.rows)
        self.row_sum(self.x, np.zeros(1, int), np.ones(1, bool), RowPrivacy(1.0))

    def row_sum(self, x: Any, places: Any, present: Any, private: RowPrivacy) -> Any:
        self.x = x
        self.module.train()
        loader: Any = self.loader

        def draw(some: Any) -> Any:
            rows = [loader.dataset[int(place)] for place in some]
            return torch_rows.moved(loader.collate_fn(rows), self.device)

        return torch_rows.private_sum(self.module, self.loss_of, draw, places, present, private)

    @torch.no_grad()
    def held_back(self, task: LocalTask) -> tuple[float, float] | None:
        self.training, held = torch_rows.hold_back(self.loader, task.seed, task.client, task.held_share)
        if held is None:
            return None
        with torch.random.fork_rng():  # a loader draws a number when it begins
            _, sizes, losses, outputs = zip(*self._looked_at(held), strict=True)
        spread = 1.0 if None in outputs else torch_rows.spread(list(outputs))
        return float(np.average(losses, weights=sizes)), spread

    @torch.no_grad()
    def evaluate(self) -> Mapping[str, float] | None:
        if self.test_loader is None:
            return None
        sums: dict[str, float] = {}
        count = 0
        for batch, size, loss, outputs in self._looked_at(self.test_loader(self.context)):
            means = {"loss": loss}
            if outputs is not None:
                means |= torch_rows.scores(outputs, torch_rows.split(batch)[1])
            if self.metrics is not None:
                means |= self.metrics(self.module, batch)
            for name, value in means.items():
                sums[name] = sums.get(name, 0.0) + size * float(value)
            count += size
        known = {name: total / count for name, total in sums.items() if name == "loss" or isfinite(total)}
        return {**known, "num-examples": float(count)} if count else None

    def _looked_at(self, loader: Any) -> Iterator[tuple[Any, int, float, Any]]:
        """Every batch on the device, how many rows it has, their mean loss and the outputs."""
        self.module.eval()
        for each in loader:
            batch = torch_rows.moved(each, self.device)
            loss, outputs = self.loss_and_outputs(batch)
            yield batch, torch_rows.rows(batch), float(loss), outputs


def flat(parts: Any) -> Any:
    return torch.cat([part.detach().reshape(-1).float() for part in parts])


def split_like(vector: Any, parts: Any) -> list[Any]:
    pieces = vector.split([part.numel() for part in parts])
    return [piece.view_as(part).to(part.dtype) for piece, part in zip(pieces, parts, strict=True)]


def gradients(grads: Any, parts: Any) -> Any:
    """One flat vector; 0 where a parameter has none."""
    pairs = zip(grads, parts, strict=True)
    return flat([torch.zeros_like(part) if grad is None else grad for grad, part in pairs])


def cycle(loader: Any) -> Iterator[Any]:
    """The loader again and again; one that can be read but once is then at its end."""
    batches_left = True
    while batches_left:
        batches_left = False
        for batch in loader:
            batches_left = True
            yield batch


def _functions(**chosen: Any) -> None:
    """Things in place of functions that make them: every site makes its own. (Modules can be called, too.)"""
    for name, thing in chosen.items():
        made = hasattr(thing, "state_dict") and not isinstance(thing, type)
        if thing is not None and (made or not callable(thing)):
            raise UserError(f"{name} is a {type(thing).__name__}; give a function: {name}=lambda ...: ...")
