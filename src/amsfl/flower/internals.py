"""Everything of Flower that is not its public API, in one place: names, and three patches.

Flower's internals change from one minor version to the next. `NAMES` lists each one that is used here and
where it is; a test asks for every one of them, so that a new version either has them all or fails there.
They are imported when first used: a client's process should import no more than it needs.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

HOMES = {
    "flwr.cli.install": "install_from_fab",
    "flwr.clientapp.utils": "get_load_client_app_fn",
    "flwr.common.config": "flatten_dict parse_config_args",
    "flwr.common.constant": "ErrorCode Status SubStatus",
    "flwr.proto.runtime_pb2": "AcquireTaskRequest",
    "flwr.supercore.constant": "TaskType",
    "flwr.supercore.heartbeat": "HeartbeatSender make_task_heartbeat_fn_http",
    "flwr.supercore.interceptors": "RuntimeTokenHttpInterceptor RuntimeVersionHttpInterceptor "
    "SuperExecAuthHttpInterceptor",
    "flwr.supercore.retry": "make_simple_http_retry_invoker",
    "flwr.supercore.runtime": "RuntimeHttpClient",
    "flwr.supercore.task_identity": "TaskIdentity",
    "flwr.supernode.cli.flower_supernode": "flower_supernode",
    "flwr.supernode.runtime.run_clientapp": "pull_task_input push_message push_task_output",
}
NAMES = {name: home for home, names in HOMES.items() for name in names.split()}
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
    return dict(__getattr__("parse_config_args")([text])) if text else {}


def retry_soon(name: str) -> None:
    """Let a module of Flower's that fetches messages ask again soon for a part that is still on its way.

    Flower announces a message first and sends its parts after that. Whoever looks in between sleeps a second,
    then two, then four, which was most of a short round.
    """
    module: Any = import_module(name)
    fetch = module.pull_objects
    fetch = fetch.func if isinstance(fetch, partial) else fetch
    how = {"initial_backoff": FIRST_RETRY, "backoff_cap": LONGEST_RETRY, "max_tries_per_object": RETRIES}
    module.pull_objects = partial(fetch, **how)


def patch_supernode(sleep: Callable[[float], None], deliver: Callable[..., None]) -> None:
    """Let the SuperNode's loop sleep by `sleep(seconds)` and send replies by `deliver(push, ...)`.

    `deliver` gets Flower's own function as `push` and is called with its arguments.
    """
    loop: Any = import_module(SUPERNODE_LOOP)
    retry_soon(SUPERNODE_LOOP)
    loop.time = type("Clock", (), {"sleep": staticmethod(sleep)})
    loop._push_messages = partial(deliver, loop._push_messages)


def store_reply(message: Any, state: Any, objects: Any) -> None:
    """Put a reply among those that a SuperNode is about to send."""
    import_module(SUPERNODE_LOOP)._insert_message(message, state, objects)


def waiting_runs(state: Any) -> set[int]:
    """Runs with a task that no worker has asked for yet."""
    status, kind = __getattr__("Status"), __getattr__("TaskType")
    tasks = state.get_tasks(statuses=[status.PENDING])
    return {task.run_id for task in tasks if task.type == kind.CLIENT_APP}


def unanswered(state: Any) -> list[Any]:
    """Messages that a SuperNode has received and that have no reply yet."""
    held = [entry.message for entry in list(state.msg_store.values())]
    answered = {message.metadata.reply_to_message_id for message in held}
    asked = [message for message in held if not message.metadata.reply_to_message_id]
    return [message for message in asked if message.metadata.message_id not in answered]
