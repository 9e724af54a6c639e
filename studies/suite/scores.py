"""From the suite's tracks to its tables: speed-ups, accuracy at the end, and how far a run fell back.

Targets lie 70, 85 and 95% of the way from the share of the largest class to the best accuracy that any rival
reaches (mean over seeds). The rival is the best of all, chosen for every setting and target with hindsight.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .cases import BY_NAME, HALF_OF
from common import Row, Table, grouped
from speedups import Track, candidates, compare

WAYS = (0.70, 0.85, 0.95)


class CaseTracks(NamedTuple):
    """What is on record of a case."""

    name: str
    majority: float  # share of the largest class of the hold-out
    contestants: dict[str, list[Track]]  # all but the rivals
    rivals: dict[str, list[Track]]  # by name, learning rate and steps


def by_case(units: Sequence[Row], rivals: Sequence[str]) -> list[CaseTracks]:
    """Cases on record with at least one rival, in the suite's order."""
    tracks: dict[str, dict[str, list[Track]]] = {}
    shares: dict[str, float] = {}
    for unit in units:
        shares[unit["case"]] = unit["trials"][0]["majority"]
        tracks.setdefault(unit["case"], {})[unit["name"]] = [
            Track(*(trial[name] for name in Track._fields)) for trial in unit["trials"]
        ]
    return [
        CaseTracks(
            name,
            shares[name],
            {who: some for who, some in tracks[name].items() if who not in rivals},
            {key: v for who in rivals for key, v in candidates(who, tracks[name].get(who, [])).items()},
        )
        for name in BY_NAME
        if name in tracks and any(who in tracks[name] for who in rivals)
    ]


def majority(labels: Any) -> float:
    counts = np.bincount(labels)
    return float(counts.max() / counts.sum())


def targets(case: CaseTracks) -> list[float]:
    best = max(float(np.mean([max(track.accuracy) for track in some])) for some in case.rivals.values())
    return [case.majority + way * (best - case.majority) for way in WAYS]


def rows_of(case: CaseTracks) -> Iterator[Row]:
    """One row for each contestant, against the best rival."""
    goals = targets(case)
    rival_last = max(map(mean_last_tenth, case.rivals.values()))
    group = HALF_OF[case.name].replace("_", " ")
    for who, tracks in case.contestants.items():
        every = compare(who, candidates(who, tracks), "the best rival", case.rivals, goals)
        pairs = list(zip(WAYS, every, strict=True))
        dots = [row | {"who": f"{case.name} ({group})", "target": way} for way, row in pairs]
        yield {
            "case": case.name,
            "group": group,
            "who": who,
            "targets": dots,
            "speedups": [row["mean"] for row in dots],
            "worst": min(row["worst"] for row in dots),
            "missed": float(np.mean([row["missed"] for row in dots])),
            "last": mean_last_tenth(tracks),
            "rival_last": rival_last,
            "fell": max(fall(track) for track in tracks),
        }


def last_tenth(track: Track) -> float:
    """Mean accuracy over the last tenth of the rounds."""
    return float(np.mean(track.accuracy[-max(1, len(track.accuracy) // 10) :]))


def mean_last_tenth(tracks: Sequence[Track]) -> float:
    return float(np.mean([last_tenth(track) for track in tracks]))


def fall(track: Track) -> float:
    """In the second half of the rounds, the furthest below the best accuracy until then."""
    best = np.maximum.accumulate(track.accuracy)
    return float((best - track.accuracy)[len(track.accuracy) // 2 :].max())


def summarise(rows: Sequence[Row], title: str) -> Row:
    """Several cases together: geometric means of speed-ups, means of accuracies, the worst of the rest."""
    return {
        "case": title,
        "who": title,
        "cases": len(rows),
        "speedups": np.exp(np.log([row["speedups"] for row in rows]).mean(0)).tolist(),
        "worst": min(row["worst"] for row in rows),
        "missed": float(np.mean([row["missed"] for row in rows])),
        "last": float(np.mean([row["last"] for row in rows])),
        "rival_last": float(np.mean([row["rival_last"] for row in rows])),
        "fell": max(row["fell"] for row in rows),
    }


SPEEDUPS = {
    "times as fast to 70 / 85 / 95%": lambda row: " / ".join(f"{each:.2f}" for each in row["speedups"]),
    "worst": "{worst:.2f}",
    "missed": "{missed:.0%}",
    "last tenth": "{last:.3f}",
}


def table(rows: Sequence[Row], who: str = "amsfl") -> Table:
    """A line for each case, the two halves apart, each with its mean."""
    lines: list[Row] = []
    for (group,), some in grouped([row for row in rows if row["who"] == who], "group").items():
        lines += [*some, summarise(some, f"**{group}, {len(some)} cases**")]
    ends = {"best rival's": "{rival_last:.3f}", "fell back": lambda row: f"{100 * row['fell']:.1f}"}
    return Table({"case": "{case}"} | SPEEDUPS | ends, lines)


def ablation_table(rows: Sequence[Row]) -> Table:
    """A line for each contestant, over all cases that it was run in."""
    lines = [summarise(some, str(who)) for (who,), some in grouped(rows, "who").items()]
    return Table({"who": "{who}", "cases": "{cases}"} | SPEEDUPS, lines)


def against_fedavg(case: CaseTracks, defaults: str) -> Row:
    """The last tenth of AMSFL, of FedAvg at the best of its settings with hindsight, and at our defaults."""
    ours = case.contestants["amsfl"]
    best = max(case.rivals.values(), key=mean_last_tenth)
    return {
        "case": case.name,
        "last": mean_last_tenth(ours),
        "best": mean_last_tenth(best),
        "which": f"{best[0].lr:g} x {best[0].steps}",
        "usual": mean_last_tenth(case.contestants[defaults]),
        "majority": case.majority,
        "fell": max(max(t.accuracy[len(t.accuracy) // 2 :]) - last_tenth(t) for t in ours),
    }


def fedavg_table(rows: Sequence[Row]) -> Table:
    """A line for each case, and how far AMSFL is above FedAvg on average and at worst, in points."""

    def above(name: str) -> str:
        points = [100 * (row["last"] - row[name]) for row in rows]
        return f"{np.mean(points):+.1f}, {min(points):+.1f} at worst"

    shown = {
        "AMSFL": "{last:.3f}",
        "FedAvg, best of 7": "{best:.3f} ({which})",
        "FedAvg, our defaults": "{usual:.3f}",
        "largest class": "{majority:.3f}",
        "fell": "{points:.1f}",
    }
    lines: list[Row] = [
        {"case": row["case"]}
        | {name: text.format(**row, points=100 * row["fell"]) for name, text in shown.items()}
        for row in rows
    ]
    whole = dict.fromkeys(shown, "") | {"case": f"**AMSFL above it, {len(rows)} cases**"}
    whole |= {"FedAvg, best of 7": above("best"), "FedAvg, our defaults": above("usual")}
    return Table({name: f"{{{name}}}" for name in ("case", *shown)}, [*lines, whole])
