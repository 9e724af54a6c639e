"""Hands a SuperNode's messages to workers, and keeps the workers: one a run, so that no two runs meet.

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

from amsfl.flower import internals
from amsfl.flower.metrics import Metrics

MOST = 2  # runs whose workers are kept at the same time
TIDY = 10.0  # seconds between two looks at who is idle
IDLE = 600.0  # seconds without a message after which a worker is ended
HELP = {
    "messages_total": "Messages by outcome.",
    "seconds_total": "Seconds that workers were busy.",
    "workers": "Worker processes.",
}
FETCH = 120.0  # seconds in which a worker has its message from the SuperNode beside it, imports included
UNPATCHED_POLL = 0.5  # seconds between two looks for a task where Flower's loop does not announce them


class Worker:
    """A process that runs one run's messages, one after another."""

    COMMAND = (sys.executable, "-m", "amsfl.flower.node.worker")

    def __init__(self, command: tuple[str, ...] = COMMAND):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.used, self.busy = time.monotonic(), False
        self.fetching: float | None = None  # since when it asks for its message

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def lost(self) -> bool:
        """Whether it has waited too long for parts of its message: Flower's own patience is two hours."""
        since = self.fetching
        return since is not None and time.monotonic() - since > FETCH

    def do(self, task: dict[str, Any]) -> bool:
        """Hand over one message and wait until it is answered; False where the worker is gone after it."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.fetching = time.monotonic()
        try:
            self.process.stdin.write(json.dumps(task) + "\n")
            self.process.stdin.flush()
            while (answer := self.process.stdout.readline().strip()) == "fetched":
                self.fetching = None
        except OSError:
            answer = ""
        self.used, self.fetching = time.monotonic(), None
        return answer == "done"

    def end(self) -> None:
        self.process.kill()  # first: whoever waits for its answer holds the pipe until it is gone
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                if pipe:
                    pipe.close()


class WorkerPool:
    """Asks the SuperNode at `address` for tasks, one a message; `secret` says that it may."""

    def __init__(self, address: str, secret: bytes, make: Callable[[], Worker] = Worker):
        self.address, self.secret, self.make = address, secret, make
        self.workers: dict[int, Worker] = {}
        self.spare: Worker | None = make()  # warm before the first message
        self.lock, self.closed = threading.Lock(), False
        self.message, self.done = threading.Event(), threading.Event()
        self.touched = time.monotonic()
        self.metrics = Metrics("amsfl_node", HELP)

    def wanted(self, seconds: float) -> None:
        """There is a message to run; wait until one is done, but not longer than so."""
        self.message.set()
        self.done.wait(seconds)
        self.done.clear()

    def touch(self) -> None:
        """A message has come: its task is about to be fetched."""
        self.touched = time.monotonic()

    def last_busy(self) -> float:
        """When a worker last had something to do, or a message came."""
        workers = list(self.workers.values())
        if any(worker.busy and worker.alive and not worker.lost for worker in workers):
            return time.monotonic()
        return max([self.touched, *(worker.used for worker in workers)])

    def run(self) -> None:
        """Until the SuperNode ends."""
        acquire = task_source(self.address, self.secret)
        pause = TIDY if internals.patches_on() else UNPATCHED_POLL
        while not self.closed:
            if not self.message.wait(pause):
                self.tidy()
            self.message.clear()
            self.take_all(acquire)

    def take_all(self, acquire: Callable[[], dict[str, Any] | None]) -> list[threading.Thread | None]:
        """Every task that is queued. Those of one run go to its worker one after another."""
        import httpx

        by_run: dict[int, list[dict[str, Any]]] = {}
        try:
            while task := acquire():
                by_run.setdefault(int(task.pop("run")), []).append(task)
        except httpx.TransportError:  # the SuperNode is ending
            pass
        return [self.give(run, *tasks) for run, tasks in by_run.items()]

    def give(self, run: int, *tasks: dict[str, Any]) -> threading.Thread | None:
        """Hand tasks over. Nobody waits for them here: another run's task may be one that never ends."""
        worker = self.worker(run)
        if worker is None:
            return None
        worker.busy = True
        thread = threading.Thread(target=self._work_off, args=(run, worker, tasks), daemon=True)
        thread.start()
        return thread

    def _work_off(self, run: int, worker: Worker, tasks: tuple[dict[str, Any], ...]) -> None:
        began = time.monotonic()
        fine = all(worker.do(task) for task in tasks)  # what a dead worker did not do, the node gives up
        worker.busy = False
        self.metrics.add("seconds_total", time.monotonic() - began)
        self.metrics.add("messages_total", len(tasks), outcome="answered" if fine else "failed")
        self.metrics.set("workers", sum(each.alive for each in list(self.workers.values())))
        if not fine and self.workers.get(run) is worker and not self.closed:
            code = worker.process.poll()
            print(f"A worker ended (code {code}); the next message gets a new one.", file=sys.stderr)
            self.drop(run)
        self.done.set()

    def worker(self, run: int) -> Worker | None:
        """The run's own; a new one for a new run, for which the longest unused makes room.

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

    def end_lost(self) -> None:
        """Workers that will never have their message."""
        for run, worker in [*self.workers.items()]:
            if worker.lost:
                self.drop(run)

    def tidy(self) -> None:
        for run, worker in [*self.workers.items()]:
            if not worker.busy and time.monotonic() - worker.used > IDLE:
                self.drop(run)

    def close(self) -> None:
        with self.lock:
            self.closed = True
            for worker in filter(None, [*self.workers.values(), self.spare]):
                worker.end()


def task_source(address: str, secret: bytes) -> Callable[[], dict[str, Any] | None]:
    """A function that returns the next task's run, token and address, or None."""
    signed = internals.SuperExecAuthHttpInterceptor(
        master_secret=secret, protected_methods=frozenset({"/flwr.proto.Runtime/AcquireTask"})
    )
    client = internals.RuntimeHttpClient.from_server_address(
        server_address=address,
        insecure=True,
        root_certificates=None,
        interceptors=[internals.RuntimeVersionHttpInterceptor(component_name="SuperExec"), signed],
    )

    def acquire() -> dict[str, Any] | None:
        request = internals.AcquireTaskRequest(supported_task_types=[internals.TaskType.CLIENT_APP])
        reply = client.AcquireTask(request)
        if not (reply.HasField("task") and reply.token):
            return None
        return {"run": reply.task.run_id, "token": reply.token, "address": address}

    return acquire
