"""Everything of Flower that is not its public API, in one place: names, and three patches.

Flower's internals change from one minor version to the next. `NAMES` lists each one that is used here and
where it is; a test asks for every one of them, so that a new version either has them all or fails there.
They are imported when first used: a client's process should import no more than it needs.

The patches make short rounds short and keep a SuperNode from getting stuck.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

NAMES = {
    "ErrorCode": "flwr.common.constant",
    "Status": "flwr.common.constant",
    "SubStatus": "flwr.common.constant",
    "TaskType": "flwr.supercore.constant",
    "TaskIdentity": "flwr.supercore.task_identity",
    "flatten_dict": "flwr.common.config",
    "parse_config_args": "flwr.common.config",
    "install_from_fab": "flwr.cli.install",
    "get_load_client_app_fn": "flwr.clientapp.utils",
    "AcquireTaskRequest": "flwr.proto.runtime_pb2",
    "HeartbeatSender": "flwr.supercore.heartbeat",
    "make_task_heartbeat_fn_http": "flwr.supercore.heartbeat",
    "RuntimeTokenHttpInterceptor": "flwr.supercore.interceptors",
    "RuntimeVersionHttpInterceptor": "flwr.supercore.interceptors",
    "SuperExecAuthHttpInterceptor": "flwr.supercore.interceptors",
    "make_simple_http_retry_invoker": "flwr.supercore.retry",
    "RuntimeHttpClient": "flwr.supercore.runtime",
    "pull_task_input": "flwr.supernode.runtime.run_clientapp",
    "push_message": "flwr.supernode.runtime.run_clientapp",
    "push_task_output": "flwr.supernode.runtime.run_clientapp",
    "flower_supernode": "flwr.supernode.cli.flower_supernode",
}
SUPERNODE_LOOP = "flwr.supernode.start_client_internal"
GRID = "flwr.superlink.grid.http_grid"
PATCHED = {
    SUPERNODE_LOOP: ("time", "pull_objects", "_push_messages", "_insert_message"),
    GRID: ("pull_objects",),
}

IDLE_SLEEP = 3.0  # seconds that a SuperNode sleeps after it asked for a message and there was none
FIRST_RETRY, LONGEST_RETRY = 0.03, 1.0  # seconds between requests for a part of a message; Flower: 1 and 10
RETRIES = 5000  # Flower's own 500 last over an hour; these are to last as long


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(NAMES[name]), name)


def pairs(text: str) -> dict[str, Any]:
    """`key=value` pairs as Flower's --run-config and --node-config take them."""
    parse = getattr(import_module(NAMES["parse_config_args"]), "parse_config_args")  # noqa: B009
    return dict(parse([text])) if text else {}


def retry_soon(module: Any) -> None:
    """Let a module of Flower's that fetches messages ask again soon for a part that is still on its way.

    Flower announces a message first and sends its parts after that. Whoever looks in between sleeps a second,
    then two, then four, which was most of a short round.
    """
    fetch = module.pull_objects
    fetch = fetch.func if isinstance(fetch, partial) else fetch
    how = {"initial_backoff": FIRST_RETRY, "backoff_cap": LONGEST_RETRY, "max_tries_per_object": RETRIES}
    module.pull_objects = partial(fetch, **how)


def patch_grid() -> None:
    """The server's side of `retry_soon`."""
    retry_soon(import_module(GRID))


def patch_supernode(sleep: Callable[[float], None], deliver: Callable[..., None]) -> None:
    """Let the SuperNode's loop sleep by `sleep(seconds)` and send replies by `deliver(push, ...)`.

    `deliver` gets Flower's own function as `push` and is called with its arguments.
    """
    loop: Any = import_module(SUPERNODE_LOOP)
    retry_soon(loop)
    loop.time = type("Clock", (), {"sleep": staticmethod(sleep)})
    loop._push_messages = partial(deliver, loop._push_messages)


def store_reply(message: Any, state: Any, objects: Any) -> None:
    """Put a reply among those that a SuperNode is about to send."""
    import_module(SUPERNODE_LOOP)._insert_message(message, state, objects)


def waiting_runs(state: Any) -> set[int]:
    """Runs with a task that no worker has asked for yet."""
    status, kind = (getattr(import_module(NAMES[name]), name) for name in ("Status", "TaskType"))
    tasks = state.get_tasks(statuses=[status.PENDING])
    return {task.run_id for task in tasks if task.type == kind.CLIENT_APP}


def unanswered(state: Any) -> list[Any]:
    """Messages that a SuperNode has received and that have no reply yet."""
    held = [entry.message for entry in list(state.msg_store.values())]
    answered = {message.metadata.reply_to_message_id for message in held}
    asked = [message for message in held if not message.metadata.reply_to_message_id]
    return [message for message in asked if message.metadata.message_id not in answered]
