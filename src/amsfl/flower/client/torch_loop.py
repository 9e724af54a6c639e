"""A training loop of the user's own as a client: it is fields how many steps, and says how many it took."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flwr.app import Context

from amsfl.core import UserError
from amsfl.flower.client.local_round import OwnSteps
from amsfl.flower.client.step_loop import LocalTask
from amsfl.flower.client.torch_module import TorchModule, flat
from amsfl.flower.messages import Vector


class LoopSetup(NamedTuple):
    """What torch_loop_client was given; see there."""

    model: Callable[[], Any]
    train: Callable[[Any, LocalTask], Any]
    rows: Callable[[Context], int]
    evaluate: Callable[[Any, Context], Mapping[str, float]] | None
    probe_loss: Callable[[Any, Context], Any] | None
    device: str


class LoopTrainer(TorchModule):
    """A Driver (see work.Driver) around a function."""

    def __init__(self, loop: LoopSetup, context: Context):
        super().__init__(loop.model, loop.device)
        self.loop, self.context = loop, context
        self.rows = int(loop.rows(context))
        self.metrics: dict[str, float] = {}

    def gradient(self, x: Any, step: int) -> tuple[float, Any]:
        raise UserError("A training loop of its own gives no gradients; it takes its steps itself.")

    def probe(self, x: Any, step: int) -> tuple[float, Any] | None:
        ask = self.loop.probe_loss
        if ask is None:
            return None
        return self.with_buffers_restored(
            lambda: self.loss_and_gradient(x, step, lambda: ask(self.module, self.context))
        )

    def load_state(self, state: Vector) -> None:
        pass

    def saved_state(self) -> Vector | None:
        return None

    def take_steps(self, x: Any, task: LocalTask) -> OwnSteps:
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
        return OwnSteps(x + (flat(self.trained) - begun), None if moved is None else float(moved))

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
