"""Sites that run a program of their own: one process, many nodes of a Flower federation, and all of them lie.

Each does an order's work as an honest client does, then changes its reply, every time in another way
(false_kinds.py). To the SuperLink they are SuperNodes like any other.

    python studies/false_nodes.py HOST:PORT SHARDS FIRST COUNT
"""

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from false_kinds import kinds
from flwr.app import Context, Message, RecordDict
from flwr.supercore.inflatable import inflatable_object, inflatable_utils
from flwr.supercore.run import RunNotRunningException
from flwr.supernode.fleet_http_connection import http_request_response

from amsfl.flower import internals
from amsfl.flower.deploy.builtin_app import client

POLL = 2.0  # seconds between two questions to the SuperLink
APART = 37  # kinds between two replies: of all lies of a round few are alike
LOCK = threading.Lock()  # one at a time works
PARTS: dict[
    str, bytes
] = {}  # of messages: an object's id is its content, and all orders of a round share some
MOST_PARTS = 200
PART_LOCKS: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
EVERY = list(kinds().values())
NUMBERS = count()


def answer(message: Message, context: Context) -> Message:
    """An honest answer; of an order, then a changed one."""
    with LOCK:
        task = internals.TaskIdentity
        task.run_id, task.node_id, task.task_id = message.metadata.run_id, context.node_id, 1
        reply: Message = client(message, context)
        if message.metadata.message_type == "train":
            EVERY[next(NUMBERS) * APART % len(EVERY)](reply.content)
        reply.metadata.__dict__["_message_id"] = reply.object_id
        return reply


def fetch(pull: Callable[[str], bytes], part: str) -> bytes:
    """A part of a message, asked for once for all nodes."""
    with PART_LOCKS[part]:
        if part not in PARTS:
            PARTS[part] = pull(part)
            for old in list(PARTS)[:-MOST_PARTS]:
                PARTS.pop(old, None)
                PART_LOCKS.pop(old, None)
        return PARTS.get(part) or pull(part)


def exchange(message: Message, tree: Any, connection: Any, context: Context) -> None:
    """Fetch a message whole, answer it, and send the answer."""
    _, _, send, _, _, pull, push, confirm = connection
    run = message.metadata.run_id
    whole = inflatable_utils.pull_and_inflate_object_from_tree(
        tree,
        partial(fetch, partial(pull, run)),
        partial(confirm, run),
        return_type=Message,
        initial_backoff=internals.FIRST_RETRY,
        backoff_cap=internals.LONGEST_RETRY,
    )
    whole.metadata.__dict__["_message_id"] = tree.object_id
    reply = answer(whole, context)
    with inflatable_object.no_object_id_recompute():
        wanted, session = send(reply, inflatable_object.get_object_tree(reply), 0.0)
        parts = inflatable_object.get_all_nested_objects(reply)
        inflatable_utils.push_objects(parts, partial(push, run, session), object_ids_to_push=wanted)


def lie(address: str, node: dict[str, Any]) -> None:
    with http_request_response(address, True) as connection:
        context = Context(1, connection[0], node, RecordDict(), {"model": "softmax"})
        while True:
            received = connection[1]()
            if received is None:
                time.sleep(POLL)
                continue
            try:
                exchange(*received, connection, context)
            except (RunNotRunningException, inflatable_utils.ObjectPullError) as error:
                print(f"node {node['partition-id']}: {type(error).__name__}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    address, shards, first, number = sys.argv[1:]
    nodes = [
        {"partition-id": place, "shard": f"{shards}/shard-{place}.npz"}
        for place in range(int(first), int(first) + int(number))
    ]
    threads = [threading.Thread(target=lie, args=(address, node)) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
