"""From tracks to speed-ups: time to a target against rivals chosen with hindsight, setting by setting."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from amsfl.clock import CLOCKS
from amsfl.study import adaptivity
from amsfl.study.adaptivity import ALPHAS, FIXED, PROFILES, RULES, TARGETS, Track

DIM = 10_117  # MLP 122-64-32-5
Setting = tuple[float, str, str]


class Time(NamedTuple):
    seconds: float  # at the target, or where the track ended without it
    reached: bool


Times = dict[tuple[Setting, int, float], Time]  # by setting, seed and target
SETTINGS: list[Setting] = [(a, p, k) for a in ALPHAS for p in PROFILES for k in CLOCKS]


class Row(NamedTuple):
    """One line of the table: who, against whom, to which target."""

    who: str
    against: str
    target: float
    mean: float  # geometric, over settings
    low: float  # 95% interval of that mean over settings and seeds, by bootstrap
    high: float
    worst: float
    best: float
    missed: float  # share of the contestant's own trials that never got there


def planned_times(tracks: Sequence[Track]) -> Times:
    """Tracks that were run in their own setting."""
    return {
        ((t.alpha, t.profile, t.clock), t.seed, target): _first(t, t.seconds, target)
        for t in tracks
        for target in TARGETS
    }


def fixed_times(name: str, tracks: Sequence[Track]) -> dict[tuple[float, int], Times]:
    """(lr, steps) -> times in all settings, of tracks that were run once per partition."""
    found: dict[tuple[float, int], Times] = {}
    for track in tracks:
        mine = found.setdefault((track.lr, track.steps), {})
        for profile in PROFILES:
            if (profile == "slow-big") != (track.profile == "slow-big"):
                continue
            for kind in CLOCKS:
                each = adaptivity.round_seconds(name, track, profile, kind, DIM)
                clock = each * np.arange(1, len(track.accuracy) + 1)
                for target in TARGETS:
                    key = ((track.alpha, profile, kind), track.seed, target)
                    mine[key] = _first(track, clock.tolist(), target)
    return found


def hindsight(candidates: Sequence[Times]) -> Times:
    """In every setting, to every target, the one candidate that is best over the seeds."""
    chosen: Times = {}
    for setting in SETTINGS:
        for target in TARGETS:
            pick = min(candidates, key=lambda times: _mean(times, setting, target))
            chosen |= {k: v for k, v in pick.items() if k[0] == setting and k[2] == target}
    return chosen


def compare(who: str, mine: Times, against: str, theirs: Times) -> Iterator[Row]:
    """Speed-up rows, one a target.

    A rival that never got there counts with its last second, a lower bound on our speed-up; a
    contestant that never did counts with ten times its own, and in `missed`.
    """
    for target in TARGETS:
        logs = np.array(
            [[_log(mine[(s, n, target)], theirs[(s, n, target)]) for n in _seeds(mine)] for s in SETTINGS]
        )
        each = logs.mean(1)
        low, high = _interval(logs)
        mean, worst, best = (float(np.exp(v)) for v in (each.mean(), each.min(), each.max()))
        missed = float(np.mean([not time.reached for key, time in mine.items() if key[2] == target]))
        yield Row(who, against, target, mean, low, high, worst, best, missed)


def _log(mine: Time, theirs: Time) -> float:
    ours = mine.seconds if mine.reached else 10 * mine.seconds
    return float(np.log(theirs.seconds / ours))


def table(units: dict[str, list[Track]]) -> list[Row]:
    """Every comparison that the finished units allow."""
    grids = {name: fixed_times(name, units[name]) for name in FIXED if name in units}
    rows: list[Row] = []
    if "fedavg" in grids:
        for lr in (0.05, 0.2, 0.5):
            if f"steps lr={lr:g}" in units:
                rivals = [times for (rate, _), times in grids["fedavg"].items() if rate == lr]
                mine = planned_times(units[f"steps lr={lr:g}"])
                rows += compare(
                    f"planned steps alone, lr {lr:g}",
                    mine,
                    "FedAvg, best fixed steps, same lr",
                    hindsight(rivals),
                )
    if "amsfl" not in units or not grids:
        return rows
    ours = planned_times(units["amsfl"])
    everything = [times for grid in grids.values() for times in grid.values()]
    best = hindsight(everything)
    rows += compare("AMSFL", ours, "best of everything tuned, with hindsight", best)
    for name, grid in grids.items():
        rows += compare("AMSFL", ours, f"{name}, best lr and steps", hindsight(list(grid.values())))
    rows += compare("AMSFL", ours, "FedAvg, 20 steps, lr 0.05", grids["fedavg"][(0.05, 20)])
    for name in RULES:
        if name in units:
            rows += compare("AMSFL", ours, f"{name} rule, lr 0.5", planned_times(units[name]))
    papers = [planned_times(units[name]) for name in units if name.startswith("paper")]
    if papers:
        rows += compare("AMSFL", ours, "AMSFL as printed, best lr", hindsight(papers))
    for name in adaptivity.PARTS:
        if name in units:
            rows += compare(
                f"AMSFL, {name}", planned_times(units[name]), "best of everything tuned, with hindsight", best
            )
    return rows


def as_markdown(rows: Sequence[Row]) -> str:
    """The table as people read it: a line per pair, a column per target."""
    lines = [
        "| who | against | " + " | ".join(f"to {t:.0%}" for t in TARGETS) + " | worst | best | not reached |",
        "| --- " * (len(TARGETS) + 5) + "|",
    ]
    pairs = dict.fromkeys((row.who, row.against) for row in rows)
    for who, against in pairs:
        mine = [row for row in rows if (row.who, row.against) == (who, against)]
        cells = [f"{row.mean:.2f} ({row.low:.2f} to {row.high:.2f})" for row in mine]
        worst, best = min(row.worst for row in mine), max(row.best for row in mine)
        missed = max(row.missed for row in mine)
        lines.append(f"| {who} | {against} | {' | '.join(cells)} | {worst:.2f} | {best:.1f} | {missed:.0%} |")
    return "\n".join(lines) + "\n"


def _first(track: Track, seconds: Sequence[float], target: float) -> Time:
    for accuracy, when in zip(track.accuracy, seconds, strict=True):
        if accuracy >= target:
            return Time(when, True)
    return Time(seconds[-1], False)


def _mean(times: Times, setting: Setting, target: float) -> float:
    """Mean log time over the seeds; a candidate that fails on a seed is chosen only if all do."""
    found = [time for key, time in times.items() if key[0] == setting and key[2] == target]
    return float(np.mean([np.log(time.seconds) + 20 * (not time.reached) for time in found]))


def _seeds(times: Times) -> list[int]:
    return sorted({key[1] for key in times})


def _interval(logs: Any, draws: int = 2000) -> tuple[float, float]:
    """Resampled settings, and seeds within them."""
    rng = np.random.default_rng(0)
    settings, seeds = logs.shape
    picked = rng.integers(settings, size=(draws, settings))
    which = rng.integers(seeds, size=(draws, settings, seeds))
    means = logs[picked[:, :, None], which].mean((1, 2))
    low, high = np.quantile(means, [0.025, 0.975])
    return float(np.exp(low)), float(np.exp(high))
