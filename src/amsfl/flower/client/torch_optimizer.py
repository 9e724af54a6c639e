"""Steps of an optimizer of the user's own, and how many plain steps they amount to.

Into each group of the optimizer goes one more parameter, at 0, whose gradient is always 1; what a step moves
it by, over the learning rate, is what that step counts. For SGD that is 1, with momentum rho the sum 1 + rho
+ ... that FedNova's ||a||_1 is made of, for Adam about 1, and a schedule scales it. It is put back to 0 after
every step, so that weight decay has no part in it, and stays where it is when an optimizer leaves a step out.

What an optimizer, a schedule and a gradient scaler remember is one vector of float32, as a client's state is,
without pickle: tensors become a safetensors file, the rest JSON in its header, its bytes four to a number.
"""

import json
from inspect import signature
from math import inf, isfinite
from typing import Any

import numpy as np
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save

from amsfl.core import UserError
from amsfl.flower.client.step_loop import LocalTask, NoMoreData
from amsfl.flower.client.torch_module import flat
from amsfl.flower.client.torch_trainer import NOTHING, TorchTrainer
from amsfl.flower.messages import Vector


class TrainedParameters(list[Any]):
    """The parameters that are trained; `module` and `task` for whoever makes groups or goes by rounds."""

    def __init__(self, parts: list[Any], module: Any, task: LocalTask):
        super().__init__(parts)
        self.module, self.task = module, task


class TorchOptimizerTrainer(TorchTrainer):
    """The user's optimizer moves the module itself."""

    own_optimizer = True
    before = after = np.zeros(0, np.float32)  # what it remembers of the rounds so far, and after this one

    def load_state(self, state: Vector) -> None:
        self.before = state

    def saved_state(self) -> Vector | None:
        return self.after if self.site.keep_optimizer else None

    def take_steps(self, x: Any, task: LocalTask) -> tuple[Any, float | None]:
        self.load_parameters(x)
        begun = flat(self.trained)  # as its own precision holds it
        assert self.site.optimizer is not None
        optimizer = self.site.optimizer(TrainedParameters(self.trained, self.module, task), task.lr)
        _check_closure(optimizer)
        count = PlainStepCounter(optimizer, task.lr)
        schedule = self.site.schedule(optimizer) if self.site.schedule else None
        scaler = torch.amp.GradScaler(self.device.type, enabled=self.site.precision == "float16")
        if self.site.keep_optimizer and self.before.size:
            restore_state(self.before, optimizer, schedule, scaler)
        for step in task:
            try:
                batch = self._draw()
            except NoMoreData:
                break
            self.first = batch if self.first is NOTHING else self.first
            self.module.train()
            optimizer.zero_grad(set_to_none=True)
            loss = self.loss_of(batch)
            value = float(loss.detach())
            if not isfinite(value):
                task.leave_out(value)
                continue
            scaler.scale(loss).backward()
            if not self._moves(optimizer, scaler, count):
                task.leave_out(inf)  # float16 overflowed; the next try is with a smaller scale
                continue
            if schedule is not None:
                schedule.step()
            self.stepped(step, value)
        if self.site.keep_optimizer:
            self.after = dump_state(optimizer, schedule, scaler)
        return x + (flat(self.trained) - begun), count.plain_steps if count.marks else None

    def _moves(self, optimizer: Any, scaler: Any, count: "PlainStepCounter") -> bool:
        """One step along the gradients that are there; False where the scaler left it out."""
        scale = scaler.get_scale()
        scaler.unscale_(optimizer)
        if self.site.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.trained, self.site.clip)
        count.before()
        scaler.step(optimizer)
        scaler.update()
        count.after()
        return bool(scaler.get_scale() >= scale)


def _check_closure(optimizer: Any) -> None:
    """LBFGS and its like ask for the loss several times a step."""
    asked = signature(optimizer.step).parameters.get("closure")
    if asked is not None and asked.default is asked.empty:
        raise UserError(
            f"{type(optimizer).__name__} takes its steps by a closure: use torch_loop_client, whose training "
            "function calls it as it likes, or another optimizer."
        )


class PlainStepCounter:
    def __init__(self, optimizer: Any, lr: float):
        self.lr, self.plain_steps = lr, 0.0
        self.marks: list[tuple[Any, float]] = []
        groups = getattr(optimizer, "param_groups", [])
        sizes = [sum(part.numel() for part in group["params"]) for group in groups]
        for group, size in zip(groups, sizes, strict=True):
            if not size:
                continue
            # of the shape of one that is there: some optimizers take matrices alone
            like = min(group["params"], key=lambda part: int(part.numel()))
            mark = torch.nn.Parameter(torch.zeros_like(like))
            group["params"].append(mark)
            if "param_names" in group:
                group["param_names"].append("amsfl.pedometer")
            self.marks.append((mark, size / sum(sizes)))

    def before(self) -> None:
        for mark, _ in self.marks:
            mark.grad = torch.ones_like(mark)

    def after(self) -> None:
        with torch.no_grad():
            for mark, share in self.marks:
                self.plain_steps -= share * float(mark.double().mean()) / self.lr
                mark.zero_()


PLAIN = (bool, int, float, str, type(None))


def dump_state(*things: Any) -> Vector:
    """The state_dict of each, None for those that are not there."""
    tensors: dict[str, torch.Tensor] = {}
    tree = [_flat(thing.state_dict() if thing is not None else None, tensors) for thing in things]
    content = save(tensors or {"none": torch.zeros(0)}, {"tree": json.dumps(tree)})
    size = len(content).to_bytes(8, "little")
    padded = size + content + bytes(-len(content) % 4)
    return np.frombuffer(padded, np.float32)


def restore_state(state: Vector, *things: Any) -> None:
    """Into the same things, made anew."""
    content = np.ascontiguousarray(state, np.float32).tobytes()
    content = content[8 : 8 + int.from_bytes(content[:8], "little")]
    length = int.from_bytes(content[:8], "little")  # safetensors: a header of JSON after its length
    tree = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["tree"])
    tensors = load_tensors(content)
    for thing, part in zip(things, tree, strict=True):
        if thing is not None:
            thing.load_state_dict(_deep(part, tensors))


def _flat(part: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(part, torch.Tensor):
        name = str(len(tensors))
        tensors[name] = part.detach().cpu().contiguous().clone()
        return {"tensor": name}
    if isinstance(part, dict):
        return {"pairs": [[key, _flat(value, tensors)] for key, value in part.items()]}
    if isinstance(part, tuple):
        return {"tuple": [_flat(value, tensors) for value in part]}
    if isinstance(part, list):
        return [_flat(value, tensors) for value in part]
    if isinstance(part, PLAIN):
        return part
    raise UserError(
        f"This optimizer remembers a {type(part).__name__}, which cannot be kept between rounds; leave "
        "keep_optimizer out."
    )


def _deep(part: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(part, list):
        return [_deep(value, tensors) for value in part]
    if not isinstance(part, dict):
        return part
    if "tensor" in part:
        return tensors[part["tensor"]]
    if "tuple" in part:
        return tuple(_deep(value, tensors) for value in part["tuple"])
    return {key: _deep(value, tensors) for key, value in part["pairs"]}
