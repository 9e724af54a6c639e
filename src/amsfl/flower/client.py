"""A site's side of an order, from the message to the reply: what is asked, whether the site's policy allows
it, its steps, and what leaves.

What trains is a Trainer (trainer.py); torch_trainer.py and jax_trainer.py have one each. Any other ClientApp
holds to a site's policy by `ClientApp(mods=[site_policy_mod])`.
"""

import math
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from amsfl.core import RowPrivacy, UserError
from amsfl.flower import site_policy
from amsfl.flower.arrays import flat
from amsfl.flower.trainer import LocalTask, Order, Trainer
from amsfl.privacy import RECORD_LEVEL

LONGEST_TEXT = 300
FIELDS: Order = {  # of an order, and what they are where it does not say
    "local-steps": 0,
    "lr": 0.0,
    "server-round": 1,
    "batch-size": 32,
    "seed": 0,
    "held-back": 0.0,
    "repeat": 0,  # of the same order, where nodes do not wait for each other
    "proximal-mu": 0.0,
    "run": "",
    "privacy": "",
    "clip": 0.0,
    "noise": 0.0,
    "epsilon": 0.0,
    "delta": 0.0,
    "privacy-steps": 0,  # that the run will ask of a client
    "privacy-begun": False,  # whether the server has taken some of them
}
WORDS = {float: "a finite number", int: "a whole number", str: "a short text", bool: "true or false"}


def client_app(make: Callable[[Context], Trainer]) -> ClientApp:
    """A ClientApp around a Trainer.

    Args:
        make: `make(context)` returns the Trainer; Flower asks for one a message.

    Returns:
        The app that a pyproject.toml names as `clientapp`.
    """
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        def answer(arrays: ArrayRecord, task: LocalTask) -> Message:
            try:
                return Message(work(arrays, task, context, make(context)), reply_to=message)
            except Exception as error:
                if isinstance(error, UserError) or not task.private:
                    raise
                traceback.print_exc()  # here, and not to the server: it may be of rows
                why = "This site's work failed; why may tell of its rows, and is in its own log."
                raise UserError(why) from None

        return obey(message, context, answer)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        def answer() -> Message:
            site_policy.SiteLedger(context).check_open()
            trainer = make(context)
            trainer.load(*received(message, context))
            if (scores := trainer.evaluate()) is None:
                raise UserError("This client has no test rows to score by.")
            return Message(RecordDict({"metrics": MetricRecord(dict(scores))}), reply_to=message)

        return obey(message, context, answer)

    return app


def site_policy_mod(
    message: Message, context: Context, call_next: Callable[[Message, Context], Message]
) -> Message:
    """A Flower mod that holds any ClientApp to the site's policy: `ClientApp(mods=[site_policy_mod])`.

    Args:
        message: As it came.
        context: Of the node.
        call_next: The app.

    Returns:
        The app's reply.
    """
    return obey(message, context, lambda *order: call_next(message, context), private=False)


def obey(message: Message, context: Context, answer: Callable[..., Message], private: bool = True) -> Message:
    """What all that a site does goes through: its policy, before it `answer`s and after, and its log.

    `answer(arrays, task)` of an order to train; `answer()` of others. `private`: whether it can keep rows so.
    """
    what = message.metadata.message_type
    with site_policy.logged(context, what) as entry:
        policy = site_policy.policy_of(context)
        if policy.private and not private:  # whatever the order says
            raise UserError(site_policy.PRIVATE)
        if what == MessageType.TRAIN:
            arrays, task = received(message, context)
            entry["order"] = task.order
            policy.check(task.order, arrays, task.correction)
            task.seconds = policy.most_seconds
            reply = answer(arrays, task)
        elif policy.private or not policy.scores:
            raise UserError("This site keeps its rows private: scores of them do not leave.")
        else:
            reply = answer()
        policy.check_size(reply)
        if reply.has_content():
            entry["sent"] = {name: dict(each) for name, each in reply.content.metric_records.items()}
        return reply


def received(message: Message, context: Context) -> tuple[ArrayRecord, LocalTask]:
    """An order's arrays, and what is asked."""
    records, configs = message.content.array_records, message.content.config_records
    if len(records) != 1 or len(configs) != 1:
        raise UserError("An order has one ArrayRecord and one ConfigRecord.")
    arrays, config = next(iter(records.values())), next(iter(configs.values()))
    order = FIELDS | {key: checked(key, config[key]) for key in FIELDS if key in config}
    if message.metadata.message_type == MessageType.TRAIN and not (order["local-steps"] and order["lr"]):
        raise UserError("The server's config has no local-steps or no lr: train with amsfl.flower.AMSFL.")
    if order["privacy"] not in ("", RECORD_LEVEL.name):
        raise UserError(f"The privacy mechanism {order['privacy']!r} has no part at clients.")
    return arrays, LocalTask(order, correction(config, arrays), context)


def checked(key: str, value: Any) -> Any:
    """A field of the server's, of its kind to the letter: a 5 in place of "5" would be taken for something
    else."""
    kind = type(FIELDS[key])
    if kind is float and type(value) is not bool and isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    if type(value) is kind and kind is not float and (kind is not str or len(value) <= LONGEST_TEXT):
        return value
    raise UserError(f"The server's {key!r} should be {WORDS[kind]}, and is {str(value)[:60]!r}.")


def correction(config: ConfigRecord, arrays: ArrayRecord) -> Any:
    """What is added to every gradient, as one vector; None where nothing is."""
    sent = config.get("correction", b"")
    if not isinstance(sent, bytes) or (sent and len(sent) != 4 * flat(arrays).size):
        raise UserError("The server's 'correction' should be the bytes of a float32 for each of the model's.")
    return np.frombuffer(sent, "<f4") if sent else None


def work(arrays: ArrayRecord, task: LocalTask, context: Context, trainer: Trainer) -> RecordDict:
    """A client's round. All that can be wrong with an order is found before any of its epsilon is spent."""
    started, ledger = time.perf_counter(), site_policy.SiteLedger(context)
    if not task.private:
        ledger.check_open()
    trainer.load(arrays, task)
    if task.private:
        said = private_work(trainer, task, ledger, started)
    else:
        held = trainer.held_back(task) if task.held_share else None
        said = {} if held is None else {"held-loss": held[0], "output-spread": held[1]}
        said |= dict(trainer.train(task)) | {"train-seconds": max(sum(task.timed), 1e-9)}
    if not task.done:
        raise UserError("There was no batch to step by: this client's rows are at their end, or it has none.")
    said |= {"num-examples": trainer.rows, "local-steps": task.done}
    return RecordDict({"arrays": trainer.arrays(), "metrics": MetricRecord(said)})


def private_work(
    trainer: Trainer, task: LocalTask, ledger: site_policy.SiteLedger, started: float
) -> dict[str, float]:
    """Private steps, which tell nothing else: no reading, no loss, and seconds that are rounded."""
    trainer.check_rows()
    private, anchor = RowPrivacy(task.order["clip"]), trainer.x
    task.steps, noise = ledger.spend(task.order, trainer.rows)
    for _ in task:
        grad = site_policy.gradient(trainer, private, noise, task.batch, trainer.x)
        trainer.x = task.step(trainer.x, anchor, grad)
    spent = ledger.give_back(task.order["run"], task.steps - task.done)
    step = site_policy.coarse(sum(task.timed) / task.done)
    whole = site_policy.coarse(time.perf_counter() - started)
    time.sleep(max(started + whole - time.perf_counter(), 0))  # the server has a clock, too
    return {"train-seconds": step * task.done, "epsilon": spent}
