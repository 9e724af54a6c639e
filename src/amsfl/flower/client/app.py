"""ClientApps: any Trainer on Flower's Message API."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from amsfl import methods, protocol, transmit
from amsfl.clock.profile import SPENDING
from amsfl.core import Kind, RowPrivacy, Transmit, UserError, parse_names
from amsfl.flower import messages
from amsfl.flower.client import client_state, local_round, private_steps
from amsfl.flower.client.local_round import Trainer
from amsfl.flower.client.privacy_ledger import SiteLedger
from amsfl.flower.client.site_policy import logged, site_name, site_policy
from amsfl.flower.client.step_loop import LocalTask, pace_of
from amsfl.methods import Method
from amsfl.privacy import protect_rows

SPENDS = {name: name.replace("_", "-") for name in SPENDING}  # as node-configs spell it
MakeTrainer = Callable[[Context], Trainer]
SPEED = "amsfl-speed"  # in Flower's context
LONG = 5.0  # seconds; after a first step of that length, in which some compile, there is no second
ASK = {"model": bool, "seed": int, "probe": bool, "batch": int, "privacy": str, "clip": float}  # a hello
T = TypeVar("T", Method, Transmit)
Own = Sequence[Method | Transmit]  # of the user's own, found by their names


def client_app(make: MakeTrainer, own: Own = ()) -> ClientApp:
    """A ClientApp around a Trainer.

    Args:
        make: `make(context)` returns a Trainer; Flower starts a process a message, so it runs for each.
        own: Methods, transmissions and privacy mechanisms of your own; the server's order names which to use.

    Returns:
        The app that a pyproject.toml names as `clientapp`.
    """
    app = ClientApp()

    @app.query()
    def hello(message: Message, context: Context) -> Message:
        with logged(context, "hello") as entry:
            messages.check_sizes(message.content)
            given = messages.scalars(message.content, "ask")
            ask = messages.typed(ASK, {key: value for key, value in given.items() if key in ASK})
            entry["ask"] = ask
            content = messages.pack_hello(introduce(ask, context, make, own))
            entry["sent"] = dict(messages.scalars(content, "hello"))
            return Message(content, reply_to=message)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        with logged(context, "train") as entry:
            order, model = received(message, entry)
            with private_steps.silent(order.terms is not None, UserError):
                content = messages.pack_reply(work(order, model, context, make, own))
            size = sum(part.nbytes for part in messages.arrays(content, "upload").values())
            site_policy(context).check_size(size)
            entry["sent"] = {"bytes": size, "report": dict(messages.scalars(content, "report"))}
            return Message(content, reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        with logged(context, "evaluate") as entry:
            order, model = received(message, entry)
            policy = site_policy(context)
            policy.check(order, model, context.run_id, train=False)
            if not policy.scores or policy.private or order.terms is not None:
                raise UserError("This site keeps its rows private: scores of them do not leave.")
            SiteLedger(context, policy).check_open(order.run)
            trainer = make(context)
            trainer.begin(order, model, method_of(order, own))
            scored = trainer.evaluate(trainer.from_numpy(model.anchor)) or {}
            entry["sent"] = sorted(scored)
            echo = ConfigRecord({"run": order.run, "round": order.round, "client": order.client})
            scores = MetricRecord({key: float(value) for key, value in scored.items()})
            return Message(RecordDict({"echo": echo, "scores": scores}), reply_to=message)

    return app


def received(message: Message, entry: dict[str, Any]) -> tuple[messages.Order, messages.GlobalModel]:
    """What a message orders; the line of the site's log has it, too."""
    order, model = messages.unpack_order(message.content)
    entry["order"] = order._asdict() | {"terms": order.terms._asdict() if order.terms else None}
    return order, model


def introduce(ask: Mapping[str, Any], context: Context, make: MakeTrainer, own: Own) -> messages.Hello:
    """Who this client is, and how long a step takes it."""
    policy, private, why = site_policy(context), None, ""
    policy.check_hello(context.run_id, ask.get("privacy", ""), ask.get("clip", 0.0))
    if ask.get("privacy"):
        check_rows(ask["privacy"])
        private = RowPrivacy(ask["clip"])
    ledger = SiteLedger(context, policy)
    closed = policy.private or ledger.closed()
    node: Any = context.node_config
    speed: Any = node.get("known-step-seconds", 0.0)
    batch = int(min(ask["batch"], policy.most_rows))  # which may be infinite
    with private_steps.silent(closed or private is not None):
        trainer = make(context)
        nothing: tuple[messages.Vector, messages.Buffers] = (np.zeros(0, np.float32), {})
        model = trainer.start(ask["seed"]) if ask["model"] else nothing
        tensors = trainer.tensors() if ask["model"] else ()
        rows, moves_itself = trainer.rows, trainer.own_optimizer
        why = private_steps.why_open(trainer) if private else ""
        if not speed and ask.get("probe") and not why and (private or not closed):
            speed = step_seconds(trainer, context, ask["seed"], batch, private)
    return messages.Hello(
        site_name(context),
        rows,
        *model,
        moves_itself,
        tensors,
        float(speed),
        ledger.left(),
        why,
        {name: float(node[key]) for name, key in SPENDS.items() if key in node},
    )


def step_seconds(
    trainer: Trainer, context: Context, seed: int, batch: int, private: RowPrivacy | None
) -> float:
    """Of a step that leads nowhere, so that the first plan need not guess; 0 where nobody knows: the client
    moves by an optimizer of its own, or the step failed. Then the first order fails as well, and the server
    hears why. With `private` it is a private step, rounded, and measured once a Flower run: many would tell
    more than one does.
    """
    if trainer.own_optimizer:
        return 0.0
    if private and SPEED in context.state:
        return float(messages.scalars(context.state, SPEED)["seconds"])
    order = messages.Order("probe", 0, -1, 0, 2, math.inf, 1.0, True, batch, seed, "fedavg", {}, "", False)
    task = LocalTask(order, pace_of(context))
    look = private_steps.looker(trainer, private, 0.0, batch) if private else trainer.gradient
    try:
        x, buffers = trainer.start(seed)
        method = methods.make("fedavg")._replace(private_rows=private)
        trainer.begin(order, messages.GlobalModel(x, x[:0], x[:0], buffers), method)
        task.look(look, trainer.from_numpy(x), 0)
        if task.timed[0] < LONG:
            task.look(look, trainer.from_numpy(x), 1)
        seconds = task.step_seconds
    except UserError:  # a mistake that every order would meet: better said now than after minutes
        raise
    except Exception:  # whatever users' code raises
        seconds = 0.0
    if private:
        seconds = private_steps.coarse(seconds) if seconds else 0.0
        context.state[SPEED] = ConfigRecord({"seconds": seconds})
    return seconds


def work(
    order: messages.Order, model: messages.GlobalModel, context: Context, make: MakeTrainer, own: Own
) -> messages.Reply:
    """A client's round, within the site's policy and its ledger."""
    started, policy, terms = time.monotonic(), site_policy(context), order.terms
    policy.check(order, model, context.run_id)
    order = order._replace(time_limit=min(order.time_limit, policy.most_seconds))
    ledger, look = SiteLedger(context, policy), None
    if terms is None:
        ledger.check_open(order.run)
    method = method_of(order, own)
    if terms is not None:
        check_rows(terms.mechanism)
        method = protect_rows(method, terms.clip)
    with private_steps.silent(terms is not None):
        trainer = make(context)
    if order.own_optimizer or trainer.own_optimizer:
        method = methods.for_own_optimizers(method)
    if terms is not None:
        private_steps.check(trainer)
        order = order._replace(
            steps=ledger.spend(order, trainer.rows), readings=False, time_limit=policy.most_seconds
        )
        assert method.private_rows is not None
        look = private_steps.looker(trainer, method.private_rows, terms.noise, order.batch)
    fresh = protocol.initial_client_state(method, model.anchor)
    mine, lost = client_state.settle(client_state.load(context, order), order, np.concatenate(fresh))
    client, memory, own_state = np.split(mine, np.cumsum([len(part) for part in fresh]))
    trainer.load_state(own_state)
    task = LocalTask(order, pace_of(context), context.node_config)
    known = model._replace(direction=client_state.last_step(context, order, model))
    with private_steps.silent(terms is not None):
        reply, left = local_round.run(trainer, task, known, method, (client, memory), look)
    client_state.keep_anchor(context, order, model.anchor)
    after = trainer.saved_state()
    lost |= after is not None and not own_state.size and order.accepted != client_state.NEVER
    left = left if after is None else np.append(left, after)
    reply = reply._replace(compute_seconds=time.monotonic() - started, lost_state=lost)
    if terms is not None:
        taken = ledger.give_back(order.run, order.steps - reply.steps)
        seconds = private_steps.coarse(reply.compute_seconds)
        step = private_steps.coarse(reply.step_seconds)
        reply = reply._replace(step_seconds=step, compute_seconds=seconds, taken=taken)
        time.sleep(max(started + seconds - time.monotonic(), 0))  # the server has a clock, too
    client_state.save(context, order, mine, left)
    return reply


def method_of(order: messages.Order, own: Own) -> Method:
    """What the order names: the client's own, else one that is installed here. Never a file by its path."""
    method = own_thing(methods.METHODS, order.method, own) or methods.make(order.method, order.options)
    method = methods.with_momentum(method, order.momentum, order.weight_decay)
    links = [name for name, _ in parse_names(order.transmit)]
    way = own_thing(transmit.TRANSMITS, order.transmit, own, links) or transmit.make(order.transmit)
    return method._replace(transmit=way or method.transmit)


def check_rows(mechanism: str) -> None:
    """Whether it is the mechanism that protects rows, which is all that clients know."""
    if mechanism != "record":
        raise UserError(
            f"The privacy mechanism {mechanism!r} has no part at clients: the server must not order it."
        )


def own_thing(kind: Kind[T], name: str, own: Own, links: list[str] | None = None) -> T | None:
    """The client's own thing of that name; None where it, or all links of its chain, are installed here."""
    for thing in own:
        if isinstance(thing, kind.type) and thing.name == name:
            return thing
    # installed packages are looked through only for names that are not ours
    foreign = {*([name] if links is None else links)} - {*kind.table}
    unknown = foreign - {*kind.names()} if foreign else foreign
    if unknown:
        raise UserError(
            f"The server asks for the {kind.word} {', '.join(map(repr, sorted(unknown)))}, which is not "
            "installed here; add the object to this client's `own`."
        )
    return None
