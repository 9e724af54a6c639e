"""PyTorch clients: a module and a loader, with an optimizer of your own or without, or a whole training loop.

torch itself is imported when a client is made, not here.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from flwr.app import Context
from flwr.clientapp import ClientApp

from amsfl.core import UserError
from amsfl.flower.client.app import Own, client_app

if TYPE_CHECKING:
    from amsfl.flower.client.task import Task
    from amsfl.flower.client.work import Trainer

Loss = Callable[[Any, Any], Any]
PRECISIONS = (None, "bfloat16", "float16")


def torch_client(
    model: Callable[[], Any],
    loader: Callable[[Context], Any],
    test_loader: Callable[[Context], Any] | None = None,
    loss: Loss | None = None,
    device: str = "cpu",
    own: Own = (),
    batch_loss: Loss | None = None,
    optimizer: Callable[[Any, float], Any] | None = None,
    schedule: Callable[[Any], Any] | None = None,
    clip: float | None = None,
    precision: str | None = None,
    keep_optimizer: bool = False,
    metrics: Callable[[Any, Any], Mapping[str, float]] | None = None,
    on_step: Callable[[int, float, Any], Mapping[str, float] | None] | None = None,
    rows: int | Callable[[Context], int] | None = None,
) -> ClientApp:
    """A ClientApp from `model() -> nn.Module` and `loader(context)`, which is iterated again and again.

    Parameters that want gradients are trained, by the method's own SGD step, or by `optimizer(params, lr)`,
    one of torch's or your own; methods that must step by their own rule then refuse. Float buffers
    (BatchNorm's running statistics) are averaged by weight, integer ones take the largest value; frozen
    parameters stay as `model()` makes them.

    A batch is (inputs, ..., targets), for `loss(outputs, targets)`, cross-entropy by default; or a dictionary
    with `labels`, for a module that returns its own `loss`; or anything, for `batch_loss(module, batch)`, the
    mean loss of its rows. `metrics(module, batch)` are numbers of your own on the test rows, and so are those
    that `on_step(step, loss, module)` returns, if any. An iterable data set needs `rows`, how many it has.

    With an optimizer: `schedule(optimizer)` is stepped after each step; `clip` bounds the gradients' norm;
    `precision` is "bfloat16" or "float16" (autocast, and a scaler of the loss); `keep_optimizer` keeps its
    state between rounds, which otherwise begin afresh. `test_loader(context)` has the rows to score on,
    `device` is torch's; `own`: methods and transmissions of your own.
    """
    _check(optimizer, precision, {"schedule": schedule, "clip": clip, "keep_optimizer": keep_optimizer})

    def make(context: Context) -> "Trainer":
        _has_torch()
        from amsfl.flower.client.torch_trainer import Drive, DrivenTrainer, Site, TorchTrainer

        site = Site(model, loader, test_loader, loss, batch_loss, metrics, on_step, rows, precision, device)
        if optimizer is None:
            return TorchTrainer(site, context)
        return DrivenTrainer(site, Drive(optimizer, schedule, clip, keep_optimizer), context)

    return client_app(make, own)


def torch_loop_client(
    model: Callable[[], Any],
    train: Callable[[Any, "Task"], Any],
    rows: Callable[[Context], int],
    evaluate: Callable[[Any, Context], Mapping[str, float]] | None = None,
    probe_loss: Callable[[Any, Context], Any] | None = None,
    device: str = "cpu",
    own: Own = (),
) -> ClientApp:
    """A ClientApp around a training loop of your own: `train(module, task)` takes task.steps steps.

    `for step in task` ends by itself when the steps are done or their time is over. Without it, return how
    many steps there were (fewer are well), or a dictionary of `steps`, `moved` (how many plain steps they
    amount to, where they differ in length) and numbers of your own. `task` has lr, round, seed and the node's
    config as `node`; `rows(context)` says how much the client counts; `evaluate(module, context)` returns
    loss, rows and scores on test rows. `probe_loss(module, context)`, the loss of one batch, always the
    same within a round, gives AMSFL its readings; without it, it plans by seconds alone. `model()` makes the
    module, `device` is torch's; `own`: methods and transmissions of your own.
    """

    def make(context: Context) -> "Trainer":
        _has_torch()
        from amsfl.flower.client.torch_loop import Loop, LoopTrainer

        return LoopTrainer(Loop(model, train, rows, evaluate, probe_loss, device), context)

    return client_app(make, own)


def _check(optimizer: Any, precision: str | None, with_it: dict[str, Any]) -> None:
    """Combinations that mean nothing, said when the app is made and not in its first round."""
    if precision not in PRECISIONS:
        raise UserError(f"precision is {precision!r}; it may be 'bfloat16' or 'float16', or left out.")
    if optimizer is not None:
        return
    given = [name for name, value in with_it.items() if value not in (None, False)]
    given += ["precision='float16'"] if precision == "float16" else []
    if given:
        raise UserError(
            f"{given[0]} goes with an optimizer of your own, since without one the method steps: give "
            "optimizer=lambda params, lr: torch.optim.SGD(params, lr), or leave it out."
        )


def _has_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        raise UserError("torch_client needs PyTorch: pip install 'amsfl[flower,torch]'.") from None
