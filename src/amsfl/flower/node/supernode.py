"""Flower's SuperNode, with two things changed: who runs its ClientApps, and how long it sleeps.

Flower's own SuperNode starts a process for every message, whose imports cost seconds, and sleeps three
seconds when there was no message, and one where a part of a message is still on its way (hasten.py). In its
`--isolation process` mode it leaves the running to somebody else: here a thread (keeper.py) that hands every
message to a process that lives as long as the run (worker.py).
All else is Flower's.
"""

import argparse
import os
import secrets
import sys
import threading
import time
from collections.abc import Sequence

from amsfl.core import UserError
from amsfl.flower.node.worker_pool import WorkerPool
from amsfl.flower.polling import hasten
from amsfl.flower.ports import free_port

IDLE = 3.0  # Flower's own sleep where there was no message
POLL = 0.2  # seconds between two questions to the SuperLink while there is nothing to do
OURS = ("--isolation", "--superexec-auth-secret-file", "--ssl-certfile", "--ssl-keyfile", "--ssl-ca-certfile")


class ShortSleeps:
    """Stands in for the module `time` in Flower's main loop, of which that only calls `sleep`.

    It sleeps long when there was no message, and short while it waits for the reply to one: then there is
    something for the keeper to fetch, and the sleep ends when the keeper has it done.
    """

    def __init__(self, poll: float, keeper: WorkerPool):
        self.poll, self.keeper = poll, keeper

    def sleep(self, seconds: float) -> None:
        if seconds >= IDLE:
            time.sleep(min(seconds, self.poll))
        else:
            self.keeper.wanted(seconds)


def main(arguments: Sequence[str]) -> None:
    """Run until ended; `arguments` are flower-supernode's, and --poll."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--poll", type=float, default=POLL)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int)
    given, rest = parser.parse_known_args(list(arguments))
    taken = [flag for flag in OURS if any(word.split("=")[0] == flag for word in rest)]
    if taken:
        raise UserError(
            f"{taken[0]} is set by `amsfl supernode` itself; leave it out, or use flower-supernode, which "
            "starts a process for every message."
        )
    if not 0.01 <= given.poll <= 60:
        raise UserError(f"--poll is {given.poll:g} seconds; it lies between 0.01 and 60.")
    port = given.port or free_port()
    secret = secrets.token_bytes(32)  # whoever has it may take this node's messages; no file holds it
    sys.argv = ["flower-supernode", *rest, "--host", given.host, "--port", str(port)]
    sys.argv += ["--isolation", "process", "--superexec-auth-secret-file", readable_once(secret)]
    run(f"{given.host}:{port}", secret, given.poll)


def run(address: str, secret: bytes, poll: float) -> None:
    keeper = WorkerPool(address, secret)  # its worker imports while we do

    from flwr.supernode import start_client_internal as loop
    from flwr.supernode.cli.flower_supernode import flower_supernode

    setattr(loop, "time", ShortSleeps(poll, keeper))  # noqa: B010  (mypy knows it as a module)
    hasten(loop)
    threading.Thread(target=keeper.run, name="amsfl-keeper", daemon=True).start()
    try:
        flower_supernode()
    finally:
        keeper.close()


def readable_once(secret: bytes) -> str:
    """A path under which Flower finds the secret: the end of a pipe that this process alone holds."""
    source, sink = os.pipe()
    with os.fdopen(sink, "wb") as file:
        file.write(secret)
    return f"/dev/fd/{source}"
