"""Flower's SuperNode, with two things changed: who runs its ClientApps, and how long it sleeps.

Flower's own SuperNode starts a process for every message, whose imports cost seconds, and sleeps three
seconds when there was no message. In its `--isolation process` mode it leaves the running to somebody else:
here a thread (worker_pool.py) that hands every message to a process that lives as long as the run
(worker.py). What is changed in Flower itself is in internals.py.
"""

import argparse
import json
import logging
import os
import random
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from flwr.app import Error, Message

from amsfl.core import UserError
from amsfl.flower import internals
from amsfl.flower.node.worker_pool import WorkerPool

POLL = 0.2  # seconds between two questions to the SuperLink while there is nothing to do
LOST = 10.0  # seconds without a worker after which a message that has no reply is given up
OURS = ("--isolation", "--superexec-auth-secret-file", "--ssl-certfile", "--ssl-keyfile", "--ssl-ca-certfile")
PORTS = range(20_000, 32_000)  # below those that systems hand out to outgoing connections


class NoReply(Exception):
    """No worker is at work, and what a SuperNode waits for will not come."""


class MessageLoop:
    """How a SuperNode waits: `sleep` and `deliver` stand in for Flower's (internals.patch_supernode).

    A SuperNode runs one message at a time. Flower's own loop goes on as soon as any reply was sent, also one
    to an older message; the newer one's reply then waited for the message after it, and so did all that
    followed. Here every message is answered before the next is asked for.
    """

    def __init__(self, poll: float, pool: WorkerPool, now: Callable[[], float] = time.monotonic):
        self.poll, self.pool, self.now = poll, pool, now
        self.state: Any = None
        self.objects: Any = None

    def sleep(self, seconds: float) -> None:
        """Long when there was no message; while a reply is waited for, until the pool has done one."""
        if seconds >= internals.IDLE_SLEEP:
            time.sleep(min(seconds, self.poll))
            return
        self.pool.wanted(seconds)
        if self.state is not None and self.now() - self.pool.last_busy() > LOST:
            self._give_up()

    def deliver(self, push: Callable[..., None], state: Any, object_store: Any, **connection: Any) -> None:
        """Send replies until no message is left without one."""
        self.state, self.objects = state, object_store
        self.pool.touch()
        # Flower keeps a message whose run was stopped while its parts were fetched; no worker will have it
        internals.forget_messages(internals.unanswered(state)[:-1], state, object_store)
        try:
            push(state=state, object_store=object_store, **connection)
            while internals.unanswered(state):
                push(state=state, object_store=object_store, **connection)
        except NoReply:  # there is no message any more
            pass

    def _give_up(self) -> None:
        """No worker has these messages, and none will: their task ended before it fetched them.

        Where no message is without a reply, the worker died while it sent one: Flower would wait for the
        rest, or for another reply, for good. An exception makes it drop that reply and go on.
        """
        self.pool.end_lost()
        self.pool.touch()
        messages = internals.unanswered(self.state)
        for message in messages:
            error = Error(internals.ErrorCode.CLIENT_APP_CRASHED, "The message was lost at its SuperNode.")
            internals.store_reply(Message(error, reply_to=message), self.state, self.objects)
        if not messages:
            raise NoReply("a reply's worker is gone")


def main(arguments: Sequence[str]) -> None:
    """Run until ended; `arguments` are flower-supernode's, and --poll, --log and --metrics-port."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--poll", type=float, default=POLL)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int)
    parser.add_argument("--log", choices=("text", "json"), default="text")
    parser.add_argument("--metrics-port", type=int, default=0)
    ours, rest = parser.parse_known_args(list(arguments))
    taken = [flag for flag in OURS if any(word.split("=")[0] == flag for word in rest)]
    if taken:
        raise UserError(
            f"{taken[0]} is set by `amsfl supernode` itself; leave it out, or use flower-supernode, which "
            "starts a process for every message."
        )
    if not 0.01 <= ours.poll <= 60:
        raise UserError(f"--poll is {ours.poll:g} seconds; it lies between 0.01 and 60.")
    port = ours.port or free_port()
    secret = secrets.token_bytes(32)  # whoever has it may take this node's messages; no file holds it
    sys.argv = ["flower-supernode", *rest, "--host", ours.host, "--port", str(port)]
    sys.argv += ["--isolation", "process", "--superexec-auth-secret-file", readable_once(secret)]
    if ours.log == "json":
        log_as_json()
    pool = WorkerPool(f"{ours.host}:{port}", secret)  # its worker imports while we do
    if ours.metrics_port:
        pool.metrics.serve(ours.metrics_port)
    loop = MessageLoop(ours.poll, pool)
    internals.patch_supernode(loop.sleep, loop.deliver)
    threading.Thread(target=pool.run, name="amsfl-worker-pool", daemon=True).start()
    try:
        internals.flower_supernode()
    finally:
        pool.close()


def json_line(record: logging.LogRecord) -> str:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
    return json.dumps({"time": at, "level": record.levelname, "event": "log", "text": record.getMessage()})


def log_as_json() -> None:
    """Flower's own log lines, each as one JSON object."""
    for name in ("flwr", "uvicorn", "uvicorn.error", "uvicorn.access"):
        for handler in logging.getLogger(name).handlers:
            setattr(handler, "format", json_line)  # noqa: B010  (Flower's handler asks no formatter)


def free_port() -> int:
    """One that nobody listens on; drawn, so that several federations that start at once seldom meet."""
    for port in random.SystemRandom().sample(PORTS, 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port between {PORTS[0]} and {PORTS[-1]} on loopback")


def readable_once(secret: bytes) -> str:
    """A path under which Flower finds the secret: the end of a pipe that this process alone holds."""
    source, sink = os.pipe()
    with os.fdopen(sink, "wb") as file:
        file.write(secret)
    return f"/dev/fd/{source}"


if __name__ == "__main__":
    main(sys.argv[1:])
