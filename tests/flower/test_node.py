"""`amsfl supernode`: workers that stay warm, one a run, and that end with whoever needs them."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from command_line import invoke

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from flwr.app import Message, RecordDict

from amsfl.core import UserError
from amsfl.flower import internals, supernode
from amsfl.flower.supernode import Worker, WorkerPool

# a worker in all but the work: it answers every line, with what it has seen so far, and dies when told to
FAKE = """
import json, os, sys, time
seen = []
for line in sys.stdin:
    seen.append(json.loads(line)["token"])
    if seen[-1] == "die":
        os._exit(9)
    if seen[-1] == "hang":
        time.sleep(600)
    print(seen, file=sys.stderr, flush=True)
    print("failed" if seen[-1] == "raise" else "done", flush=True)
"""


@pytest.fixture
def kept() -> Any:
    made: list[Worker] = []

    def make() -> Worker:
        made.append(Worker((sys.executable, "-S", "-c", FAKE)))
        return made[-1]

    held = WorkerPool("127.0.0.1:1", b"secret", make)
    held.made = made  # type: ignore[attr-defined]
    yield held
    held.close()
    for worker in made:
        assert not worker.alive


def test_a_run_keeps_its_worker_and_two_runs_never_share_one(kept: Any) -> None:
    for run in (1, 1, 2, 1, 2):
        kept.give(run, {"token": f"run {run}"}).join()
    assert len(kept.made) == 2 and kept.workers[1] is kept.made[0] and kept.workers[2] is kept.made[1]
    kept.give(3, {"token": "run 3"}).join()  # the one used longest ago makes room
    assert set(kept.workers) == {2, 3} and not kept.made[0].alive
    kept.give(1, {"token": "again"}).join()
    assert kept.workers[1] not in kept.made[:3]


@pytest.mark.parametrize("end", ["die", "raise"])
def test_a_worker_that_died_or_raised_is_replaced_ahead_of_the_next_message(kept: Any, end: str) -> None:
    """An exception of an app's cost three rounds: the next message paid for a new worker's imports."""
    kept.give(1, {"token": "a"}).join()
    kept.give(1, {"token": end}).join()
    assert kept.workers == {} and not kept.made[0].alive
    assert kept.spare is kept.made[1] and kept.spare.alive
    kept.give(1, {"token": "b"}).join()
    assert kept.workers[1] is kept.made[1] and kept.made[1].alive
    kept.made[1].process.kill()  # between two messages
    kept.made[1].process.wait()
    kept.give(1, {"token": "c"}).join()
    assert kept.workers[1] is kept.made[2]


def test_a_message_that_never_ends_holds_up_nobody(kept: Any) -> None:
    """Its run ended while it was fetched: the same run's next message and another run's go on."""
    stuck = kept.give(1, {"token": "hang"})
    kept.give(2, {"token": "a"}).join()
    assert stuck.is_alive() and kept.workers[1].busy
    kept.give(1, {"token": "b"}).join()
    stuck.join(30)
    assert not stuck.is_alive() and not kept.made[0].alive and kept.workers[1].alive


def test_idle_workers_are_ended(kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.give(1, {"token": "a"}).join()
    kept.tidy()
    assert kept.workers
    monkeypatch.setattr(supernode, "IDLE", -1.0)
    kept.tidy()
    assert not kept.workers and not kept.made[0].alive


def test_the_real_worker_ends_when_its_pipe_closes() -> None:
    worker = subprocess.Popen([*Worker.COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        time.sleep(0.2)
        worker.stdin.close()  # type: ignore[union-attr]
        assert worker.wait(60) == 0
        assert worker.stdout.read() == b""  # type: ignore[union-attr]
    finally:
        worker.kill()
        worker.wait()


PATCHED = [(module, name) for module, names in internals.PATCHED.items() for name in names]


@pytest.mark.parametrize(
    ("module", "name"), [*((home, name) for name, home in internals.NAMES.items()), *PATCHED]
)
def test_flower_has_every_internal_that_is_used(module: str, name: str) -> None:
    assert hasattr(import_module(module), name)


def test_a_message_wakes_the_pool_and_its_end_wakes_the_node(kept: Any) -> None:
    kept.done.set()
    began = time.monotonic()
    supernode.MessageLoop(0.01, kept).sleep(internals.IDLE_SLEEP)
    assert not kept.message.is_set() and time.monotonic() - began < 1  # idle: nobody is woken
    loop = supernode.MessageLoop(0.01, kept)
    loop.state, _ = node_state()
    loop.sleep(0.5)
    assert kept.message.is_set() and not kept.done.is_set()


def test_every_queued_task_is_taken(kept: Any) -> None:
    """Tasks of runs that were stopped lie before the newest one's; runs interleave."""
    queued = [{"run": run, "token": f"{run}"} for run in (1, 2, 1, 2)]
    for thread in kept.take_all(lambda: queued.pop(0) if queued else None):
        thread.join()
    assert not queued and set(kept.workers) == {1, 2} and len(kept.made) == 2
    assert kept.take_all(lambda: None) == []


class FakeLink:
    """A SuperLink's side: the ids of messages whose replies were sent, and which runs are over."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.over: set[int] = set()
        self.wanted: Callable[[Any], set[str]] = lambda tree: set()  # parts of a reply that it asks for

    def send(self, message: Any, tree: Any, seconds: float) -> tuple[set[str], str]:
        if message.metadata.run_id in self.over:
            raise import_module("flwr.supercore.run").RunNotRunningException
        self.sent.append(message.metadata.reply_to_message_id)
        return self.wanted(tree), "session"


class FakePool:
    """Its worker is busy for two looks and then gone, after `end`."""

    def __init__(self, end: Callable[[], None] = lambda: None):
        self.end, self.looks = end, 0

    def wanted(self, seconds: float) -> None:
        self.looks += 1
        if self.looks == 2:
            self.end()

    def at_work(self, waiting: Callable[[], set[int]]) -> set[int]:
        return waiting() | ({1, 2, 3, 4} if self.looks < 2 else set())


def deliver(pool: FakePool, push: Any, state: Any, store: Any, link: FakeLink) -> None:
    """A SuperNode's loop from a message to its reply."""
    loop = supernode.MessageLoop(0.01, pool)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        clock = type("Clock", (), {"sleep": staticmethod(loop.sleep)})
        patch.setattr(f"{internals.SUPERNODE_LOOP}.time", clock)
        loop.deliver(push, state=state, object_store=store, send=link.send, push_object=lambda *part: None)


def node_state() -> tuple[Any, Any]:
    store = import_module("flwr.supercore.object_store").ObjectStoreFactory().store()
    state = import_module("flwr.supernode.nodestate.in_memory_nodestate").InMemoryNodeState(store)
    state.set_node_id(1000)
    return state, store


def received(state: Any, run: int, number: int) -> Message:
    """A message of a run, as a SuperNode stores it."""
    task = internals.TaskIdentity
    task.run_id, task.node_id, task.task_id = run, 1000, 1
    message = Message(RecordDict(), 1000, "train")
    message.metadata.__dict__["_message_id"] = f"{run}.{number}"
    state.store_message(message)
    state.record_message_processing_start(f"{run}.{number}")
    return message


@pytest.mark.parametrize("replied", [True, False])
def test_an_older_message_does_not_leave_the_node_one_behind(replied: bool) -> None:
    """A run is stopped while its message is worked on, and its reply comes when the next run's message is
    there: Flower's loop then sent the old reply, asked for the next message, and had the new reply wait.

    Or that message has no reply yet: no worker has it, and what is said of it is sent to nobody.
    """
    state, store = node_state()
    link, push = FakeLink(), import_module(internals.SUPERNODE_LOOP)._push_messages
    old = received(state, 1, 1)
    link.over.add(1)
    if replied:
        internals.store_reply(Message(RecordDict(), reply_to=old), state, store)
    answer = Message(RecordDict(), reply_to=received(state, 2, 1))
    pool = FakePool(lambda: internals.store_reply(answer, state, store))
    deliver(pool, push, state, store, link)
    assert link.sent == ["2.1"] and not internals.unanswered(state) and not state.msg_store


def test_a_message_that_no_worker_has_is_given_up() -> None:
    """Its worker was killed before it had fetched it: Flower answers only for messages that were fetched."""
    state, store = node_state()
    link, push = FakeLink(), import_module(internals.SUPERNODE_LOOP)._push_messages
    received(state, 3, 1)

    pool = FakePool()
    deliver(pool, push, state, store, link)
    assert link.sent == ["3.1"] and pool.looks == 2


def test_a_message_whose_task_waits_for_a_worker_is_not_lost_however_long(kept: Any) -> None:
    """On a busy machine a task came later than any patience; as long as it is queued it is waited for."""
    state, store = node_state()
    link, push = FakeLink(), import_module(internals.SUPERNODE_LOOP)._push_messages
    message = received(state, 3, 1)
    task = state.create_task(internals.TaskType.CLIENT_APP, 3)
    pool, looks = FakePool(), [0]

    def late(waiting: Callable[[], set[int]]) -> set[int]:
        looks[0] += 1
        if looks[0] == 50:
            internals.store_reply(Message(RecordDict(), reply_to=message), state, store)
            state.claim_task(task)
        return waiting()

    pool.at_work = late  # type: ignore[method-assign]
    deliver(pool, push, state, store, link)
    assert looks == [50] and link.sent == ["3.1"] and not internals.waiting_runs(state)


def test_a_reply_whose_worker_died_while_it_sent_it_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower waits for the rest of it for good; so it does for a reply to a message that is gone."""
    state, store = node_state()
    link, push = FakeLink(), import_module(internals.SUPERNODE_LOOP)._push_messages
    message = received(state, 4, 1)
    internals.store_reply(Message(RecordDict(), reply_to=message), state, store)
    parts = [import_module("flwr.supercore.inflatable.inflatable_object").iterate_object_tree]
    link.wanted = lambda tree: {part.object_id for part in parts[0](tree)}
    monkeypatch.setattr(store, "get", lambda object_id: b"")
    deliver(FakePool(), push, state, store, link)
    assert not state.msg_store
    deliver(FakePool(), push, state, store, link)  # no message, and no reply will come


@pytest.mark.parametrize("words", [["--isolation", "subprocess"], ["--ssl-keyfile=a"], ["--port", "1"]])
def test_flags_that_make_no_sense_are_refused(words: list[str]) -> None:
    with pytest.raises(UserError, match="leave it out"):
        supernode.main(["--insecure", *words])
    assert "--poll" in invoke("supernode", "--poll", "0").stderr


def test_the_secret_is_read_once_and_is_no_file() -> None:
    path = supernode.readable_once(b"0123")
    with open(path, "rb") as file:
        assert file.read() == b"0123"
    assert json.dumps(path).startswith('"/dev/fd/')


def test_a_part_of_a_message_that_is_on_its_way_is_asked_for_again_soon() -> None:
    """Flower announces a message before its parts are there, and would sleep a second for the first."""
    from flwr.supercore.inflatable.inflatable_utils import ObjectUnavailableError

    for module in map(import_module, (internals.GRID, internals.SUPERNODE_LOOP)):
        internals.retry_soon(module.__name__)
        once = module.pull_objects  # type: ignore[attr-defined]
        internals.retry_soon(module.__name__)
        assert module.pull_objects.func is once.func  # type: ignore[attr-defined]
        tries = {"a": 0, "b": 0}

        def pull(key: str, tries: dict[str, int] = tries) -> bytes:
            tries[key] += 1
            if tries[key] < 3:
                raise ObjectUnavailableError(key)
            return key.encode()

        assert once(["a", "b"], pull) == {"a": b"a", "b": b"b"} and tries == {"a": 3, "b": 3}
        assert once.keywords["initial_backoff"] < 0.1  # type: ignore[attr-defined]
