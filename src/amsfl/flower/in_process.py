"""A dress rehearsal: the real ClientApps and the real server in one process, with no Flower process at all.

    grid = InProcessGrid(client_app, nodes=[{"partition-id": i} for i in range(3)])
    AMSFL().start(grid, initial_arrays, num_rounds=5)

To try an app before it is deployed, and to test. Messages are worked off when the server looks for replies,
one after another, and say when they would have come had all nodes worked at once; contexts live as long as
the grid, as they do on a SuperNode. `rehearse` does so with a whole app.
"""

import importlib
import sys
import time
import tomllib
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from logging import WARNING
from pathlib import Path
from secrets import randbits
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.logger import FLOWER_LOGGER

from amsfl.core import UserError
from amsfl.flower import internals

LIKE = "name the folder of a Flower app, one with [tool.flwr.app] in its pyproject.toml"
PATIENCE = 3  # times that a server looks for nodes and asks none
MOST_NODES = 64


@Grid.register  # without what asks for a Flower run
class InProcessGrid:
    """A Grid of `nodes` (their node-configs), all running `app`."""

    stamps = True  # replies say when they came (round_grid.py)
    poll = 0.001  # seconds between two looks for replies
    keeps = True  # whether runs leave a record
    grows = False  # whether a server that waits for more nodes than there are gets another one like the first

    def __init__(
        self, app: ClientApp, nodes: Sequence[dict[str, Any]], run_config: dict[str, Any] | None = None
    ):
        task = internals.TaskIdentity  # a Message asks which task of which run is speaking
        task.run_id, task.node_id, task.task_id = randbits(63), 1, 1  # a rehearsal is a Flower run of its own
        self.app, self.run_config = app, dict(run_config or {})
        self.contexts: dict[int, Context] = {}
        for config in nodes:
            self.join(config)
        self.posted: dict[str, Message] = {}
        self.shown: set[str] = set()  # errors whose tracebacks were printed
        self.numbers, self.answered, self.seconds, self.looks = count(1), 0, 0.0, 0
        self.queued = 0.0  # seconds that nodes waited for each other, which real ones do not

    def join(self, config: Mapping[str, Any]) -> None:
        """One node more."""
        node, run = 1000 + len(self.contexts), internals.TaskIdentity.run_id
        self.contexts[node] = Context(run, node, dict(config), RecordDict(), self.run_config)

    @property
    def partitions(self) -> dict[int, Any]:
        """Which part of the data each node has."""
        return {node: context.node_config.get("partition-id") for node, context in self.contexts.items()}

    def get_node_ids(self) -> Iterable[int]:
        self.looks += 1
        if self.grows and self.looks > PATIENCE and len(self.contexts) < MOST_NODES:
            self.join(next(iter(self.contexts.values())).node_config)
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        self.looks = 0
        posted = {f"message-{next(self.numbers)}": message for message in messages}
        for key, message in posted.items():
            message.metadata.__dict__["_message_id"] = key
        self.posted |= posted
        return list(posted)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        due = [self.posted.pop(key) for key in message_ids if key in self.posted]
        replies, before, longest = list[Message](), self.seconds, 0.0
        for message in due:
            began = self.seconds
            replies.append(self.answer(message))
            longest = max(longest, self.seconds - began)
        self.queued += self.seconds - before - longest
        return replies

    def answer(self, message: Message) -> Message:
        """What the node replies, with the time at which it would have come; an exception of the app becomes
        an error as in Flower, and is shown once."""
        began = time.perf_counter()
        try:
            reply = self.app(message, self.contexts[message.metadata.dst_node_id])
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            if why not in self.shown:  # a server asks again and again
                traceback.print_exc()
            self.shown.add(why)
            reply = Message(Error(internals.ErrorCode.CLIENT_APP_RAISED_EXCEPTION, why), reply_to=message)
        took = time.perf_counter() - began
        self.answered, self.seconds = self.answered + 1, self.seconds + took
        reply.metadata.created_at = message.metadata.created_at + took
        return reply

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))


def rehearse(
    folder: Path,
    nodes: Sequence[dict[str, Any]],
    run_config: Mapping[str, Any] | None = None,
    rounds: int | None = None,
) -> InProcessGrid:
    """Run the app that lies in a folder to its end; what its nodes did. `run_config` goes over the app's own.
    With `rounds`, by whatever name they have there, it is a trial, which leaves no record."""
    components, own = described(folder)
    config = own | dict(run_config or {})
    if rounds is not None:
        config |= {key: rounds for key in config if "round" in key.replace("_", "-").split("-")[-1]}
    with importable(folder):
        server, client = (loaded(components[part]) for part in ("serverapp", "clientapp"))
        if not isinstance(server, ServerApp) or not isinstance(client, ClientApp):
            raise UserError(f"The app in {str(folder)!r} has no ServerApp and ClientApp; {LIKE}.")
        grid = InProcessGrid(client, nodes, config)
        grid.grows, grid.keeps = True, rounds is None
        FLOWER_LOGGER.setLevel(WARNING)  # a dozen lines a round
        server(grid=grid, context=Context(1, 1, {}, RecordDict(), config))
    return grid


def described(folder: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """The components and the run-config of the app in the folder's pyproject.toml."""
    path = folder / "pyproject.toml"
    if not path.is_file():
        raise UserError(f"There is no pyproject.toml in {str(folder)!r}; {LIKE}.")
    try:
        about = tomllib.loads(path.read_text(encoding="utf-8"))["tool"]["flwr"]["app"]
        components, config = dict(about["components"]), internals.flatten_dict(about.get("config"))
    except (ValueError, KeyError) as error:
        raise UserError(f"{str(path)!r} describes no Flower app ({error}); {LIKE}.") from None
    if not {"serverapp", "clientapp"} <= {*components}:
        raise UserError(f"The app in {str(folder)!r} needs both a serverapp and a clientapp; {LIKE}.")
    return components, config


def loaded(reference: str) -> Any:
    """A component by its `module:name`."""
    module, _, name = reference.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UserError(f"The app names {reference} as a component: {error}.") from error


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """With the folder's modules to be imported, and forgotten afterwards: another app may have the same
    names."""
    before, where = set(sys.modules), str(folder.resolve())
    sys.path.insert(0, where)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(where)
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).is_relative_to(where):
                del sys.modules[name]
