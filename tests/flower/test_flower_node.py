"""`amsfl supernode`: workers that stay warm, one a run, and that end with whoever needs them."""

import ast
import inspect
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from amsfl.core import UserError
from amsfl.flower.deploy import leftovers
from amsfl.flower.node import supernode, worker_pool
from amsfl.flower.node.worker_pool import Worker, WorkerPool
from amsfl.flower.polling import hasten

# a worker in all but the work: it answers every line, with what it has seen so far, and dies when told to
FAKE = """
import json, os, sys
seen = []
for line in sys.stdin:
    seen.append(json.loads(line)["token"])
    if seen[-1] == "die":
        os._exit(9)
    if seen[-1] == "hang":
        import time

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
def test_a_worker_that_died_or_raised_is_replaced(kept: Any, end: str) -> None:
    kept.give(1, {"token": "a"}).join()
    kept.give(1, {"token": end}).join()
    assert kept.workers == {} and not kept.made[0].alive
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
    monkeypatch.setattr(worker_pool, "IDLE", -1.0)
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


def test_flower_s_loop_is_still_the_one_that_we_hook_into() -> None:
    """Of `time` it only calls `sleep`: 3 seconds when idle, less while it waits for a reply."""
    from flwr.supernode import start_client_internal as loop

    tree = ast.parse(inspect.getsource(loop))
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    calls = [node for node in used if isinstance(node.value, ast.Name) and node.value.id == "time"]
    assert {node.attr for node in calls} == {"sleep"}
    slept = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.func in calls]
    seconds = sorted(ast.literal_eval(call.args[0]) for call in slept)
    assert seconds[-1] == supernode.IDLE and seconds[-2] < supernode.IDLE


def test_a_message_wakes_the_keeper_and_its_end_wakes_the_node(kept: Any) -> None:
    kept.done.set()
    began = time.monotonic()
    supernode.ShortSleeps(0.01, kept).sleep(supernode.IDLE)
    assert not kept.message.is_set() and time.monotonic() - began < 1  # idle: nobody is woken
    supernode.ShortSleeps(0.01, kept).sleep(0.5)
    assert kept.message.is_set() and not kept.done.is_set()


@pytest.mark.parametrize("words", [["--isolation", "subprocess"], ["--ssl-keyfile=a"], ["--poll", "0"]])
def test_flags_that_make_no_sense_are_refused(words: list[str]) -> None:
    with pytest.raises(UserError):
        supernode.main(["--insecure", *words])


def test_the_secret_is_read_once_and_is_no_file() -> None:
    path = supernode.readable_once(b"0123")
    with open(path, "rb") as file:
        assert file.read() == b"0123"
    assert json.dumps(path).startswith('"/dev/fd/')


def test_a_part_of_a_message_that_is_on_its_way_is_asked_for_again_soon() -> None:
    """Flower announces a message before its parts are there, and would sleep a second for the first."""
    from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectUnavailableError
    from flwr.superlink.grid import http_grid
    from flwr.supernode import start_client_internal as loop

    for module in (http_grid, loop):
        hasten(module)
        once = module.pull_objects  # type: ignore[attr-defined]
        hasten(module)
        assert module.pull_objects.func is once.func  # type: ignore[attr-defined]
        tries = {"a": 0, "b": 0}

        def pull(key: str, tries: dict[str, int] = tries) -> bytes:
            tries[key] += 1
            if tries[key] < 3:
                raise ObjectUnavailableError(key)
            return key.encode()

        assert once(["a", "b"], pull) == {"a": b"a", "b": b"b"} and tries == {"a": 3, "b": 3}
        assert once.keywords["initial_backoff"] < 0.1  # type: ignore[attr-defined]

    def never(key: str) -> bytes:
        raise ObjectUnavailableError(key)

    hasten(http_grid, 0.1)
    with pytest.raises(ObjectPullError, match="timeout"):  # its sender died
        http_grid.pull_objects(["a"], never)
    hasten(http_grid)


def test_a_killed_deployment_s_temporary_folder_is_removed_and_nobody_else_s(tmp_path: Path) -> None:
    out, mine, other = (tmp_path / name for name in ("out", "mine", "other"))
    for folder in (out, mine, other):
        folder.mkdir()
    leftovers.note_folder(out, mine)
    (mine / "rows.npz").write_text("rows")
    assert leftovers.remove_folder(out) and not mine.exists()
    assert not leftovers.remove_folder(out)  # nothing is written down any more
    leftovers.note_folder(out, other)
    (other / leftovers.MARK).write_text("somebody else")
    assert not leftovers.remove_folder(out) and other.exists()
