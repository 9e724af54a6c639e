"""A user's module as a flat vector and its buffers: what all torch clients have in common."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch

from amsfl.core import UserError
from amsfl.flower.messages import Buffers, GlobalModel, Order, TensorSpec, Vector
from amsfl.methods import Method

Result = TypeVar("Result")


class TorchModule:
    """The part of a Trainer (work.py) that needs no rows. Flat vectors are float32, parameters anything."""

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
        if method.arithmetic.objective is not None:
            raise UserError(f"Method {method.name!r} changes the loss itself; only jax_client can run it.")
        with torch.no_grad():
            for name, buffer in self._buffers():
                if name in model.buffers:
                    buffer.copy_(torch.from_numpy(model.buffers[name].copy()))
        # the loader's shuffle and dropout follow from (seed, round, client) alone
        words = np.random.SeedSequence([order.seed, order.round, order.client]).generate_state(1)
        self.seed = int(words[0])
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
        every = [
            pair for pair in self.module.named_parameters(remove_duplicate=False) if pair[1].requires_grad
        ]
        first: dict[int, str] = {}
        for name, part in every:
            first.setdefault(id(part), name)
        own = [TensorSpec(first[id(part)], tuple(part.shape)) for part in self.trained]
        tied = [(name, part) for name, part in every if first[id(part)] != name]
        return (*own, *(TensorSpec(name, tuple(part.shape), first[id(part)]) for name, part in tied))

    def load_parameters(self, x: Any) -> None:
        """Into the module; parameters keep their own precision."""
        place = 0
        with torch.no_grad():
            for part in self.trained:
                part.copy_(x[place : place + part.numel()].view_as(part))
                place += part.numel()

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
