"""Times to a target against rivals tuned with hindsight: what adaptivity.py and suite/ share.

A track is one trial: its accuracy after every round, and when the rounds ended in every setting (profile and
clock) that the trial stands for. Who takes the same steps whatever the clock says is run once for a seed, and
timed in every setting; who plans steps by the clock is run in each.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from amsfl import clock
from amsfl.simulation import Result, RunConfig

from common import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATES = (0.05, 0.2, 0.5, 1.0)  # that rivals are tuned over
STEPS = (2, 5, 10, 20, 50)
WORK = 3000  # steps of one client: a rival of many steps a round ends after fewer rounds
ABLATIONS: dict[str, dict[str, float]] = {  # AMSFL with one part switched off or set otherwise
    "no polyak, lr 0.5": {"polyak": 0.0},
    "no closing step": {"closing": 0.0},
    "plain averaging": {"balance": 0.0},
    "normalised averaging": {"balance": 1.0},
    "no line search": {"search": 0.0},
    "no momentum": {"momentum": 0.0},
    "no averaging": {"averaging": 0.0},
    "no judge": {"judge": 0.0},
    "no cooling": {"cooling": 0.0},
    "no correction": {"correction": 0.0},
}
MISS = 10  # a contestant that never reaches the target counts with so many times its last second
TICKS = (0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256)


class Track(NamedTuple):
    """One trial."""

    seed: int
    lr: float
    steps: int
    accuracy: list[float]  # of the hold-out, after every round
    seconds: dict[str, list[float]]  # by setting: when each round ended; one number: each round took it


class Times(NamedTuple):
    """A candidate's times to a target in one setting."""

    label: str
    seconds: dict[int, float]  # by seed; where it was not reached, those until the trial ended
    reached: dict[int, bool]

    @property
    def cost(self) -> float:
        """Mean log time; a candidate that fails on a seed is worse than any that does not."""
        return float(np.mean([np.log(s) + 20 * (not self.reached[seed]) for seed, s in self.seconds.items()]))


def setting(profile: str, kind: str, group: str = "") -> str:
    return "|".join(filter(None, [group, profile, kind]))


def planned_track(config: RunConfig, result: Result, group: str = "") -> Row:
    """A trial that was run in its own setting."""
    seconds = [float(f"{record.seconds[config.clock]:.6g}") for record in result.rounds]
    return _track(config, result, {setting(config.profile, config.clock, group): seconds})


def timed_track(config: RunConfig, result: Result, profiles: Sequence[str], group: str = "") -> Row:
    """A trial whose steps do not depend on the clock, timed with these profiles on every clock."""
    seconds = {}
    for profile in profiles:
        speeds = clock.profile(profile, len(result.parts.task.shards.size[0]), config.seed)
        costs = clock.costs(speeds, result.parts.work)
        each = [clock.round_seconds(costs, np.array(r.cohort), r.steps) for r in result.rounds]
        for kind in clock.CLOCKS:
            rounds = np.array([times[kind] for times in each])
            same = np.ptp(rounds) < 1e-9
            seconds[setting(profile, kind, group)] = (rounds[:1] if same else np.cumsum(rounds)).tolist()
    return _track(config, result, seconds)


def _track(config: RunConfig, result: Result, seconds: dict[str, list[float]]) -> Row:
    accuracy = [round(record.metrics["holdout"]["accuracy"], 6) for record in result.rounds]
    return Track(config.seed, config.lr, config.steps, accuracy, seconds)._asdict()


def candidates(name: str, tracks: Sequence[Track]) -> dict[str, list[Track]]:
    """Tracks of the same learning rate and steps, all seeds."""
    groups: dict[str, list[Track]] = {}
    for track in tracks:
        groups.setdefault(f"{name}, lr {track.lr:g}, {track.steps} steps", []).append(track)
    return groups


def fastest(rivals: Mapping[str, Sequence[Track]], where: str, target: float) -> Times:
    """The candidate that is best over the seeds: chosen with hindsight."""
    here = {label: [t for t in tracks if where in t.seconds] for label, tracks in rivals.items()}
    return min(
        (_times(label, some, where, target) for label, some in here.items() if some), key=lambda t: t.cost
    )


def _times(label: str, tracks: Sequence[Track], where: str, target: float) -> Times:
    arrivals = {track.seed: time_to(track, where, target) for track in tracks}
    return Times(
        label,
        {seed: seconds for seed, (seconds, _) in arrivals.items()},
        {seed: reached for seed, (_, reached) in arrivals.items()},
    )


def time_to(track: Track, where: str, target: float) -> tuple[float, bool]:
    """When the target was reached, or when the track ended without it."""
    seconds, hits = track.seconds[where], np.flatnonzero(np.array(track.accuracy) >= target)
    place = int(hits[0]) if hits.size else len(track.accuracy) - 1
    return (seconds[place] if len(seconds) > 1 else seconds[0] * (place + 1)), bool(hits.size)


def compare(
    who: str, ours: Mapping[str, Sequence[Track]], against: str, rivals: Mapping[str, Sequence[Track]],
    targets: Sequence[float],
) -> Iterator[Row]:  # fmt: skip
    """How many times as fast, one row for each target: geometric means over settings and seeds.

    A rival that never reached the target counts with its last second, a contestant with MISS times its own.
    """
    settings = sorted({where for tracks in ours.values() for track in tracks for where in track.seconds})
    for target in targets:
        pairs = [(fastest(ours, where, target), fastest(rivals, where, target)) for where in settings]
        logs = np.array([_log_ratios(*pair) for pair in pairs])
        by_setting = logs.mean(1)
        low, high = _interval(logs)
        missed = [theirs.reached[s] and not mine.reached[s] for mine, theirs in pairs for s in mine.reached]
        yield {
            "who": who,
            "against": against,
            "target": target,
            "mean": float(np.exp(by_setting.mean())),
            "low": low,  # 95% interval of the mean
            "high": high,
            "worst": float(np.exp(by_setting.min())),  # setting
            "best": float(np.exp(by_setting.max())),
            "missed": float(np.mean(missed)),  # share of trials that missed a target which the rival reached
            "rival": pairs[0][1].label,
        }


def _log_ratios(ours: Times, theirs: Times) -> list[float]:
    return [
        float(np.log(theirs.seconds[seed] / (seconds if ours.reached[seed] else MISS * seconds)))
        for seed, seconds in sorted(ours.seconds.items())
    ]


def _interval(logs: npt.NDArray[np.float64], draws: int = 2000) -> tuple[float, float]:
    """Bootstrap over settings, and over seeds within them."""
    rng = np.random.default_rng(0)
    settings, seeds = logs.shape
    picked = rng.integers(settings, size=(draws, settings))
    which = rng.integers(seeds, size=(draws, settings, seeds))
    low, high = np.quantile(logs[picked[:, :, None], which].mean((1, 2)), [0.025, 0.975])
    return float(np.exp(low)), float(np.exp(high))


def figure(rows: Sequence[Row]) -> "Figure":
    """A line for each comparison; a dot with its interval for each target, worst to best thin."""
    from matplotlib.lines import Line2D

    from amsfl.report import style
    from amsfl.report.style import canvas, legend

    pairs = list(dict.fromkeys((row["who"], row["against"]) for row in rows))
    targets = sorted({row["target"] for row in rows})
    drawing, grid = canvas(0.55 * len(pairs) + 1.4)
    axes: Any = grid[0][0]
    for row in rows:
        place, which = pairs.index((row["who"], row["against"])), targets.index(row["target"])
        y = place + 0.72 * ((which + 0.5) / len(targets) - 0.5)
        colour = style.look(which).colour
        axes.plot([row["worst"], row["best"]], [y, y], color=colour, lw=0.8, alpha=0.6)
        axes.plot([row["low"], row["high"]], [y, y], color=colour, lw=3)
        axes.plot(row["mean"], y, "o", color=colour, ms=5)
    axes.axvline(1, color=style.INK, lw=1, alpha=0.5)
    axes.set_xscale("log")
    low, high = min(row["worst"] for row in rows) / 1.5, max(row["best"] for row in rows) * 1.5
    ticks = [tick for tick in TICKS if low <= tick <= high]
    labels = [f"{tick:g}x" if tick >= 1 else f"1/{1 / tick:g}x" for tick in ticks]
    axes.set_xticks(ticks, labels, fontsize=7)
    axes.minorticks_off()
    axes.set_yticks(range(len(pairs)), [f"{who}\nagainst {other}" for who, other in pairs], fontsize=7)
    axes.set_ylim(len(pairs) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("times as fast\n(dot: mean over settings, bar: 95%, line: worst to best)", fontsize=7)
    keys = [Line2D([], [], color=style.look(place).colour, marker="o") for place in range(len(targets))]
    legend(drawing, keys, [f"to {target:.0%}" for target in targets])
    return drawing
