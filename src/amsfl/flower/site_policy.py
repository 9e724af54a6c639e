"""What a site accepts of its server: a small TOML file of its own (docs/privacy.md), the same with privacy
and without; and its own log of orders. An order outside of the policy is refused before any row is read.

Clients of ours hold to it by themselves; any other ClientApp does with `ClientApp(mods=[site_policy_mod])`.
"""

import json
import math
import os
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MessageType
from pydantic import Field

from amsfl.core import UserError, nearest
from amsfl.flower.task import LocalTask, received
from amsfl.record import Damaged, disk, from_plain

FILE = "site.toml"
NONE = "none"  # in `mechanisms`: orders without privacy
Names = tuple[str, ...] | None
Bound = Annotated[float, Field(strict=True, ge=0)]


class SitePolicy(NamedTuple):
    """The file's lines; None: no bound of the site's own."""

    mechanisms: Names = None  # of privacy; "none" in the list accepts orders without
    runs: Names = None  # Flower's ids of the runs that may order
    most_steps: Bound = 100_000  # of a round
    most_seconds: Bound = 86_400.0  # that its steps of a round may take: then it stops by itself
    most_megabytes: Bound = math.inf  # that are sent
    most_rows: Bound = 65_536  # of a minibatch
    least_noise: Bound = 0.05
    clip: tuple[Bound, Bound] = (1e-4, 1e4)
    epsilon_run: Bound | None = None  # of a Flower run, at `delta`
    epsilon: Bound | None = None  # of all time, at `delta`
    delta: Bound = 1e-5
    most_delta: Bound = 1e-3
    scores: Annotated[bool, Field(strict=True)] = True  # answers to `evaluate`

    @property
    def private(self) -> bool:
        """Whether orders without privacy are refused."""
        listed = self.mechanisms is not None and NONE not in self.mechanisms
        return listed or self.epsilon is not None or self.epsilon_run is not None

    def check(self, task: LocalTask, arrays: ArrayRecord, flower_run: int) -> None:
        """A UserError where the order or its model lies outside."""
        terms = task.terms
        named = {"Flower run": (str(flower_run), self.runs)}
        named["privacy mechanism"] = (terms.mechanism if terms else NONE, self.mechanisms)
        for what, (name, allowed) in named.items():
            if allowed is not None and name not in allowed:
                raise UserError(f"This site's policy: the {what} {name!r} is not one that it accepts.")
        if terms is None and self.private:
            raise UserError(PRIVATE)
        bounds: dict[str, tuple[float, float, float]] = {
            "local-steps": (task.steps, 1, self.most_steps),
            "batch-size": (task.batch, 1, self.most_rows),
            "held-back": (task.held_share, 0, 1),
            "lr": (task.lr, 1e-30, 1e30),
            "proximal-mu": (task.mu, 0, 1e6),
            "seed": (task.seed, 0, 2**32 - 1),
            "server-round": (task.round + 1, 1, 2**31),
        }
        if terms is not None:
            most = math.inf if self.epsilon_run is None else self.epsilon_run
            bounds |= {
                "clip": (terms.clip, *self.clip),
                "noise": (terms.noise or self.least_noise, self.least_noise, 1e6),
                "delta": (terms.delta, 1e-300, self.most_delta),
                "epsilon": (terms.epsilon or math.inf, 0, most),  # 0: no bound
            }
        for name, (value, low, high) in bounds.items():
            if not low <= value <= high:
                raise UserError(f"This site's policy: {name} is from {low:g} to {high:g}, not {value!r}.")
        for name, part in arrays.items():
            numbers = part.numpy()
            if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
                raise UserError(f"This site's policy: {name[:60]!r} of an order is not finite.")
        if task.correction is not None and not np.isfinite(task.correction).all():
            raise UserError("This site's policy: the correction of an order is not finite.")

    def check_size(self, message: Message) -> None:
        """A UserError where a reply is too large to leave."""
        records = message.content.array_records.values() if message.has_content() else ()
        size = sum(len(part.data) for record in records for part in record.values())
        if size > self.most_megabytes * 1e6:
            raise UserError(
                f"This site's policy: a reply has {self.most_megabytes:g} MB at most, not {size / 1e6:g}."
            )


PRIVATE = "This site keeps its rows private: train with epsilon, and score on the server."


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
    with logged(context, what) as entry:
        policy = site_policy(context)
        if policy.private and not private:  # whatever the order says
            raise UserError(PRIVATE)
        if what == MessageType.TRAIN:
            arrays, task = received(message, context)
            entry["task"] = {
                key: value for key, value in vars(task).items() if isinstance(value, int | float | str)
            }
            policy.check(task, arrays, context.run_id)
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


def read_policy(path: Path) -> SitePolicy:
    """The file's; a UserError says what in it is wrong."""
    try:
        fields, known = tomllib.loads(path.read_text(encoding="utf-8")), SitePolicy._fields
        for name in fields.keys() - known:
            raise UserError(f"{str(path)!r} has {name!r}{nearest(name, known)}.")
        return from_plain(SitePolicy, fields)
    except (OSError, ValueError, Damaged) as error:
        raise UserError(f"The site's policy {str(path)!r} cannot be read: {error}.") from None


def site_policy(context: Context) -> SitePolicy:
    """By the file, and by `epsilon` and `delta` of the node-config."""
    node: Any = context.node_config
    path = Path(str(node.get("policy") or Path(str(node.get("state-dir") or ".")) / FILE)).expanduser()
    there = "policy" in node or ("state-dir" in node and path.exists())
    policy = read_policy(path) if there else SitePolicy()
    if "epsilon" in node:
        own = min(float(node["epsilon"]), math.inf if policy.epsilon is None else policy.epsilon)
        policy = policy._replace(epsilon=own, delta=float(node.get("delta", policy.delta)))
    budgets = [each for each in (policy.epsilon, policy.epsilon_run) if each is not None]
    if budgets and not (all(0 < each < math.inf for each in budgets) and 0 < policy.delta < 1):
        raise UserError("A site's epsilon and epsilon_run are above 0 and its delta between 0 and 1.")
    return policy


def own_file(context: Context, kind: str, ending: str) -> Path | None:
    """A file of this site alone that outlives a message, in its state-dir; None where it has none."""
    node: Any = context.node_config
    if not node.get("state-dir"):
        return None
    name = disk.safe_name(str(node.get("partition-id", context.node_id)), "The partition-id")
    folder = Path(str(node["state-dir"])).expanduser()
    disk.make_folder(folder, private=True)
    return folder / f"{kind}-{name}.{ending}"


@contextmanager
def logged(context: Context, what: str) -> Iterator[dict[str, Any]]:
    """`with logged(context, "train") as entry:`; whatever is put into `entry` is on the line of JSON of this
    order in `orders-NAME.jsonl`, in the site's `state-dir`: only ever appended, its owner's alone."""
    entry: dict[str, Any] = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "what": what}
    entry |= {"flower_run": context.run_id}
    try:
        yield entry
    except UserError as error:
        entry["refused"] = str(error)
        raise
    except Exception as error:
        entry["failed"] = type(error).__name__
        raise
    finally:
        if path := own_file(context, "orders", "jsonl"):
            line = (json.dumps(entry, default=str) + "\n").encode()
            how = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            with disk.explain_errors("written", path), os.fdopen(os.open(path, how, 0o600), "ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
