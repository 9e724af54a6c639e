"""From the suite's tracks to its table: speed-ups, the last tenth of the rounds, and how far a run fell back.

Targets lie 70, 85 and 95% of the way from the largest class's share to the best accuracy that any rival
reaches (mean over seeds). The rival is the best of all, chosen for every setting and target with hindsight.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from amsfl.study.suite import OURS, RIVALS, Found, Track
from amsfl.study.suite_cases import HELD_OUT

WAYS = (0.70, 0.85, 0.95)
Key = tuple[float, int]  # a rival's lr and steps


class Row(NamedTuple):
    """One contestant in one case."""

    case: str
    who: str
    speedups: list[float]  # one a target: geometric means over settings and seeds
    least: list[float]  # one a target: the worst single setting
    most: list[float]  # and the best one
    missed: float  # share of its trials that never got to a target which the rival reached
    last: float  # mean accuracy over the last tenth of its rounds
    rival_last: float  # of the rival with the best last tenth
    fell: float  # after half of its rounds, the furthest below the best it had had, of any trial
    rivals: list[str]  # who was best at each target, in the first setting

    @property
    def worst(self) -> float:
        return min(self.least)


class Dot(NamedTuple):
    """One case to one target, as the picture of speed-ups takes it."""

    who: str
    against: str
    target: float
    mean: float
    low: float
    high: float
    worst: float
    best: float


class Choice(NamedTuple):
    """The rival of a setting and target."""

    label: str
    seconds: dict[int, float]  # by seed
    reached: dict[int, bool]


def targets(found: Found, rivals: Sequence[str] = RIVALS) -> list[float]:
    tops = [
        np.mean([max(t.accuracy) for t in same])
        for name in rivals
        for same in _alike(found.tracks.get(name, [])).values()
    ]
    return [found.majority + way * (float(max(tops)) - found.majority) for way in WAYS]


def rows(case: str, found: Found, rivals: Sequence[str] = RIVALS) -> Iterator[Row]:
    """Every contestant that is no rival, against the best rival."""
    if not any(found.tracks.get(name) for name in rivals):
        return
    goals = targets(found, rivals)
    rival_last = max(
        float(np.mean([last_tenth(t) for t in same]))
        for name in rivals
        for same in _alike(found.tracks.get(name, [])).values()
    )
    for who, tracks in found.tracks.items():
        if who not in rivals:
            yield _row(case, who, tracks, found, rivals, goals, rival_last)


def _row(
    case: str,
    who: str,
    tracks: Sequence[Track],
    found: Found,
    rivals: Sequence[str],
    goals: Sequence[float],
    rival_last: float,
) -> Row:
    settings = sorted({setting for track in tracks for setting in track.seconds})
    table = {setting: [hindsight(found, rivals, setting, goal) for goal in goals] for setting in settings}
    logs, missed = [], []
    for setting in settings:
        mine = [_best(tracks, setting, goal) for goal in goals]
        pairs = list(zip(mine, table[setting], strict=True))
        logs.append([_log(ours, theirs) for ours, theirs in pairs])
        missed += [
            theirs.reached[seed] and not reached
            for ours, theirs in pairs
            for seed, reached in ours.reached.items()
        ]
    every = np.exp(logs)
    return Row(
        case,
        who,
        [float(each) for each in np.exp(np.mean(logs, 0))],
        [float(each) for each in every.min(0)],
        [float(each) for each in every.max(0)],
        float(np.mean(missed)),
        float(np.mean([last_tenth(t) for t in tracks])),
        rival_last,
        max(fallen(t) for t in tracks),
        [choice.label for choice in table[settings[0]]],
    )


def hindsight(found: Found, rivals: Sequence[str], setting: str, goal: float) -> Choice:
    """The one candidate that is best over the seeds; who fails on a seed is chosen only if all do."""
    candidates = [
        _choice(f"{name}, lr {key[0]:g}, {key[1]} steps", same, setting, goal)
        for name in rivals
        for key, same in _alike(found.tracks.get(name, [])).items()
    ]
    return min(candidates, key=_cost)


def _best(tracks: Sequence[Track], setting: str, goal: float) -> Choice:
    """A contestant's own time; one with several step settings is chosen with hindsight, too."""
    here = [track for track in tracks if setting in track.seconds]
    return min((_choice("", same, setting, goal) for same in _alike(here).values()), key=_cost)


def _choice(label: str, same: Sequence[Track], setting: str, goal: float) -> Choice:
    times = {track.seed: _first(track, setting, goal) for track in same}
    return Choice(
        label, {seed: when for seed, (when, _) in times.items()}, {s: hit for s, (_, hit) in times.items()}
    )


def _cost(choice: Choice) -> float:
    return float(np.mean([np.log(choice.seconds[s]) + 20 * (not choice.reached[s]) for s in choice.seconds]))


def _log(ours: Choice, theirs: Choice) -> float:
    """A rival that never got there counts with its last second, a contestant with ten times its own."""
    return float(
        np.mean(
            [
                np.log(theirs.seconds[seed] / (when if ours.reached[seed] else 10 * when))
                for seed, when in ours.seconds.items()
            ]
        )
    )


def _first(track: Track, setting: str, goal: float) -> tuple[float, bool]:
    """When the goal was reached, or when the track ended without."""
    seconds, hits = track.seconds[setting], np.flatnonzero(np.array(track.accuracy) >= goal)
    place = int(hits[0]) if hits.size else len(track.accuracy) - 1
    when = seconds[place] if len(seconds) > 1 else seconds[0] * (place + 1)
    return when, bool(hits.size)


def last_tenth(track: Track) -> float:
    return float(np.mean(track.accuracy[-max(1, len(track.accuracy) // 10) :]))


def fallen(track: Track) -> float:
    best = np.maximum.accumulate(track.accuracy)
    return float((best - track.accuracy)[len(track.accuracy) // 2 :].max())


def _alike(tracks: Sequence[Track]) -> dict[Key, list[Track]]:
    """Tracks of the same lr and steps, all seeds."""
    found: dict[Key, list[Track]] = {}
    for track in tracks:
        found.setdefault((track.lr, track.steps), []).append(track)
    return found


def summary(rows: Sequence[Row]) -> Row:
    """All cases together: geometric means of speed-ups, the worst of the rest."""
    logs = np.log([row.speedups for row in rows])
    return Row(
        "all",
        rows[0].who,
        [float(each) for each in np.exp(logs.mean(0))],
        [float(each) for each in np.min([row.least for row in rows], 0)],
        [float(each) for each in np.max([row.most for row in rows], 0)],
        float(np.mean([row.missed for row in rows])),
        float(np.mean([row.last for row in rows])),
        float(np.mean([row.rival_last for row in rows])),
        max(row.fell for row in rows),
        [],
    )


def grouped(found: dict[str, Found]) -> dict[str, Sequence[Row]]:
    """Rows of all cases on record, those that the search never saw apart."""
    held = {case.name for case in HELD_OUT}
    every = [row for name, case in found.items() for row in rows(name, case)]
    return {
        "development": [row for row in every if row.case not in held],
        "held out": [row for row in every if row.case in held],
    }


def as_markdown(groups: dict[str, Sequence[Row]], who: str = OURS) -> str:
    """The suite's table: a line a case, groups apart, each with its mean."""
    lines = [
        "| case | times as fast to 70 / 85 / 95% | worst | missed | last tenth | best rival's | fell back |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for title, group in groups.items():
        mine = [row for row in group if row.who == who]
        if mine:
            lines += [_line(row.case, row) for row in mine]
            lines.append(_line(f"**{title}, {len(mine)} cases**", summary(mine)))
    return "\n".join(lines) + "\n"


def dots(groups: dict[str, Sequence[Row]], who: str = OURS) -> list[Dot]:
    return [
        Dot(f"{row.case} ({title})", "the best rival", way, mean, mean, mean, worst, best)
        for title, group in groups.items()
        for row in group
        if row.who == who
        for way, mean, worst, best in zip(WAYS, row.speedups, row.least, row.most, strict=True)
    ]


def ablation(groups: dict[str, Sequence[Row]]) -> str:
    """One line a contestant: the same figures over all the cases that it was run in."""
    every = [row for group in groups.values() for row in group]
    names = list(dict.fromkeys(row.who for row in every))
    lines = [
        "| who | cases | times as fast to 70 / 85 / 95% | worst | missed | last tenth |",
        "| --- " * 6 + "|",
    ]
    for name in names:
        mine = [row for row in every if row.who == name]
        whole = summary(mine)
        lines.append(
            f"| {name} | {len(mine)} | {_speeds(whole)} | {whole.worst:.2f} | {whole.missed:.0%} | "
            f"{whole.last:.3f} |"
        )
    return "\n".join(lines) + "\n"


def _line(name: str, row: Row) -> str:
    return (
        f"| {name} | {_speeds(row)} | {row.worst:.2f} | {row.missed:.0%} | {row.last:.3f} | "
        f"{row.rival_last:.3f} | {100 * row.fell:.1f} |"
    )


def _speeds(row: Row) -> str:
    return " / ".join(f"{each:.2f}" for each in row.speedups)
