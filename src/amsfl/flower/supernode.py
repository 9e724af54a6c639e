"""`amsfl supernode`: Flower's SuperNode, with two things changed: who runs its ClientApps, and how long it
sleeps.

Flower's own SuperNode starts a process for every message, whose imports cost seconds, and sleeps three
seconds when there was no message. In its `--isolation process` mode it leaves the running to somebody else:
here a WorkerPool hands every message to a process that lives as long as its run, one a run, so that no two
runs meet. What is changed in Flower itself is in internals.py.
"""

import contextlib
import json
import os
import queue
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TextIO

from flwr.app import Error, Message

from amsfl.core import UserError
from amsfl.flower import internals

POLL = 0.2  # seconds between two questions to the SuperLink while there is nothing to do
OURS = "--isolation --superexec-auth-secret-file --ssl-certfile --ssl-keyfile --ssl-ca-certfile --host --port"
PORTS = range(20_000, 32_000)  # below those that systems hand out to outgoing connections
MOST = 2  # runs whose workers are kept at the same time
TIDY = 10.0  # seconds between two looks at who is idle
IDLE = 600.0  # seconds without a message after which a worker is ended


def main(arguments: Sequence[str], poll: float = POLL) -> None:
    """Run until ended; `arguments` are flower-supernode's."""
    taken = [flag for word in arguments if (flag := word.split("=")[0]) in OURS.split()]
    if taken:
        raise UserError(f"{taken[0]} is set by `amsfl supernode` itself; leave it out.")
    port = free_port()
    secret = secrets.token_bytes(32)  # whoever has it may take this node's messages; no file holds it
    sys.argv = ["flower-supernode", *arguments, "--host", "127.0.0.1", "--port", str(port)]
    sys.argv += ["--isolation", "process", "--superexec-auth-secret-file", readable_once(secret)]
    pool = WorkerPool(f"127.0.0.1:{port}", secret)  # its worker imports while we do
    loop = MessageLoop(poll, pool)
    internals.patch_supernode(loop.sleep, loop.deliver)
    threading.Thread(target=pool.run, name="amsfl-worker-pool", daemon=True).start()
    try:
        internals.flower_supernode()
    finally:
        pool.close()


def free_port() -> int:
    """One that nobody listens on; drawn, so that several federations that start at once seldom meet."""
    for port in random.SystemRandom().sample(PORTS, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise UserError(f"There is no free port between {PORTS[0]} and {PORTS[-1]} on loopback.")


def readable_once(secret: bytes) -> str:
    """A path under which Flower finds the secret: the end of a pipe that this process alone holds."""
    source, sink = os.pipe()
    with os.fdopen(sink, "wb") as file:
        file.write(secret)
    return f"/dev/fd/{source}"


class NoReply(Exception):
    """No worker is at work, and what a SuperNode waits for will not come."""


class MessageLoop:
    """How a SuperNode waits: `sleep` and `deliver` stand in for Flower's (internals.patch_supernode).

    A SuperNode runs one message at a time. Flower's own loop goes on as soon as any reply was sent, also one
    to an older message; the newer one's reply then waited for the message after it, and so did all that
    followed. Here every message is answered before the next is asked for.
    """

    def __init__(self, poll: float, pool: "WorkerPool"):
        self.poll, self.pool = poll, pool
        self.state: Any = None
        self.objects: Any = None
        self.at_work: set[int] | None = None  # runs, when a reply was last waited for

    def sleep(self, seconds: float) -> None:
        """Long when there was no message; while a reply is waited for, until the pool has done one.

        Flower has looked for a reply just now. Where nobody was at work before that, none will come.
        """
        if seconds >= internals.IDLE_SLEEP:
            time.sleep(min(seconds, self.poll))
            return
        if self.at_work is not None and self._give_up(self.at_work):
            return
        self.pool.wanted(seconds)
        self.at_work = self.pool.at_work(partial(internals.waiting_runs, self.state))

    def deliver(self, push: Callable[..., None], state: Any, object_store: Any, **connection: Any) -> None:
        """Send replies until no message is left without one."""
        self.state, self.objects, self.at_work = state, object_store, None
        with contextlib.suppress(NoReply):  # there is no message any more
            push(state=state, object_store=object_store, **connection)
            while internals.unanswered(state):
                push(state=state, object_store=object_store, **connection)

    def _give_up(self, at_work: set[int]) -> bool:
        """Answer for messages that no worker has and none will have: theirs ended before it had a reply.

        Where no message is without a reply, the worker died while it sent one: Flower would wait for the
        rest, or for another reply, for good. An exception makes it drop that reply and go on.
        """
        messages = internals.unanswered(self.state)
        if not messages and not at_work:
            raise NoReply("a reply's worker is gone")
        lost = [message for message in messages if message.metadata.run_id not in at_work]
        error = Error(internals.ErrorCode.CLIENT_APP_CRASHED, "The message was lost at its SuperNode.")
        for message in lost:
            internals.store_reply(Message(error, reply_to=message), self.state, self.objects)
        return bool(lost)


class Worker:
    """A process that runs one run's messages, one after another."""

    COMMAND = (sys.executable, "-m", "amsfl.flower.supernode")

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
            answer = self.process.stdout.readline().strip()
        except OSError:
            answer = ""
        self.used = time.monotonic()
        return answer == "done"

    def end(self) -> None:
        self.process.kill()  # first: whoever waits for its answer holds the pipe until it is gone
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                if pipe:
                    pipe.close()


class WorkerPool:
    """Asks the SuperNode at `address` for tasks, one a message; `secret` says that it may.

    A worker that has died, or whose app raised, is replaced; one that has had nothing to do for long is
    ended, and so are all of them with the SuperNode: their pipes close when it is gone.
    """

    def __init__(self, address: str, secret: bytes, make: Callable[[], Worker] = Worker):
        self.address, self.secret, self.make = address, secret, make
        self.workers: dict[int, Worker] = {}
        self.spare: Worker | None = make()  # warm before the first message
        self.lock, self.closed = threading.Lock(), False
        self.taking = threading.Lock()  # while tasks are between the SuperNode and their workers
        self.message, self.done = threading.Event(), threading.Event()

    def wanted(self, seconds: float) -> None:
        """There is a message to run; wait until one is done, but not longer than so."""
        self.message.set()
        self.done.wait(seconds)
        self.done.clear()

    def at_work(self, waiting: Callable[[], set[int]]) -> set[int]:
        """Runs with a worker that is busy, or with a task that is `waiting` for one."""
        with self.taking:
            return waiting() | {run for run, worker in [*self.workers.items()] if worker.busy}

    def run(self) -> None:
        """Until the SuperNode ends."""
        acquire = task_source(self.address, self.secret)
        while not self.closed:
            self.message.wait(TIDY)
            self.message.clear()
            self.tidy()
            self.take_all(acquire)

    def take_all(self, acquire: Callable[[], dict[str, Any] | None]) -> list[threading.Thread | None]:
        """Every task that is queued. Those of one run go to its worker one after another."""
        by_run: dict[int, list[dict[str, Any]]] = {}
        with self.taking:
            try:
                while task := acquire():
                    by_run.setdefault(int(task.pop("run")), []).append(task)
            except Exception as error:  # the SuperNode is ending, or too busy: it is asked again
                print(f"No task could be fetched ({type(error).__name__}).", file=sys.stderr)
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
        fine = all(worker.do(task) for task in tasks)  # what a dead worker did not do, the node gives up
        worker.busy = False
        if not fine and self.workers.get(run) is worker and not self.closed:
            code = worker.process.poll()
            print(f"A worker ended (code {code}); a new one is warm for the next message.", file=sys.stderr)
            self.drop(run)
            with self.lock:  # now, not when the message comes: its imports take seconds
                self.spare = self.spare or (None if self.closed else self.make())
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
            if worker := self.workers.pop(run, None):
                worker.end()

    def tidy(self) -> None:
        for run, worker in [*self.workers.items()]:
            if not worker.busy and time.monotonic() - worker.used > IDLE:
                self.drop(run)

    def close(self) -> None:
        with self.lock:
            self.closed = True
            for worker in filter(None, [*self.workers.values(), self.spare]):
                worker.end()


def connected(address: str, component: str, interceptor: Any, **more: Any) -> Any:
    """A client of the SuperNode beside us."""
    own = [internals.RuntimeVersionHttpInterceptor(component_name=component), interceptor]
    return internals.RuntimeHttpClient.from_server_address(
        server_address=address, insecure=True, root_certificates=None, interceptors=own, **more
    )


def task_source(address: str, secret: bytes) -> Callable[[], dict[str, Any] | None]:
    """A function that returns the next task's run, token and address, or None."""
    methods = frozenset({"/flwr.proto.Runtime/AcquireTask"})
    signed = internals.SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=methods)
    client = connected(address, "SuperExec", signed)

    def acquire() -> dict[str, Any] | None:
        request = internals.AcquireTaskRequest(supported_task_types=[internals.TaskType.CLIENT_APP])
        reply = client.AcquireTask(request)
        if not (reply.HasField("task") and reply.token):
            return None
        return {"run": reply.task.run_id, "token": reply.token, "address": address}

    return acquire


def work() -> None:
    """A worker: runs a run's messages one after another, so that imports and compiled programs are paid once.

    It is told of each message by a line on its standard input (address and token, by which it asks the
    SuperNode for the rest) and says "done" or "failed" in the end. When that input closes, the SuperNode is
    gone, and so is this process. What an app prints goes to the SuperNode's log.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # an app may print; the pipe is ours
    import amsfl.flower.client  # noqa: F401  (while nobody waits)

    internals.pull_task_input  # noqa: B018  (the same)

    apps: dict[str, Any] = {}
    try:
        for line in lines(sys.stdin):
            fine = answer(apps, **json.loads(line))
            print("done" if fine else "failed", file=answers, flush=True)
            if not fine:
                break  # whatever the app has left half done ends with this process
    except KeyboardInterrupt:  # Flower's way to say that the run was stopped
        pass
    os._exit(0)  # threads of the app's own may still run


def lines(source: TextIO) -> Iterator[str]:
    """Lines as they come. At their end the process ends, in the middle of a message too."""
    received: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in source:
            received.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield received.get()


def answer(apps: dict[str, Any], address: str, token: str) -> bool:
    """One message, from the SuperNode and back to it; whether the app did not raise."""
    token_ = internals.RuntimeTokenHttpInterceptor(token)
    retry = internals.make_simple_http_retry_invoker()
    client = connected(address, "flwr-clientapp", token_, retry_invoker=retry)
    alive = internals.HeartbeatSender(internals.make_task_heartbeat_fn_http(client))
    alive.start()
    message, context, reply = (None,) * 3
    status, why = internals.SubStatus.COMPLETED, ""
    try:
        message, context, run, fab = internals.pull_task_input(client)
        if fab.hash_str not in apps:  # installed where Flower installs it
            internals.install_from_fab(fab.content, skip_prompt=True)
            load_app = internals.get_load_client_app_fn("", None, multi_app=True)
            apps[fab.hash_str] = load_app(run.fab_id, run.fab_version, fab.hash_str)
        reply = apps[fab.hash_str](message=message, context=context)
    except Exception as error:
        traceback.print_exc()
        status, why = internals.SubStatus.FAILED, f"{type(error).__name__}: {error}"
        if message:
            reply = Message(Error(internals.ErrorCode.CLIENT_APP_RAISED_EXCEPTION, why), reply_to=message)
    try:
        if reply is not None and context is not None:
            internals.push_message(client, reply, context)
    finally:
        internals.push_task_output(client, context, status, why)
        alive.stop()
        client.close()
    return not why


if __name__ == "__main__":
    work()
