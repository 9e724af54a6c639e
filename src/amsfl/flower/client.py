"""A site's side of an order, from the message to the reply: what is asked, whether the site's policy allows
it, its steps, and what leaves.

    for step in task:  # 0, 1, ...: as many as were asked for, fewer where the site's policy stops them
        ...

Every turn of the loop is timed, and slowed where the client is to be slow. What trains is a Trainer
(trainer.py); torch_trainer.py and jax_trainer.py have one each. Any other ClientApp holds to a site's policy
by `ClientApp(mods=[site_policy_mod])`.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from amsfl import sampling
from amsfl.core import RowPrivacy, UserError
from amsfl.flower import site_policy
from amsfl.flower.arrays import Part, flat
from amsfl.flower.trainer import Trainer
from amsfl.privacy import RECORD_LEVEL, Terms

LONGEST_TEXT = 300
FIELDS: dict[str, Any] = {  # of an order, and what they are where it does not say
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
Plain = int | float | str
WORDS = {float: "a finite number", int: "a whole number", str: "a short text", bool: "true or false"}


class LocalTask:
    """What is asked of a client this round, and what came of it.

    `steps`, `lr`, `round` (from 0), `batch` and `seed` are the server's, `node` is Flower's node-config.
    """

    def __init__(self, config: ConfigRecord, context: Context, kind: str = MessageType.TRAIN):
        given = FIELDS | {key: checked(key, config[key]) for key in FIELDS if key in config}
        if kind == MessageType.TRAIN and not (given["local-steps"] and given["lr"]):
            raise UserError("The server's config has no local-steps or no lr: train with amsfl.flower.AMSFL.")
        self.steps, self.lr, self.mu = given["local-steps"], given["lr"], given["proximal-mu"]
        self.round, self.repeat = given["server-round"] - 1, given["repeat"]
        self.seed, self.run, self.batch = given["seed"], given["run"], given["batch-size"]
        self.held_share, self.private_steps = given["held-back"], given["privacy-steps"]
        if given["privacy"] not in ("", RECORD_LEVEL.name):
            raise UserError(f"The privacy mechanism {given['privacy']!r} has no part at clients.")
        own = [given[name] for name in ("privacy", "clip", "noise", "epsilon", "delta")]
        self.terms, self.begun = Terms(*own) if own[0] else None, given["privacy-begun"]
        vector = config.get("correction", b"")
        if not isinstance(vector, bytes) or len(vector) % 4:
            raise UserError("The server's 'correction' should be the bytes of float32 numbers.")
        self.correction: Part | None = np.frombuffer(vector, "<f4") if vector else None
        self.node: Mapping[str, Any] = dict(context.node_config)
        self.client = int(self.node.get("partition-id", context.node_id % 2**31))
        (self.slowdown, self.least), self.seconds = pace_of(context), math.inf
        self.timed: list[float] = []
        self.done = 0

    def step(self, y: Part, anchor: Part, grad: Part) -> Part:
        """y - lr (g + mu (y - a) + correction)."""
        way = grad + self.mu * (y - anchor) if self.mu else grad
        way = way if self.correction is None else way + self.correction
        return np.asarray(y - np.float32(self.lr) * way, np.float32)

    def __iter__(self) -> Iterator[int]:
        while self.done < self.steps and sum(self.timed) + float(np.mean(self.timed or 0)) <= self.seconds:
            started = time.perf_counter()
            yield self.done
            took = time.perf_counter() - started
            time.sleep(max(self.slowdown * max(took, self.least) - took, 0.0))
            self.timed.append(time.perf_counter() - started)
            self.done += 1

    def check_loss(self, loss: float) -> None:
        """A UserError where it is none: a step by it would lose the model."""
        if not math.isfinite(loss):
            how = "lower the learning rate, clip the gradients, or look for rows that are not finite"
            raise UserError(f"The loss was {loss} in step {self.done}; {how}.")

    @property
    def key(self) -> Any:
        """Of the minibatches' row numbers: of (seed, round, client) alone, so that a round run again is the
        same."""
        with np.errstate(over="ignore"):  # 32-bit words wrap around on purpose
            return sampling.stream(*map(sampling.words, (self.seed, self.draw, self.client)))

    @property
    def draw(self) -> int:
        """The round, or a number that no round has, where it is asked for once more."""
        return self.round + (self.repeat << 20)


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
            with site_policy.silent(task.terms is not None, UserError):
                return Message(work(arrays, task, context, make(context)), reply_to=message)

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
            entry["task"] = {key: part for key, part in vars(task).items() if isinstance(part, Plain)}
            policy.check(task, arrays)
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
    task = LocalTask(config, context, message.metadata.message_type)
    if task.correction is not None and task.correction.size != flat(arrays).size:
        raise UserError(f"The correction has {task.correction.size} numbers, and the model has others.")
    return arrays, task


def checked(key: str, value: Any) -> Any:
    """A field of the server's, of its kind to the letter: a 5 in place of "5" would be taken for something
    else."""
    kind = type(FIELDS[key])
    if kind is float and type(value) is not bool and isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    if type(value) is kind and kind is not float and (kind is not str or len(value) <= LONGEST_TEXT):
        return value
    raise UserError(f"The server's {key!r} should be {WORDS[kind]}, and is {str(value)[:60]!r}.")


def pace_of(context: Context) -> tuple[float, float]:
    """A handicap, to make equal machines unequal: every step lasts `slowdown` times as long as it took, and
    at least that many times `step-seconds`.

    Both are of the node-config, or of the run-config, where `slowdowns` has one for each partition ("1,2,4").
    """
    node, run = context.node_config, context.run_config
    each = [float(part) for part in str(run.get("slowdowns", "")).split(",") if part] or [1.0]
    slowdown: Any = node.get("slowdown", each[int(node.get("partition-id", 0)) % len(each)])
    least: Any = node.get("step-seconds", run.get("step-seconds", 0.0))
    return float(slowdown), float(least)


def work(arrays: ArrayRecord, task: LocalTask, context: Context, trainer: Trainer) -> RecordDict:
    """A client's round. All that can be wrong with an order is found before any of its epsilon is spent."""
    started, ledger = time.perf_counter(), site_policy.SiteLedger(context)
    if task.terms is None:
        ledger.check_open()
    trainer.load(arrays, task)
    if task.terms is not None:
        said = private_work(trainer, task, task.terms, ledger, started)
    else:
        held = trainer.held_back(task) if task.held_share else None
        said = {} if held is None else {"held-loss": held[0], "output-spread": held[1]}
        said |= dict(trainer.train(task)) | {"train-seconds": max(sum(task.timed), 1e-9)}
    if not task.done:
        raise UserError("There was no batch to step by: this client's rows are at their end, or it has none.")
    said |= {"num-examples": trainer.rows, "local-steps": task.done}
    return RecordDict({"arrays": trainer.arrays(), "metrics": MetricRecord(said)})


def private_work(
    trainer: Any, task: LocalTask, terms: Terms, ledger: site_policy.SiteLedger, started: float
) -> dict[str, float]:
    """Private steps, which tell nothing else: no reading, no loss, and seconds that are rounded."""
    site_policy.check(trainer)
    private, anchor = RowPrivacy(terms.clip), trainer.x
    task.steps, noise = ledger.spend(task, terms, trainer.rows)
    for _ in task:
        grad = site_policy.gradient(trainer, private, noise, task.batch, trainer.x)
        trainer.x = task.step(trainer.x, anchor, grad)
    spent = ledger.give_back(task.run, task.steps - task.done)
    step = site_policy.coarse(sum(task.timed) / task.done)
    whole = site_policy.coarse(time.perf_counter() - started)
    time.sleep(max(started + whole - time.perf_counter(), 0))  # the server has a clock, too
    return {"train-seconds": step * task.done, "epsilon": spent}
