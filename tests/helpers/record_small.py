"""Runs and studies without training: the record room alone, fast enough to be killed a thousand times."""

from pathlib import Path
from typing import Any

import numpy as np

from amsfl import record
from amsfl.record import (
    Checkpoint,
    Lock,
    Manifest,
    RoundRecord,
    StudyWriter,
    Summary,
    TrialRecord,
    folder,
    study,
)

FACTS = {"fake": {"name": "fake", "title": "Fake", "note": ""}}


def manifest(**settings: Any) -> Manifest:
    settings = {"method": "fake", "lr": 0.1, "rounds": 6, **settings}
    made = {"data": "none", "model": "one number"}
    return Manifest("run", settings, FACTS, made)


def one_round(number: int, lr: float = 0.1) -> RoundRecord:
    spent = {"sum": 1.5 * number, "makespan": 0.5 * number}
    scores = {"holdout": {"accuracy": 1 - 1 / (number + lr), "loss": 1 / number}}
    return RoundRecord(number, spent, metrics=scores, cohort=[0, 1], steps=[number, 2], lr=lr, mix=[0.5, 0.5])


def summary(rounds: int) -> Summary:
    return Summary(
        "fake", "none", False, "", 0, "finished", rounds, 0.5, None, {}, None, "sum", 1.0, {}, None, None,
        None, {"0": 1}, 1.0, 2.0,
    )  # fmt: skip


def model(number: int, lr: float = 0.1) -> np.ndarray[Any, Any]:
    """What training would have come to: the same for the same round and settings."""
    return np.arange(4, dtype=np.float32) * np.float32(lr) + np.float32(number)


def go(writer: record.RunWriter, begin: int, every: int = 2) -> None:
    lr, rounds = writer.manifest.settings["lr"], writer.manifest.settings["rounds"]
    for number in range(begin + 1, rounds + 1):
        writer.append(one_round(number, lr))
        if number % every == 0 or number == rounds:
            writer.checkpoint(
                Checkpoint(number, {"x": model(number, lr)}, {"far": float("inf"), "n": number})
            )
    writer.end(summary(rounds))


def run(where: Path, force: bool = False, **settings: Any) -> None:
    with record.create(where, manifest(**settings), force) as writer:
        go(writer, 0)


def resume(where: Path) -> None:
    """As federation.resume does, less the training."""
    with record.reopen(where, "run") as writer:
        point = writer.last_checkpoint()
        done = writer.rewind(point)
        if point:
            lr = writer.manifest.settings["lr"]
            assert point.host == {"far": float("inf"), "n": point.round}, "planner memory to the bit"
            assert point.arrays["x"].tobytes() == model(point.round, lr).tobytes()
            assert done == [one_round(n, lr) for n in range(1, point.round + 1)]
        go(writer, len(done))


def study_manifest(**settings: Any) -> Manifest:
    settings = {"title": "small", "trials": 3, **settings}
    facts = {"one": FACTS["fake"], "two": FACTS["fake"]}
    return Manifest("study", settings, facts)


def run_study(where: Path, **settings: Any) -> None:
    """Make it or go on with it, as study.start and study.work do."""
    fresh = study_manifest(**settings)
    lock = Lock(where)
    try:
        old = folder.read_manifest(where, "study") if folder.holds_record(where) else None
        same = old is not None and old.settings == fresh.settings
        writer = StudyWriter(where, lock) if same else study.create(where, fresh, lock)
        for entry in fresh.methods:
            done = {trial.trial for trial in writer.finished(entry)}
            for number in range(3):
                if number not in done:
                    writer.save(entry, [trial(entry, number)])
    finally:
        lock.release()


def trial(entry: str, number: int) -> TrialRecord:
    rounds = [RoundRecord(n, {"sum": 1.0 * n}, steps=[number, n], lr=0.5) for n in range(1, 4)]
    return TrialRecord(entry, number, summary(3)._replace(seed=7 + number, wall={"seconds": 1.0}), rounds)
