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
    from amsfl.flower.client.local_round import Trainer
    from amsfl.flower.client.step_loop import LocalTask

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
    """A ClientApp from a module and a loader.

    Parameters that want gradients are trained, by the method's own SGD step or by an optimizer of yours.
    Float buffers (BatchNorm's running statistics) are averaged by weight, of integer ones the middle client's
    are taken; frozen parameters stay as `model()` makes them.

    A batch is (inputs, ..., targets); or a dictionary with `labels`, for a module that returns its own
    `loss`; or anything, for `batch_loss`. `schedule`, `clip`, `keep_optimizer` and float16 go with an
    `optimizer`.

    Args:
        model: `model()` makes the nn.Module.
        loader: `loader(context)` returns this site's batches, which are iterated again and again.
        test_loader: `test_loader(context)` returns the batches to score by.
        loss: `loss(outputs, targets)`, the mean over rows; cross-entropy if left out.
        device: Torch's.
        own: Methods and transmissions of your own; the server's order names which to use.
        batch_loss: `batch_loss(module, batch)`, the mean loss of a batch's rows, in place of `loss`.
        optimizer: `optimizer(params, lr)`, one of torch's or your own, takes the steps; methods that must
            step by their own rule then refuse.
        schedule: `schedule(optimizer)`, stepped after each step.
        clip: Bounds the gradients' norm.
        precision: "bfloat16" or "float16": autocast, and a scaler of the loss.
        keep_optimizer: Keeps the optimizer's state between rounds, which otherwise begin afresh.
        metrics: `metrics(module, batch)` returns numbers of your own on the test rows.
        on_step: `on_step(step, loss, module)` is called after each step; what it returns goes on record, too.
        rows: How many rows there are, or `rows(context)`; needed for an iterable data set.

    Returns:
        The app that a pyproject.toml names as `clientapp`.
    """
    _functions(model=model, loader=loader, test_loader=test_loader, optimizer=optimizer, schedule=schedule)
    _check(optimizer, precision, {"schedule": schedule, "clip": clip, "keep_optimizer": keep_optimizer})

    def make(context: Context) -> "Trainer":
        _has_torch()
        from amsfl.flower.client.torch_optimizer import TorchOptimizerTrainer
        from amsfl.flower.client.torch_trainer import TorchSetup, TorchTrainer

        losses, ways = (loss, batch_loss, metrics, on_step), (optimizer, schedule, clip, keep_optimizer)
        site = TorchSetup(model, loader, test_loader, *losses, rows, precision, device, *ways)
        return (TorchOptimizerTrainer if optimizer else TorchTrainer)(site, context)

    return client_app(make, own)


def torch_loop_client(
    model: Callable[[], Any],
    train: Callable[[Any, "LocalTask"], Any],
    rows: Callable[[Context], int],
    evaluate: Callable[[Any, Context], Mapping[str, float]] | None = None,
    probe_loss: Callable[[Any, Context], Any] | None = None,
    device: str = "cpu",
    own: Own = (),
) -> ClientApp:
    """A ClientApp around a training loop of your own.

    `for step in task` ends by itself when the steps are done or their time is over.

    Args:
        model: `model()` makes the nn.Module.
        train: `train(module, task)` takes `task.steps` steps; `task` has lr, round, seed and the node's
            config as `node`. It returns how many steps there were (fewer are well), or a dictionary of
            `steps`, `plain_steps` (how many plain steps they amount to, if not as many) and numbers of
            your own; nothing where it iterates over `task`.
        rows: `rows(context)` says how much the client counts.
        evaluate: `evaluate(module, context)` returns loss, rows and scores on test rows.
        probe_loss: `probe_loss(module, context)`, the loss of one batch, always the same within a round,
            gives AMSFL its readings; without it, it plans by seconds alone.
        device: Torch's.
        own: Methods and transmissions of your own; the server's order names which to use.

    Returns:
        The app that a pyproject.toml names as `clientapp`.
    """
    _functions(model=model, train=train, rows=rows, evaluate=evaluate, probe_loss=probe_loss)

    def make(context: Context) -> "Trainer":
        _has_torch()
        from amsfl.flower.client.torch_module import LoopSetup, LoopTrainer

        return LoopTrainer(LoopSetup(model, train, rows, evaluate, probe_loss, device), context)

    return client_app(make, own)


LIKE = {
    "model": "lambda: Net()",
    "loader": "lambda context: DataLoader(...)",
    "test_loader": "lambda context: DataLoader(...)",
    "optimizer": "lambda params, lr: torch.optim.SGD(params, lr)",
    "schedule": "lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 100)",
    "rows": "lambda context: 1000",
}  # the others take a module first


def _functions(**chosen: Any) -> None:
    """Things in place of functions that make them: every site makes its own. (Modules can be called, too.)"""
    for name, thing in chosen.items():
        made = hasattr(thing, "state_dict") and not isinstance(thing, type)
        if thing is not None and (made or not callable(thing)):
            like = LIKE.get(name, "lambda module, ...: ...")
            raise UserError(f"{name} is a {type(thing).__name__}; give a function: {name}={like}.")


def _check(optimizer: Any, precision: str | None, with_it: dict[str, Any]) -> None:
    """Combinations that mean nothing, said when the app is made and not in its first round."""
    if precision not in PRECISIONS:
        raise UserError(f"precision is {precision!r}; it may be 'bfloat16' or 'float16', or left out.")
    if optimizer is not None:
        return
    chosen = [name for name, value in with_it.items() if value not in (None, False)]
    chosen += ["precision='float16'"] if precision == "float16" else []
    if chosen:
        raise UserError(
            f"{chosen[0]} goes with an optimizer of your own, since without one the method steps: give "
            "optimizer=lambda params, lr: torch.optim.SGD(params, lr), or leave it out."
        )


def _has_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        raise UserError("torch_client needs PyTorch: pip install 'amsfl[flower,torch]'.") from None
