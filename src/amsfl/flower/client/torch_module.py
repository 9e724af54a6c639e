"""A user's module as a flat vector and its buffers, which all torch clients have in common; and a training
loop of the user's own around it: it is told how many steps to take, and says how many it took.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from flwr.app import Context

from amsfl.core import UserError
from amsfl.flower.client.local_round import Trainer
from amsfl.flower.client.step_loop import LocalTask
from amsfl.flower.messages import Buffers, GlobalModel, Order, TensorSpec, Vector
from amsfl.methods import Method

Result = TypeVar("Result")


class TorchModule(Trainer):
    """The part of a Trainer that needs no rows. Flat vectors are float32, parameters anything."""

    def __init__(self, model: Callable[[], Any], device: str):
        self.make, self.device = model, torch.device(device)
        torch.manual_seed(0)  # frozen parameters do not travel: every client must make the same ones
        self.module = model().to(self.device)
        self.trained = [p for p in self.module.parameters() if p.requires_grad]
        if not self.trained:
            raise UserError("The model has no parameter that wants a gradient: nothing would be trained.")
        self.seed = 0

    def start(self, seed: int) -> tuple[Vector, Buffers]:
        torch.manual_seed(seed)
        fresh = [p for p in self.make().parameters() if p.requires_grad]
        return self.to_numpy(flat(fresh)), self.buffers()

    def begin(self, order: Order, model: GlobalModel, method: Method) -> None:
        super().begin(order, model, method)
        with torch.no_grad():
            for name, buffer in self._buffers():
                if name in model.buffers:
                    buffer.copy_(torch.from_numpy(model.buffers[name].copy()))
        # the loader's shuffle and dropout follow from (seed, round, client) alone
        words = np.random.SeedSequence([order.seed, order.round, order.client])
        self.seed = int(words.generate_state(1)[0])
        torch.manual_seed(self.seed)

    def from_numpy(self, vector: Vector) -> Any:
        return torch.from_numpy(np.array(vector, np.float32)).to(self.device)

    def to_numpy(self, vector: Any) -> Vector:
        return np.array(vector.detach().cpu().numpy(), np.float32)

    def buffers(self) -> Buffers:
        """numpy has no bfloat16: such a buffer travels as float32."""
        held = {name: buffer.detach().cpu() for name, buffer in self._buffers()}
        return {
            name: np.array((part.float() if part.dtype == torch.bfloat16 else part).numpy())
            for name, part in held.items()
        }

    def tensors(self) -> tuple[TensorSpec, ...]:
        """Names and shapes of the trained parameters as a state_dict has them, tied ones under each name."""
        first: dict[int, str] = {}
        own, tied = [], []
        for name, part in self.module.named_parameters(remove_duplicate=False):
            if part.requires_grad and first.setdefault(id(part), name) == name:
                own.append(TensorSpec(name, tuple(part.shape)))
            elif part.requires_grad:
                tied.append(TensorSpec(name, tuple(part.shape), first[id(part)]))
        return (*own, *tied)

    def load_parameters(self, x: Any) -> None:
        """Into the module; parameters keep their own precision."""
        sizes = [part.numel() for part in self.trained]
        with torch.no_grad():
            for part, numbers in zip(self.trained, x.split(sizes), strict=True):
                part.copy_(numbers.view_as(part))

    def _buffers(self) -> list[tuple[str, Any]]:
        """Those that a state_dict has: the others are worked out anew by whoever makes the module."""
        lasting = self.module.state_dict().keys()
        return [(name, part) for name, part in self.module.named_buffers() if name in lasting]

    def loss_and_gradient(self, x: Any, step: int, loss: Callable[[], Any]) -> tuple[float, Any]:
        """Loss and gradient at x; dropout draws the same mask whenever `step` is the same."""
        self.load_parameters(x)
        self.module.train()
        with torch.random.fork_rng():
            torch.manual_seed(self.seed + step)
            value = loss()
            grads = torch.autograd.grad(value, self.trained, allow_unused=True)
        pairs = zip(grads, self.trained, strict=True)
        whole = [torch.zeros_like(part) if grad is None else grad for grad, part in pairs]
        return float(value.detach()), flat(whole)

    def with_buffers_restored(self, look: Callable[[], Result]) -> Result:
        """What `look` finds, the buffers as they were."""
        kept = [(buffer, buffer.clone()) for _, buffer in self.module.named_buffers()]
        result = look()
        with torch.no_grad():
            for buffer, before in kept:
                buffer.copy_(before)
        return result


def flat(parts: Any) -> Any:
    return torch.cat([part.detach().reshape(-1).float() for part in parts])


class LoopSetup(NamedTuple):
    """What torch_loop_client was given; see there."""

    model: Callable[[], Any]
    train: Callable[[Any, LocalTask], Any]
    rows: Callable[[Context], int]
    evaluate: Callable[[Any, Context], Mapping[str, float]] | None
    probe_loss: Callable[[Any, Context], Any] | None
    device: str


class LoopTrainer(TorchModule):
    """Takes its steps by the user's function."""

    own_optimizer = True

    def __init__(self, loop: LoopSetup, context: Context):
        super().__init__(loop.model, loop.device)
        self.loop, self.context = loop, context
        self.rows = int(loop.rows(context))
        self.metrics: dict[str, float] = {}

    def probe(self, x: Any, step: int) -> tuple[float, Any] | None:
        ask = self.loop.probe_loss
        if ask is None:
            return None
        return self.with_buffers_restored(
            lambda: self.loss_and_gradient(x, step, lambda: ask(self.module, self.context))
        )

    def take_steps(self, x: Any, task: LocalTask) -> tuple[Any, float | None]:
        self.load_parameters(x)
        begun, started = flat(self.trained), time.monotonic()
        self.module.train()
        answer = self.loop.train(self.module, task)
        fields = dict(answer) if isinstance(answer, Mapping) else {"steps": answer}
        steps = _steps(fields.pop("steps", None), task)
        moved = fields.pop("plain_steps", None)
        self.metrics = {str(name): float(value) for name, value in fields.items()}
        if not task.timed:
            task.took(steps, time.monotonic() - started)
        task.done = steps
        return x + (flat(self.trained) - begun), None if moved is None else float(moved)

    def training_metrics(self) -> dict[str, float]:
        return self.metrics

    def evaluate(self, x: Any) -> dict[str, float] | None:
        if self.loop.evaluate is None:
            return None
        self.load_parameters(x)
        self.module.eval()
        return {str(name): float(v) for name, v in self.loop.evaluate(self.module, self.context).items()}


def _steps(answer: Any, task: LocalTask) -> int:
    """Of a function that returns nothing, the turns of its `for step in task`."""
    steps = task.done if answer is None else answer
    if isinstance(steps, bool) or int(steps) != steps or steps < 1:
        raise UserError(
            f"The training function says it took {answer!r} steps; return how many there were, at least 1, "
            "or loop with `for step in task` and return nothing."
        )
    if steps > task.steps:
        raise UserError(
            f"The training function took {steps} steps, and {task.steps} were asked for: stop at task.steps."
        )
    return int(steps)
