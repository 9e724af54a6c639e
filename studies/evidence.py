"""What AMSFL is worth, on the suite's cases: planning all else equal, one setting for all, the same tuning.

    python studies/evidence.py --cases new --who amsfl,fixed    # minutes a case on two cores
    python studies/evidence.py --tables results/evidence        # the tables of what is there
    python studies/evidence.py --tables results/evidence --cases wrong-labels    # or few-rows, part-cohorts

A run is 150 rounds (a rival of many steps a round ends after 3,000 of them), of two seeds (rivals: one), on
two profiles; AMSFL and fixed steps on both clocks, the rest side by side. A target lies 70, 85 or 95% of the
way from the largest class's share to the best mean accuracy that any contestant held over a tenth of its
rounds. Times are compared case by case as geometric means, over cases in which something can be learned; who
does not reach a target counts with twice its last second.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from amsfl import clock
from amsfl.core.records import Json
from amsfl.data import Dataset
from amsfl.simulation import CustomParts, Result, make_config, run_batch

sys.path.insert(0, str(Path(__file__).parent))
from suite.cases import Case, pick
from suite.data import case_data

ROUNDS, WORK, SEEDS = 150, 3000, (900, 901)
RATES, STEPS, LATE = (0.05, 0.2, 0.5, 1.0), (2, 5, 10, 20, 50), (0.70, 0.85, 0.95)
LADDER = 200  # levels of accuracy at which times are kept
MISSED = 2.0

Settings = list[Json]  # of one contestant, without profile, clock and seed
CONTESTANTS: dict[str, Settings] = {
    "amsfl": [{"method": "amsfl"}],
    "rates": [{"method": "amsfl", "lr": lr} for lr in (0.05, 0.15, 1.5)],
    "fixed": [{"method": "amsfl", "policy": "fixed", "steps": steps} for steps in STEPS],
    "speed": [{"method": "amsfl", "policy": "speed", "steps": steps} for steps in STEPS[1:4]],
    "fill": [{"method": "amsfl", "policy": "fill", "steps": steps} for steps in STEPS[1:4]],
    "fedcompass": [{"method": "fedcompass", "lr": lr, "steps": s} for lr in RATES[1:3] for s in (10, 20, 50)],
}
for rival in ("fedavg", "feddyn", "scaffold"):
    CONTESTANTS[rival] = [{"method": rival, "lr": lr, "steps": s} for lr in RATES for s in STEPS]
CONTESTANTS["fedexp"] = [each | {"extrapolation": 4.0} for each in CONTESTANTS["fedavg"]]
ALONE = ("fedavg", "feddyn", "scaffold", "fedexp")  # the same whatever clock and profile say
BOTH = ("amsfl", "fixed")  # on both clocks; others where the clock chooses, side by side


def label(settings: Json) -> str:
    """`fixed 10`, `lr 0.5, 10 steps`: a contestant's setting in words."""
    words = [f"lr {settings['lr']:g}"] if "lr" in settings else []
    words += [f"{settings['steps']} steps"] if "steps" in settings else []
    return ", ".join(words)


def configs(case: Case, who: str, settings: Json) -> Iterator[Json]:
    """Every run of a contestant's setting."""
    shared = {name: getattr(case, name) for name in ("model", "clients", "cohort", "batch")}
    own = {"partition": case.partition, "rounds": ROUNDS, "details": ""}
    if who in ALONE:
        own["rounds"] = min(ROUNDS, WORK // settings["steps"])
    clocks = clock.CLOCKS if who in BOTH else ("makespan",)
    for profile in case.profiles[:1] if who in ALONE else case.profiles:
        for kind in clocks:
            for seed in SEEDS[: 1 if who in ALONE else None]:
                yield shared | own | settings | {"profile": profile, "clock": kind, "seed": seed}


def run_case(case: Case, who: str, data: Dataset) -> list[Json]:
    """One contestant in one case: a row for every run, profile and clock."""
    rows, batches = [], defaultdict(list)
    for settings in CONTESTANTS[who]:
        for each in configs(case, who, settings):
            batches[each["rounds"], str(settings.get("policy"))].append((settings, make_config(each)))
    for some in batches.values():
        results = run_batch([config for _, config in some], CustomParts(dataset=data))
        for (settings, config), result in zip(some, results, strict=True):
            accuracy = np.array([r.metrics["holdout"]["accuracy"] for r in result.rounds])
            seen = {"case": case.name, "who": who, "label": label(settings), "seed": config.seed}
            last = max(1, len(accuracy) // 10)
            held = np.convolve(accuracy, np.ones(last) / last, "valid").max()
            seen |= {"end": accuracy[-last:].mean(), "held": held}
            for profile, kind, seconds in timed(case, who, config, result):
                rows.append(seen | {"profile": profile, "clock": kind, "times": ladder(accuracy, seconds)})
    return rows


def timed(case: Case, who: str, config: Any, result: Result) -> Iterator[tuple[str, str, np.ndarray]]:
    """When the rounds ended, in every profile and clock that the run stands for."""
    if who not in ALONE:
        yield config.profile, config.clock, np.array([r.seconds[config.clock] for r in result.rounds])
        return
    for profile in case.profiles:
        speeds = clock.profile(profile, len(result.parts.task.shards.size[0]), config.seed)
        costs = clock.costs(speeds, result.parts.work)
        each = [clock.round_seconds(costs, np.array(r.cohort), r.steps) for r in result.rounds]
        for kind in clock.CLOCKS:
            yield profile, kind, np.cumsum([seconds[kind] for seconds in each])


def ladder(accuracy: np.ndarray, seconds: np.ndarray) -> list[float]:
    """The second at which each level of accuracy was first reached; below 0: not by this last one."""
    best = np.maximum.accumulate(accuracy)
    first = np.searchsorted(best, np.arange(LADDER + 1) / LADDER)
    times = np.append(seconds, -seconds[-1])[first]
    return [float(f"{t:.4g}") for t in times]


# -- tables ---------------------------------------------------------------------------------------------


def read(folder: Path, cases: Collection[str]) -> list[Json]:
    """What files hold of these cases, or of all."""
    paths = [
        path for path in sorted(folder.rglob("*--*.json")) if path.name.split("--")[0] in cases or not cases
    ]
    return [json.loads(path.read_text()) for path in paths]


class Table:
    """All rows, and what is asked of them."""

    def __init__(self, folder: Path, levels: Sequence[float] = (), cases: Collection[str] = ()):
        self.levels = levels  # of accuracy, in place of parts of the way
        found = read(folder, cases)
        self.rows = [row for each in found for row in each["rows"]]
        self.majority = {each["case"]: each["majority"] for each in found}
        best: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for row in self.rows:
            best[row["case"], row["who"], row["label"], row["profile"], row["clock"]].append(row["held"])
        self.best = {case: max(np.mean(v) for k, v in best.items() if k[0] == case) for case in self.majority}

    def learnable(self, case: str) -> bool:
        return self.best[case] - self.majority[case] > 0.03

    def some(self, case: str, who: str, labels: Sequence[str] | None = None) -> list[Json]:
        own = [row for row in self.rows if row["case"] == case and row["who"] == who]
        return own if labels is None else [row for row in own if row["label"] in labels]

    def times(self, rows: Sequence[Json], way: float) -> dict[tuple[str, str], dict[str, float]]:
        """By profile and clock, and by setting: mean log second to that part of the way, over seeds."""
        logs: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for row in rows:
            low = self.majority[row["case"]]
            target = way if self.levels else low + way * (self.best[row["case"]] - low)
            level = int(np.ceil(target * LADDER - 1e-9))
            t = row["times"][level]
            logs[row["profile"], row["clock"]][row["label"]].append(np.log(t if t > 0 else -MISSED * t))
        return {key: {name: float(np.mean(v)) for name, v in some.items()} for key, some in logs.items()}

    def faster(self, ours: Sequence[Json], theirs: Sequence[Json], way: float) -> float:
        """How many times as fast ours are, each with its best setting in every profile and clock."""
        mine, other = self.times(ours, way), self.times(theirs, way)
        both = mine.keys() & other.keys()
        return float(np.exp(np.mean([min(other[key].values()) - min(mine[key].values()) for key in both])))

    def faster_beforehand(self, ours: Sequence[Json], theirs: Sequence[Json], way: float) -> float:
        """The same where each one's setting was the best of the other seed's run: as one would choose it."""
        logs = []
        for tried, shown in (SEEDS, SEEDS[::-1]):
            before, after = (
                [self.times([row for row in rows if row["seed"] == seed], way) for rows in (ours, theirs)]
                for seed in (tried, shown)
            )
            mine, other = (
                {key: now[key][min(then[key], key=then[key].__getitem__)] for key in now if key in then}
                for then, now in zip(before, after, strict=True)
            )
            logs += [other[key] - mine[key] for key in mine.keys() & other.keys()]
        return float(np.exp(np.mean(logs)))

    def end(self, rows: Sequence[Json]) -> float:
        """Mean accuracy of the last tenth, in points."""
        return 100 * float(np.mean([row["end"] for row in rows]))

    def best_end(self, rows: Sequence[Json]) -> float:
        """That of the best setting, with hindsight."""
        groups: dict[str, list[Json]] = defaultdict(list)
        for row in rows:
            groups[row["label"]].append(row)
        return max(map(self.end, groups.values()))


def compare(
    table: Table,
    title: str,
    ours: Callable[[str], list[Json]],
    theirs: Callable[[str], list[Json]],
    beforehand: bool = False,
) -> None:
    """One line: times as fast, in how many cases, and points at the end (of the best with hindsight)."""

    def faster(case: str, way: float) -> float:
        if beforehand:
            return table.faster_beforehand(ours(case), theirs(case), way)
        return table.faster(ours(case), theirs(case), way)

    cases = [case for case in table.majority if ours(case) and theirs(case)]
    learn = [case for case in cases if table.learnable(case)]
    if not learn:
        return
    levels = table.levels or LATE
    ratios = np.array([[faster(case, way) for way in levels] for case in learn])
    ends = np.array([table.best_end(ours(case)) - table.best_end(theirs(case)) for case in cases])
    fast = " / ".join(f"{each:.2f}" for each in np.exp(np.log(ratios).mean(0)))
    ahead = f"{(ratios[:, 0] > 1).sum()} of {len(learn)}"
    error = ends.std(ddof=1) / len(ends) ** 0.5 if len(ends) > 1 else 0.0
    worst = f"{cases[int(ends.argmin())]} {ends.min():+.1f}"
    print(f"| {title} | {fast} | {ahead} | {ends.mean():+.1f} ± {error:.1f} | {worst} |")


def show(folder: Path, levels: Sequence[float] = (), cases: Collection[str] = ()) -> None:
    table = Table(folder, levels, cases)

    def of(who: str, *labels: str) -> Callable[[str], list[Json]]:
        return lambda case: table.some(case, who, labels or None)

    def rivals(case: str) -> list[Json]:
        return [row | {"label": f"{who}, {row['label']}"} for who in ALONE for row in table.some(case, who)]

    print(f"{len(table.majority)} cases\n")
    print("| AMSFL against | times as fast to 70 / 85 / 95% | faster to 70% | last tenth | worst |")
    print("| --- | --- | --- | --- | --- |")
    amsfl = of("amsfl")
    compare(table, "ten fixed steps, all else equal", amsfl, of("fixed", "10 steps"))
    compare(table, "the best of five fixed numbers of steps, with hindsight", amsfl, of("fixed"))
    for who in ("fixed", "speed", "fill", "fedcompass"):
        compare(table, f"`{who}`, its steps chosen on the other seed", amsfl, of(who), beforehand=True)
    for who in ("speed", "fill"):
        compare(table, f"`{who}`, ten steps on average, all else equal", amsfl, of(who, "10 steps"))
    compare(table, "FedCompass, the best of six, with hindsight", amsfl, of("fedcompass"))
    compare(
        table, "FedAvg at one setting for all (lr 0.5, 10 steps)", amsfl, of("fedavg", "lr 0.5, 10 steps")
    )
    both = lambda case: table.some(case, "amsfl") + table.some(case, "rates")  # noqa: E731
    for who in ALONE:
        compare(table, f"{who}, the best of 20; AMSFL's lr of four", both, of(who))
    compare(table, "the best of all 80; AMSFL's lr of four", both, rivals)
    for rate in ("lr 0.05", "lr 0.15", "lr 1.5"):
        compare(table, f"itself at {rate}", amsfl, of("rates", rate))


# -- running --------------------------------------------------------------------------------------------


def work(case: Case, who: Sequence[str], given: argparse.Namespace) -> None:
    """All that is missing of one case."""
    data = None
    for name in who:
        path = given.out / f"{case.name}--{name}.json"
        if path.exists() or (name == "fedcompass" and case.cohort):  # it needs all clients under way
            continue
        data = data or case_data(case)
        began = time.perf_counter()
        counts = np.bincount(data.evals["holdout"][1])
        rows = run_case(case, name, data)
        whole = {"case": case.name, "majority": float(counts.max() / counts.sum()), "rows": rows}
        path.write_text(json.dumps(whole))
        print(f"{case.name} {name}: {time.perf_counter() - began:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", default="known,new", help="names, or known, new, nslkdd")
    parser.add_argument("--levels", default="", help="accuracies to reach, in place of parts of the way")
    parser.add_argument("--who", default=",".join(CONTESTANTS), help="contestants")
    parser.add_argument("--out", type=Path, default=Path("results/evidence"))
    parser.add_argument("--tables", type=Path, help="only show what this folder holds")
    parser.add_argument("--processes", type=int, default=1, help="cases side by side, on cores of their own")
    given = parser.parse_args()
    levels = [float(level) for level in given.levels.split(",") if level]
    cases = [case for name in given.cases.split(",") for case in pick(name)]
    if given.tables:
        return show(given.tables, levels, [case.name for case in cases])
    given.out.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    cores = context.SimpleQueue()
    for place in range(given.processes):
        cores.put(range(place, os.cpu_count() or 1, given.processes))
    with context.Pool(given.processes, stay, (cores,)) as pool:
        pool.map(partial(work, who=given.who.split(","), given=given), cases, chunksize=1)
    show(given.out, levels, [case.name for case in cases])


def stay(cores: Any) -> None:
    """A process keeps to its cores, where the system lets it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores.get())


if __name__ == "__main__":
    main()
