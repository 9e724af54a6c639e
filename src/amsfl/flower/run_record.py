"""A run's folder: rounds as they end, a checkpoint after each, models and a summary, as a simulated run
leaves them.

A server that was killed goes on from the last whole round: the round that was under way is run again.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord

from amsfl.core.records import Json
from amsfl.core.scores import judged_by, shown_score, worth
from amsfl.core.version import VERSION
from amsfl.portable import PortableModel
from amsfl.portable.model import folder_files
from amsfl.record import Checkpoint, Manifest, MethodFacts, RoundRecord, Summary, create, reopen
from amsfl.settings.definitions import ServeConfig

SEPARATOR = "/"  # between what an array is for and its name


class NetworkDescription(NamedTuple):
    """What a server that knows the network itself says of it: then its files run without clients' code."""

    like: PortableModel  # layers, classes, features, preprocessing; its tensors are not looked at
    tensors: Callable[[ArrayRecord], Mapping[str, Any]]  # by the names that the layers have


class RunFolder:
    """The record of one run, with us as its only writer until `close`."""

    def __init__(
        self, where: Path, config: ServeConfig, arrays: ArrayRecord, resume: bool, force: bool = False
    ):
        self.config, self.rounds = config, list[RoundRecord]()
        self.network: NetworkDescription | None = None
        self.point: Checkpoint | None = None
        self.summary: Summary | None = None  # after the end
        self.best: dict[str, Any] = {}  # round, score (more is better), arrays
        if resume:
            self.writer = reopen(where, "flower")
            self.point = self.writer.last_checkpoint()
            self.rounds = self.writer.rewind(self.point)
            self.writer.change(config.model_dump(), {}, len(self.rounds))
            self.writer.remove_summary()
        else:
            self.writer = create(where, manifest(config, arrays), force)

    def restored(self) -> tuple[dict[str, ArrayRecord], Json] | None:
        """What `save` kept last; None where nothing is."""
        if self.point is None:
            return None
        kept: dict[str, ArrayRecord] = {}
        for name, part in self.point.arrays.items():
            kind, _, key = name.partition(SEPARATOR)
            kept.setdefault(kind, ArrayRecord())[key] = Array(np.array(part))
        host = self.point.host["flower"]
        if "best-model" in kept:
            self.best = host["best"] | {"arrays": kept.pop("best-model")}
        return kept, host["state"]

    def append(self, record: RoundRecord, model: ArrayRecord) -> None:
        """A round, and whether its model is the best one so far."""
        self.rounds.append(record)
        self.writer.append(record)
        scores = deciding_split(record.metrics)
        value = worth(scores, shown_score(self.config.score, scores))
        if value is not None and value > self.best.get("score", -np.inf):
            self.best = {"round": record.round, "score": value, "arrays": model}

    def save(self, arrays: Mapping[str, ArrayRecord | None], state: Json) -> None:
        """All that the next round needs."""
        kept = dict(arrays) | {"best-model": self.best.get("arrays")}
        parts = ((kind, *each) for kind, record in kept.items() for each in (record or {}).items())
        flat = {f"{kind}{SEPARATOR}{key}": np.asarray(part.numpy(), order="C") for kind, key, part in parts}
        best = {key: value for key, value in self.best.items() if key != "arrays"}
        self.writer.checkpoint(Checkpoint(len(self.rounds), flat, {"flower": {"state": state, "best": best}}))

    def end(self, arrays: ArrayRecord, names: list[int], epsilon: dict[str, float], elapsed: float) -> None:
        """The models' files and the summary."""
        config, network = self.config, self.network or OWN
        self.writer.describe({"clients": {"names": [str(name) for name in names]}})
        summary = self.summary = self._summary(names, epsilon, elapsed)
        about: Json = {"title": config.method, "data": config.data, "version": VERSION}
        about |= {"model": config.model if self.network else "own", "clients": len(names)}
        about |= {"rounds": len(self.rounds), "metrics": summary.metrics}
        about["settings"] = config.model_dump(exclude_none=True)
        if summary.best:
            about |= {"score": summary.best["by"], "best": summary.best}
        best = dict(network.tensors(self.best["arrays"])) if self.best else None
        last = network.like._replace(tensors=dict(network.tensors(arrays)), about=about)
        self.writer.end(summary, folder_files(last, best))

    def _summary(self, names: list[int], epsilon: dict[str, float], elapsed: float) -> Summary:
        """summary.json, as a simulated run's."""
        config, rounds, best = self.config, self.rounds, self.best
        last: Json = {}
        steps = dict.fromkeys(map(str, names), 0)
        for record in rounds:
            last = last | record.metrics  # not every split is scored in every round
            for who, count in zip(record.cohort, record.steps, strict=True):
                steps[str(names[who])] += count
        scores = deciding_split(last)
        score = shown_score(config.score, scores)
        by, larger = judged_by(scores, score)
        met = (each for each in rounds if score and score.met(deciding_split(each.metrics), config.target))
        reached = next(met, None)
        seconds = rounds[-1].seconds if rounds else {"sum": 0.0, "makespan": 0.0}
        sign = 1 if larger else -1
        chosen = best and {"round": best["round"], "score": sign * best["score"], "by": by}
        return Summary(
            method=config.method,
            data=config.data,
            synthetic=False,
            note="",
            seed=config.seed,
            status="finished",
            rounds=len(rounds),
            accuracy=scores.get("accuracy"),
            test_accuracy=last.get("test", {}).get("accuracy"),
            metrics=last,
            local_accuracy=None,
            clock="makespan",
            virtual_seconds=seconds["makespan"],
            virtual_seconds_by_clock=seconds,
            target=config.target,
            seconds_to_target=reached.wall["elapsed"] if reached else None,
            rounds_to_target=reached.round if reached else None,
            steps=steps,
            bytes_up=sum(record.bytes_up for record in rounds),
            bytes_down=sum(record.bytes_down for record in rounds),
            epsilon=epsilon,
            refused=sum(len(record.plan["refused"]) for record in rounds),
            wall={"seconds": elapsed, "client_steps_per_second": sum(steps.values()) / max(elapsed, 1e-9)},
            score=config.score or (score.name if score else "accuracy"),
            best=chosen,
        )

    def close(self) -> None:
        self.writer.close()


# of clients' own code: a state_dict, the arrays by their own names
OWN = NetworkDescription(
    PortableModel((), {}, (), ()), lambda arrays: {key: each.numpy() for key, each in arrays.items()}
)


def manifest(config: ServeConfig, arrays: ArrayRecord) -> Manifest:
    """record.json of a run on real clients: whose data it is from, only they know."""
    made = {"parameters": sum(each.numpy().size for each in arrays.values()), "arrays": sorted(arrays)}
    about = {"data": {"name": config.data, "synthetic": False, "note": ""}}
    methods = {config.method: MethodFacts(config.method, config.method)}
    return Manifest("flower", config.model_dump(), methods, made, about=about)


def deciding_split(metrics: Json) -> Json:
    """The split that targets are held against: the server's hold-out, else the clients' own test rows."""
    return metrics.get("holdout") or metrics.get("clients") or {}
