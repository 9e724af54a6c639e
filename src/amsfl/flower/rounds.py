"""All rounds of a run on real clients, and its folder, as a simulated run leaves one.

Flower's own `Strategy.start` cannot end before its last round, tells nobody of a round, and does not go on
where a killed one stopped; this one does, from the last whole round (one that was under way is run again),
and is otherwise the same.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from logging import INFO
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from flwr.supercore import log

from amsfl.core import VERSION, UserError
from amsfl.core.records import Json
from amsfl.core.scores import judged_by, shown_score, worth
from amsfl.flower.nodes import Nodes
from amsfl.flower.round_grid import RoundGrid
from amsfl.methods import METHODS
from amsfl.portable import PortableModel
from amsfl.portable.model import folder_files
from amsfl.record import Checkpoint, Manifest, RoundRecord, RunWriter, Summary, create, reopen
from amsfl.settings.definitions import ServeConfig
from amsfl.settings.parse import serve_config

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]
# what a server that knows the network itself says of it: then a model's file runs without clients' code
Network = Callable[[ArrayRecord], PortableModel]
TRIES = 5  # first rounds in which every node may fail
SEPARATOR = "/"  # between what an array is for and its name


class Rounds(Strategy):
    """A Strategy around another one, whose rounds are on record; what a round is, the heir says."""

    lr: float
    seconds: float | None
    out: str | Path | None
    resume: bool
    force: bool
    stop: Callable[[RoundRecord], bool]
    model: ArrayRecord | None
    grid: RoundGrid  # that the rounds go through
    # what the next round needs besides the arrays that it goes on from and what is known of nodes
    kept_arrays: tuple[str, ...]
    kept_numbers: tuple[str, ...]

    def __init__(self, strategy: Strategy, nodes: Nodes):
        self.strategy, self.nodes = strategy, nodes
        self.config: ServeConfig | None = None  # on record; None: what is known here
        self.network: Network = own_network
        self.writer: RunWriter | None = None  # of the record, with us as its only writer
        self.rounds: list[RoundRecord] = []  # from the first one, also of a run that goes on
        self.best_round: dict[str, Any] = {}  # round, score (more is better), arrays
        self.ended: Summary | None = None
        self.num_rounds: int | None = None
        self.log: list[Json] = []  # one entry a round: steps, lr, verdict, refused, ...
        self.began, self.elapsed, self.totals = math.nan, 0.0, {"sum": 0.0, "makespan": 0.0}
        self.epsilon: dict[str, float] = {}  # that nodes say they have spent
        self.spent = set[int]()  # nodes whose epsilon is
        self.failures = 0  # rounds in a row without a reply that could be used

    def configure_evaluate(self, *order: Any) -> Iterable[Message]:
        return self.strategy.configure_evaluate(*order)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        return self.strategy.aggregate_evaluate(server_round, replies)

    def ended_by(self, grid: Grid) -> RoundGrid:
        """The RoundGrid that ends the rounds; one that waits for all, if it was given another Grid."""
        held = getattr(self, "grid", None)
        if held is None or grid not in (held, held.grid):
            self.grid = grid if isinstance(grid, RoundGrid) else RoundGrid(grid)
        return self.grid

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
    ) -> Result:
        """All rounds; the arguments and the result are those of Flower's own `start`."""
        train_config, evaluate_config = train_config or ConfigRecord(), evaluate_config or ConfigRecord()
        grid = self.ended_by(grid)
        log(INFO, "Starting %s strategy:", type(self).__name__)
        self.summary()
        began, result, self.num_rounds = time.monotonic(), Result(), num_rounds
        arrays, first = self._opened(initial_arrays)
        result.arrays = arrays
        held = {
            "holdout": result.evaluate_metrics_serverapp,
            "clients": result.evaluate_metrics_clientapp,
            "training": result.train_metrics_clientapp,
        }
        score = evaluate_fn or (lambda number, arrays: None)
        try:
            if first == 1 and (at_first := score(0, arrays)) is not None:
                held["holdout"][0] = at_first
            for number in range(first, num_rounds + 1):
                log(INFO, "[ROUND %s/%s]", number, num_rounds)
                orders = self.configure_train(number, arrays, train_config, grid)
                replies = grid.send_and_receive(orders, timeout=timeout)
                fresh, metrics = self.aggregate_train(number, replies)
                result.arrays = arrays = arrays if fresh is None else fresh
                questions = self.configure_evaluate(number, arrays, evaluate_config, grid)
                answers = grid.send_and_receive(questions, timeout=timeout)
                scores = self.aggregate_evaluate(number, answers)
                splits = {"holdout": score(number, arrays), "clients": scores, "training": metrics}
                for split, part in splits.items():
                    if part is not None:
                        held[split][number] = part
                said = {split: dict(part) for split, part in splits.items() if part}
                log(INFO, "\t%s", said)
                if self._closed(number, arrays, said):
                    break
            self._end(arrays)
        finally:
            if self.writer is not None:
                self.writer.close()
        log(INFO, "Strategy execution finished in %.2fs", time.monotonic() - began)
        return result

    def _opened(self, arrays: ArrayRecord) -> tuple[ArrayRecord, int]:
        """Before the first round: where it begins, and its number."""
        own = {"method": "amsfl", "rounds": self.num_rounds, "lr": self.lr, "data": "own"}
        own |= {"seconds": self.seconds} if self.seconds is not None else {}
        self.config = config = self.config or serve_config(own)
        if self.out is None or not getattr(self.grid, "keeps", True):
            return arrays, 1
        where = Path(self.out).expanduser()
        if not self.resume:
            made = {"parameters": sum(one.numpy().size for one in arrays.values()), "arrays": sorted(arrays)}
            methods = {config.method: {"name": config.method, "title": titled(config.method), "note": ""}}
            data = {"name": config.data, "synthetic": False, "note": ""}  # whose, clients know
            about = {"data": self.network(arrays).about.get("data", data)}
            manifest = Manifest("flower", config.model_dump(), methods, made, about=about)
            self.writer = create(where, manifest, self.force)
            return arrays, 1
        self.writer = reopen(where, "flower")
        point = self.writer.last_checkpoint()
        self.rounds = self.writer.rewind(point)
        self.writer.change(config.model_dump(), {}, len(self.rounds))
        self.writer.remove_summary()
        return (arrays, 1) if point is None else (self._restored(point), point.round + 1)

    def _restored(self, point: Checkpoint) -> ArrayRecord:
        """Back to a checkpoint; the arrays to go on from."""
        kept: dict[str, ArrayRecord] = {}
        for name, part in point.arrays.items():
            kind, _, key = name.partition(SEPARATOR)
            kept.setdefault(kind, ArrayRecord())[key] = Array(np.array(part))
        host, following = point.host["flower"], kept.pop("next")
        if "best-model" in kept:
            self.best_round = host["best"] | {"arrays": kept.pop("best-model")}
        for name, value in (kept | host["state"]["own"]).items():
            setattr(self, name, value)
        self.model = following if host["state"]["stays"] else self.model
        self.nodes.load(host["state"]["nodes"])
        return following

    def _closed(self, number: int, arrays: ArrayRecord, metrics: Json) -> bool:
        """After a round, with its scores by split; whether it was the last one."""
        queued = getattr(self.grid, "queued", 0.0)  # in this process, where one node waits for another
        before, self.elapsed = self.elapsed, self.grid.now() - self.began - queued
        record = self._record(number, metrics, before)
        self.rounds.append(record)
        value = self.worth(record)
        if value is not None and value > self.best_round.get("score", -np.inf):
            self.best_round = {"round": number, "score": value, "arrays": arrays}
        if self.writer is not None:
            self.writer.append(record)
            kept = {name: getattr(self, name) for name in self.kept_arrays}
            kept |= {"next": arrays, "best-model": self.best_round.get("arrays")}
            parts = ((kind, *each) for kind, some in kept.items() for each in (some or {}).items())
            flat = {f"{kind}{SEPARATOR}{key}": part.numpy() for kind, key, part in parts}
            state: Json = {"own": {name: getattr(self, name) for name in self.kept_numbers}}
            state |= {"nodes": self.nodes.dump(), "stays": arrays is self.model}
            best = {key: part for key, part in self.best_round.items() if key != "arrays"}
            self.writer.checkpoint(Checkpoint(number, flat, {"flower": {"state": state, "best": best}}))
        self.failures = 0 if record.cohort else self.failures + 1
        if self.failures >= TRIES and not any(each.taken for each in self.nodes.each.values()):
            why = next(iter(self.log[-1]["refused"].values()), "none replied")
            raise UserError(f"Every node failed, {TRIES} times in a row ({why}): look at the clients.")
        over = self.stop(record) or bool(self.spent and self.spent >= self.nodes.each.keys())
        return over or (self.seconds is not None and self.elapsed >= self.seconds)

    def _record(self, number: int, metrics: Json, before: float) -> RoundRecord:
        """The round as it is on record."""
        entry, order = self.log[-1], {node: place for place, node in enumerate(self.nodes.each)}
        seconds = {"sum": sum(entry["seconds"]), "makespan": entry["took"]}
        self.totals = {clock: self.totals[clock] + part for clock, part in seconds.items()}
        self.epsilon |= {str(node): spent for node, spent in entry["epsilon"].items()}
        some = "verdict", "passes", "held_loss", "notes", "step_seconds"
        plan = {key: entry[key] for key in some if key in entry} | {"client_seconds": entry["seconds"]}
        plan["refused"] = [
            {"client": order.get(node), "reason": why} for node, why in entry["refused"].items()
        ]
        plan["asked"] = [order[node] for node in entry["steps"]]
        return RoundRecord(
            number,
            dict(self.totals),
            seconds,
            entry["predicted"],
            metrics,
            [order[node] for node in entry["nodes"]],
            entry["done"],
            entry["lr"],
            float(entry["up"]),
            float(entry["down"]),
            plan=plan,
            wall={"seconds": self.elapsed - before, "elapsed": self.elapsed},
            mix=entry["mix"],
            staleness=entry["age"],
            epsilon=[self.epsilon.get(str(node), 0.0) for node in order] if self.epsilon else [],
        )

    def worth(self, record: RoundRecord) -> float | None:
        """What rounds are compared by, more is better; None of one that was not scored."""
        scores = deciding_split(record.metrics)
        return worth(scores, shown_score(self.config.score, scores)) if self.config else None

    def _end(self, arrays: ArrayRecord) -> None:
        """The models' files and the summary."""
        config, last = self.config, self.network(arrays)
        names = self._names(last.about.get("sites", []))
        if self.writer is None or config is None:
            return
        self.writer.set_manifest(about=self.writer.manifest.about | {"clients": {"names": names}})
        summary = self.ended = self._summary(config, names)
        about: Json = {"title": titled(config.method), "data": config.data, "version": VERSION}
        about |= {"model": config.model if last.layers else "own", "clients": len(names)}
        about |= {"rounds": len(self.rounds), "metrics": summary.metrics}
        about["settings"] = config.model_dump(exclude_none=True)
        if summary.best:
            about |= {"score": summary.best["by"], "best": summary.best}
        best = dict(self.network(self.best_round["arrays"]).tensors) if self.best_round else None
        self.writer.end(summary, folder_files(last._replace(about=about), best))

    def _names(self, sites: Sequence[str]) -> list[str]:
        """Of the nodes: the data's sites as far as a grid says who has which, as one in this process does."""
        known: dict[Any, str] = dict(enumerate(sites))
        parts = getattr(self.grid, "partitions", {})
        return [known.get(parts.get(node), str(node)) for node in self.nodes.each]

    def _summary(self, config: ServeConfig, names: list[str]) -> Summary:
        """summary.json, as a simulated run's."""
        rounds, best, last = self.rounds, self.best_round, Json()
        for record in rounds:
            last = last | record.metrics  # not every split is scored in every round
        scores = deciding_split(last)
        score = shown_score(config.score, scores)
        by, larger = judged_by(scores, score)
        met = (each for each in rounds if score and score.met(deciding_split(each.metrics), config.target))
        reached = next(met, None)
        sign = 1 if larger else -1
        chosen = best and {"round": best["round"], "score": sign * best["score"], "by": by}
        named = dict(zip(map(str, self.nodes.each), names, strict=True))
        steps = {name: node.done for name, node in zip(names, self.nodes.each.values(), strict=True)}
        total = sum(steps.values())
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
            virtual_seconds=self.totals["makespan"],
            virtual_seconds_by_clock=self.totals,
            target=config.target,
            seconds_to_target=reached.wall["elapsed"] if reached else None,
            rounds_to_target=reached.round if reached else None,
            steps=steps,
            bytes_up=sum(record.bytes_up for record in rounds),
            bytes_down=sum(record.bytes_down for record in rounds),
            epsilon={name: self.epsilon[node] for node, name in named.items() if node in self.epsilon},
            refused=sum(len(record.plan["refused"]) for record in rounds),
            wall={"seconds": self.elapsed, "client_steps_per_second": total / max(self.elapsed, 1e-9)},
            score=config.score or (score.name if score else "accuracy"),
            best=chosen,
        )


def titled(method: str) -> str:
    """A method's name as people write it, of ours."""
    return METHODS.make(method).title if method in METHODS.table else method


def own_network(arrays: ArrayRecord) -> PortableModel:
    """Of clients' own code: a state_dict, the arrays by their own names."""
    return PortableModel((), {key: each.numpy() for key, each in arrays.items()}, (), ())


def deciding_split(metrics: Json) -> Json:
    """The split that targets are held against: the server's hold-out, else the clients' own test rows."""
    return metrics.get("holdout") or metrics.get("clients") or {}
