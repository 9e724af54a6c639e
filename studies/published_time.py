"""FedBuff's and Oort's published claims on time, as far as they can be had here: their shape, not their data.

FedBuff (Nguyen et al. 2022, arXiv 2106.06639) claims 3.3 times fewer client updates to a target than
synchronous FedAvgM, and up to 2.5 times fewer than FedAsync, where training times are half-normal. Oort (Lai
et al. 2021, arXiv 2010.06081) claims 1.2 to 14.1 times less time than random cohorts, where phones
differ by orders of magnitude and a round takes the first K of 1.3 K. Here 200 clients share a table, 50 train
at a time, and each passes once over its rows. Learning rates are the best of four with hindsight; AMSFL sets
its own, and its own steps.

    python studies/published_time.py --data nslkdd --data-dir DIR
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from amsfl.simulation import Result, RunConfig, make_config

import common
from common import Row, StudySettings, Table, Unit, option

CLIENTS, COHORT, MORE = 200, 50, 65  # 1.3 times the cohort, as in Oort
RATES = (0.1, 0.3, 1.0, 3.0)
TARGET = 0.98
UPLOADS = 10_000  # at most, of a run
ROWS = 5000  # of the hold-out
MEDIAN = 0.02  # seconds a step
SPREAD = 1.0  # sigma of the logarithm: 27 times between the 5th and the 95th of 100 clients
FEDBUFF, OORT = "FedBuff's claim", "Oort's claim"
CONTESTANTS: dict[str, dict[str, dict[str, Any]]] = {
    FEDBUFF: {
        "FedAvgM, all": {"method": "fedavgm", "round_end": "all"},
        "FedAsync, buffer:1": {"method": "fedasync", "round_end": "buffer:1"},
        "FedBuff, buffer:10": {"method": "fedbuff", "round_end": "buffer:10"},
        "AMSFL, all": {"method": "amsfl", "round_end": "all"},
        "AMSFL, buffer:10": {"method": "amsfl", "round_end": "buffer:10"},
    },
    OORT: {
        "FedAvg, all": {"method": "fedavg", "round_end": "all"},
        "FedAvg, first 50 of 65": {"method": "fedavg", "round_end": f"quorum:{COHORT}", "cohort": MORE},
        "AMSFL, all": {"method": "amsfl", "round_end": "all"},
        "AMSFL, first 50 of 65": {"method": "amsfl", "round_end": f"quorum:{COHORT}", "cohort": MORE},
    },
}


@dataclass(frozen=True, kw_only=True)
class Settings(StudySettings):
    data: str = option("nslkdd", "data set, one that `amsfl data` lists")
    seeds: int = option(2, "seeds of every setting")
    out: Path = option(Path("results/published-time"), "folder of the results; the same command continues it")


def half_normal(folder: Path) -> str:
    """A profile's file: seconds a step are |z|, of the other's median; nothing but steps takes time."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = np.abs(np.random.default_rng(0).standard_normal(CLIENTS)) * MEDIAN / 0.6745
    path = folder / "half-normal.csv"
    path.write_text("\n".join(["step_seconds", *(f"{each:.6f}" for each in drawn)]) + "\n", encoding="utf-8")
    return str(path)


def units(settings: Settings) -> Iterator[Unit]:
    """A unit is one contestant: all learning rates and seeds."""
    load = common.holdout_loader(settings.data, settings.data_dir, ROWS)
    profiles = {FEDBUFF: half_normal(settings.out), OORT: f"lognormal:{MEDIAN},{SPREAD}"}
    for claim, contestants in CONTESTANTS.items():
        for name, own in contestants.items():
            sized = int(own["round_end"].partition(":")[2] or COHORT)
            shared = {
                "data": settings.data,
                "clients": CLIENTS,
                "cohort": COHORT,
                "partition": "dirichlet:0.5",
                "profile": profiles[claim],
                "clock": "makespan",
                "target": TARGET,
                "details": False,
                "rounds": UPLOADS // sized,
                "eval_every": max(1, 10 // sized),
            }
            pairs = [{}] if own["method"] == "amsfl" else [{"lr": lr, "epochs": 1.0} for lr in RATES]
            configs = [
                make_config(shared | own | pair | {"seed": seed})
                for pair in pairs
                for seed in settings.every_seed()
            ]
            yield Unit(f"{claim}, {name}", {"claim": claim, "name": name}, configs, load, keep)


def keep(config: RunConfig, result: Result) -> Row:
    """`uploads`: that were counted until then."""
    row = common.time_to_target(result)
    counted = sum(len(each.cohort) for each in result.rounds if each.seconds["makespan"] <= row["seconds"])
    return {"lr": config.lr, "seed": config.seed, "uploads": counted, **row}


def tuned_with_hindsight(units: Sequence[Row]) -> list[Row]:
    """A row for each contestant: its fastest learning rate, of those with which all seeds got there."""
    trials = [
        {"claim": unit["claim"], "name": unit["name"], **each} for unit in units for each in unit["trials"]
    ]
    best = common.best_with_hindsight(trials, ("claim", "name"), ("lr",), ("seconds", "uploads"))
    order = [(claim, name) for claim, names in CONTESTANTS.items() for name in names]
    return sorted(best, key=lambda row: order.index((row["claim"], row["name"])))


def table(rows: Sequence[Row], claim: str) -> Table:
    """Against the first contestant, which waits for everybody."""
    own = [row for row in rows if row["claim"] == claim]
    base = own[0]

    def times(key: str, row: Row) -> str:
        return f"{'' if row['reached'] and base['reached'] else 'about '}{base[key] / row[key]:.2f}"

    return Table(
        {
            "contestant": "{name}",
            "learning rate": lambda row: "its own" if row["name"].startswith("AMSFL") else f"{row['lr']:g}",
            "seconds": lambda row: f"{'' if row['reached'] else '> '}{row['seconds']:.1f}",
            "uploads": "{uploads:.0f}",
            f"times less time than {base['name']}": lambda row: times("seconds", row),
            "times fewer uploads": lambda row: times("uploads", row),
        },
        own,
        f"{claim}, to {TARGET:.0%}:",
    )


def study(settings: Settings) -> None:
    rows = tuned_with_hindsight(common.finished_units(settings, units(settings)))
    common.present(settings.out, [table(rows, claim) for claim in CONTESTANTS], rows=rows)


if __name__ == "__main__":
    common.main(Settings, study)
