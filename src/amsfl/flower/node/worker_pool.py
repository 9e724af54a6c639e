"""Who hands a SuperNode's messages to workers, and keeps the workers: one a run, so that no two runs meet.

A worker that has died, or whose app raised, is replaced by the next message's. One that has had nothing to
do for long is ended, and so are all of them with the SuperNode: their pipes close when it is gone.
"""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

MOST = 2  # runs whose workers are kept at the same time
TIDY = 10.0  # seconds between two looks at who is idle
IDLE = 600.0  # seconds without a message after which a worker is ended


class Worker:
    """A process that runs one run's messages, one after another."""

    COMMAND = (sys.executable, "-m", "amsfl.flower.node.worker")

    def __init__(self, command: tuple[str, ...] = COMMAND):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.used, self.busy = time.monotonic(), False

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def do(self, task: dict[str, Any]) -> bool:
        """Hand over one message and wait until it is answered; False where the worker is gone after it."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(task) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except OSError:
            answer = ""
        self.used = time.monotonic()
        return answer.strip() == "done"

    def end(self) -> None:
        self.process.kill()  # first: whoever waits for its answer holds the pipe until it is gone
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                if pipe:
                    pipe.close()


class WorkerPool:
    """Asks the SuperNode at `address` for messages; `secret` says that it may."""

    def __init__(self, address: str, secret: bytes, make: Callable[[], Worker] = Worker):
        self.address, self.secret, self.make = address, secret, make
        self.workers: dict[int, Worker] = {}
        self.spare: Worker | None = make()  # warm before the first message
        self.lock, self.closed = threading.Lock(), False
        self.message, self.done = threading.Event(), threading.Event()

    def wanted(self, seconds: float) -> None:
        """There is a message to run; wait until it is done, but not longer than so."""
        self.message.set()
        self.done.wait(seconds)
        self.done.clear()

    def run(self) -> None:
        """Until the SuperNode ends."""
        import httpx

        acquire = asker(self.address, self.secret)
        while not self.closed:
            if not self.message.wait(TIDY):
                self.tidy()
                continue
            self.message.clear()
            try:
                task = acquire()
            except httpx.TransportError:  # the SuperNode is ending
                continue
            if task:
                self.give(int(task.pop("run")), task)

    def give(self, run: int, task: dict[str, Any]) -> threading.Thread | None:
        """Hand a message over. Nobody waits for it here: another run's message may be one that never ends."""
        worker = self.worker(run)
        if worker is None:
            return None
        worker.busy = True
        thread = threading.Thread(target=self._have_done, args=(run, worker, task), daemon=True)
        thread.start()
        return thread

    def _have_done(self, run: int, worker: Worker, task: dict[str, Any]) -> None:
        fine = worker.do(task)
        worker.busy = False
        if not fine and self.workers.get(run) is worker and not self.closed:
            code = worker.process.poll()
            print(f"A worker ended (code {code}); the next message gets a new one.", file=sys.stderr)
            self.drop(run)
        self.done.set()

    def worker(self, run: int) -> Worker | None:
        """The run's own; a fresh one for a new run, for which the longest unused makes room.

        A SuperNode has one message at a time: a worker that is busy when the next comes is with one that its
        node has given up (its run, or the SuperLink, ended while it was fetched), and is replaced.
        """
        with self.lock:
            if self.closed:
                return None
            held = self.workers.pop(run, None)
            if held is not None and (held.busy or not held.alive):
                held.end()
                held = None
            if held is None:
                spare, self.spare = self.spare, None
                held = spare if spare and spare.alive else self.make()
            self.workers[run] = held  # the last one is the one used last
            for old in list(self.workers)[:-MOST]:
                self.workers.pop(old).end()
            return held

    def drop(self, run: int) -> None:
        with self.lock:
            worker = self.workers.pop(run, None)
        if worker:
            worker.end()

    def tidy(self) -> None:
        now = time.monotonic()
        idle = (run for run, worker in self.workers.items() if not worker.busy and now - worker.used > IDLE)
        for run in list(idle):
            self.drop(run)

    def close(self) -> None:
        with self.lock:
            self.closed = True
            for worker in [*self.workers.values(), *([self.spare] if self.spare else [])]:
                worker.end()


def asker(address: str, secret: bytes) -> Callable[[], dict[str, Any] | None]:
    """A function that returns the next message's run, token and address, or None."""
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.constant import TaskType
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor, SuperExecAuthHttpInterceptor
    from flwr.supercore.runtime import RuntimeHttpClient

    signed = SuperExecAuthHttpInterceptor(
        master_secret=secret, protected_methods=frozenset({"/flwr.proto.Runtime/AcquireTask"})
    )
    client = RuntimeHttpClient.from_server_address(
        server_address=address,
        insecure=True,
        root_certificates=None,
        interceptors=[RuntimeVersionHttpInterceptor(component_name="SuperExec"), signed],
    )

    def acquire() -> dict[str, Any] | None:
        found = client.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP]))
        if not (found.HasField("task") and found.token):
            return None
        return {"run": found.task.run_id, "token": found.token, "address": address}

    return acquire
