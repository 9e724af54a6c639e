"""A user's PyTorch module and DataLoader as a client. torch is imported here and nowhere else."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp

from amsfl.core import UserError
from amsfl.flower.client.app import Own, client_app
from amsfl.flower.wire import Buffers, Model, Order, Vector
from amsfl.methods import Method

Loss = Callable[[Any, Any], Any]


def torch_client(
    model: Callable[[], Any],
    loader: Callable[[Context], Any],
    test_loader: Callable[[Context], Any] | None = None,
    loss: Loss | None = None,
    device: str = "cpu",
    own: Own = (),
    batch_loss: Loss | None = None,
) -> ClientApp:
    """A ClientApp from `model() -> nn.Module` and `loader(context) -> DataLoader` of (inputs, targets).

    Parameters that want gradients are trained, by the method's own SGD step: bring no optimizer. Float
    buffers (BatchNorm's running statistics) are averaged by weight, integer ones take the largest value;
    frozen parameters stay as `model()` makes them. The loader is cycled; give it shuffle=True.
    `loss(outputs, targets)` is cross-entropy by default. Batches of any other kind (dictionaries, three
    tensors, graphs) need `batch_loss(module, batch)`, the mean loss of a batch's rows.
    `own`: methods and transmissions of your own.
    """

    def make(context: Context) -> TorchTrainer:
        return TorchTrainer(model, loader, test_loader, loss, device, context, batch_loss)

    return client_app(make, own)


class TorchTrainer:
    """Trainer (see work.Trainer): one flat tensor on the device, copied into the module for each step."""

    def __init__(
        self,
        model: Callable[[], Any],
        loader: Callable[[Context], Any],
        test_loader: Callable[[Context], Any] | None,
        loss: Loss | None,
        device: str,
        context: Context,
        batch_loss: Loss | None = None,
    ):
        try:
            import torch
        except ImportError:
            raise UserError("torch_client needs PyTorch: pip install 'amsfl[flower,torch]'.") from None
        self.torch, self.device = torch, device
        self.make = model
        torch.manual_seed(0)  # frozen parameters do not travel: every client must make the same ones
        self.module = model().to(device)
        self.trained = [p for p in self.module.parameters() if p.requires_grad]
        self.loss = loss or torch.nn.functional.cross_entropy
        self.batch_loss = batch_loss
        self.loader = loader(context)
        self.rows = len(self.loader.dataset)
        self.test = (lambda: test_loader(context)) if test_loader else None
        self.batches: list[Any] = []
        self.source: Iterator[Any] = iter(())

    def start(self, seed: int) -> tuple[Vector, Buffers]:
        self.torch.manual_seed(seed)
        fresh = [p for p in self.make().parameters() if p.requires_grad]
        return self.lower(self.torch.nn.utils.parameters_to_vector(fresh)), self.buffers()

    def begin(self, order: Order, model: Model, method: Method) -> None:
        if method.objective is not None:
            raise UserError(f"Method {method.name!r} changes the loss itself; only jax_client can run it.")
        with self.torch.no_grad():
            for name, buffer in self.module.named_buffers():
                if name in model.buffers:
                    buffer.copy_(self.torch.from_numpy(model.buffers[name].copy()))
        # the loader's shuffle and dropout follow from (seed, round, client) alone
        words = np.random.SeedSequence([order.seed, order.round, order.client]).generate_state(1)
        self.torch.manual_seed(int(words[0]))
        self.seed, self.first = int(words[0]), None
        self.source = self._cycle()

    def lift(self, vector: Vector) -> Any:
        return self.torch.from_numpy(np.array(vector)).to(self.device)

    def lower(self, vector: Any) -> Vector:
        return np.array(vector.detach().cpu().numpy(), np.float32)

    def gradient(self, x: Any, step: int) -> tuple[float, Any]:
        batch = next(self.source)
        if step == 0:
            self.first = batch  # kept for the reading
        return self._gradient(x, step, batch)

    def probe(self, x: Any, step: int) -> tuple[float, Any]:
        kept = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        found = self._gradient(x, step, self.first)
        with self.torch.no_grad():
            for name, buffer in self.module.named_buffers():
                buffer.copy_(kept[name])
        return found

    def buffers(self) -> Buffers:
        return {name: np.array(b.detach().cpu().numpy()) for name, b in self.module.named_buffers()}

    def evaluate(self, x: Any) -> dict[str, float] | None:
        if self.test is None:
            return None
        self._put(x)
        self.module.eval()
        loss, tally = 0.0, Tally()
        with self.torch.no_grad():
            for batch in (self._moved(each) for each in self.test()):
                if self.batch_loss is not None:
                    tally.rows += _rows(batch)
                    loss += float(self.batch_loss(self.module, batch)) * _rows(batch)
                    continue
                inputs, targets = batch
                outputs = self.module(inputs)
                loss += float(self.loss(outputs, targets)) * len(targets)
                tally.add(outputs, targets)
        return {"loss": loss / max(tally.rows, 1), **tally.scores(), "rows": float(tally.rows)}

    def _gradient(self, x: Any, step: int, batch: Any) -> tuple[float, Any]:
        batch = self._moved(batch)
        self._put(x)
        self.module.train()
        with self.torch.random.fork_rng():  # dropout draws the same mask at both ends of a reading
            self.torch.manual_seed(self.seed + step)
            value = self._loss(batch)
            grads = self.torch.autograd.grad(value, self.trained)
        return float(value.detach()), self.torch.cat([grad.reshape(-1) for grad in grads])

    def _loss(self, batch: Any) -> Any:
        if self.batch_loss is not None:
            return self.batch_loss(self.module, batch)
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise UserError(
                f"A batch is a {type(batch).__name__}, not (inputs, targets): give torch_client a "
                "batch_loss(module, batch) that returns the batch's mean loss."
            )
        return self.loss(self.module(batch[0]), batch[1])

    def _moved(self, batch: Any) -> Any:
        """A batch on the device, whatever it is made of."""
        if isinstance(batch, dict):
            return {key: self._moved(part) for key, part in batch.items()}
        if isinstance(batch, tuple | list):
            return [self._moved(part) for part in batch]
        return batch.to(self.device) if hasattr(batch, "to") else batch

    def _put(self, x: Any) -> None:
        self.torch.nn.utils.vector_to_parameters(x, self.trained)

    def _cycle(self) -> Iterator[Any]:
        while True:
            yield from self.loader


class Tally:
    """Scores by task, which the shapes of outputs and targets say: classes, one logit, or numbers.

    Outputs with one axis more than the targets are logits of classes: accuracy. Outputs of the targets' own
    size are one logit where all targets are 0 or 1 (accuracy again), else a regression (mean squared error).
    """

    def __init__(self) -> None:
        self.rows = self.count = 0
        self.hits = self.squares = 0.0
        self.classes, self.binary = False, True

    def add(self, outputs: Any, targets: Any) -> None:
        self.rows += len(targets)
        self.count += targets.numel()
        if outputs.ndim == targets.ndim + 1 and outputs.shape[1] > 1:
            self.classes = True
            self.hits += float((outputs.argmax(1) == targets).sum())
            return
        if outputs.numel() != targets.numel():
            raise UserError(
                f"Outputs of shape {tuple(outputs.shape)} have no score against targets of "
                f"{tuple(targets.shape)}: give classes one logit each, or as many outputs as targets."
            )
        told = outputs.reshape(targets.shape)
        self.binary &= bool(((targets == 0) | (targets == 1)).all())
        self.hits += float(((told > 0) == (targets > 0)).sum())
        self.squares += float(((told - targets) ** 2).sum())

    def scores(self) -> dict[str, float]:
        count = self.count
        if not count:
            return {}
        return (
            {"accuracy": self.hits / count} if self.classes or self.binary else {"mse": self.squares / count}
        )


def _rows(batch: Any) -> int:
    """How many rows a batch has: as many as its first tensor is long."""
    while isinstance(batch, dict | list):
        batch = next(iter(batch.values() if isinstance(batch, dict) else batch))
    return len(batch)
