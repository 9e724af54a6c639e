"""How many plain steps an optimizer's steps amount to, whatever it does with a gradient.

Into each group of the optimizer goes one more parameter, at 0, whose gradient is always 1; what a step moves
it by, over the learning rate, is what that step counts. For SGD that is 1, with momentum rho the sum 1 + rho
+ ... that FedNova's ||a||_1 is made of, for Adam about 1, and a schedule scales it. It is put back to 0 after
every step, so that weight decay has no part in it, and stays where it is when an optimizer leaves a step out.
"""

from typing import Any

import torch


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

    def __bool__(self) -> bool:
        return bool(self.marks)

    def before(self) -> None:
        for mark, _ in self.marks:
            mark.grad = torch.ones_like(mark)

    def after(self) -> None:
        with torch.no_grad():
            for mark, share in self.marks:
                self.plain_steps -= share * float(mark.double().mean()) / self.lr
                mark.zero_()
