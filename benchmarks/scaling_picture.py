"""The results of scaling.py as one picture: `python benchmarks/scaling_picture.py` draws it again."""

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

AXES = {
    "clients": "clients (ten rows each; 50 a round)",
    "steps": "local steps a round",
    "cohort": "cohort (of 4,000 clients)",
    "hidden": "model size (parameters)",
    "trials": "trials in one batch",
}


def draw(outcome: dict[str, Any], out: Path) -> None:
    figure, grid = plt.subplots(2, 6, figsize=(19, 6.2), constrained_layout=True)
    for column, (name, points) in enumerate(outcome["curves"].items()):
        key = "dim" if name == "hidden" else name
        where = [p[key] for p in points]
        time, memory = grid[0, column], grid[1, column]
        time.loglog(where, [1e6 * p["seconds_per_step"] for p in points], "o-", color="C0", label="fedavg")
        memory.semilogx(where, [p["peak_mb"] for p in points], "o-", color="C0", label="fedavg")
        if name == "clients":
            state = outcome["with state"]
            some = [p[name] for p in state]
            micro = [1e6 * p["seconds_per_step"] for p in state]
            time.loglog(some, micro, "s--", color="C1", label="scaffold")
            memory.semilogx(some, [p["peak_mb"] for p in state], "s--", color="C1", label="scaffold")
            time.legend()
            memory.legend()
        memory.set_xlabel(AXES[name])
        memory.set_ylim(0, max(1000, 1.1 * memory.get_ylim()[1]))
        for axes in (time, memory):
            axes.grid(alpha=0.3)
            axes.minorticks_off()
            axes.set_xticks(where, [_short(value) for value in where])
        low, high = time.get_ylim()
        time.set_ylim(min(low, 5), max(high, 500))
        time.set_yticks([5, 20, 100, 500], ["5", "20", "100", "500"])
    grid[0, 0].set_ylabel("microseconds a client step")
    grid[1, 0].set_ylabel("peak memory of the process, MB")
    _rounds(grid[0, 5], grid[1, 5], outcome["scale"])
    where = outcome["machine"]
    figure.suptitle(
        f"Time and memory of the jax engine, {where['cores']} cores of {where['cpu']}, {outcome['date']}, "
        f"load {where['load']}\nunless the axis says otherwise: 50 of 1,000 clients a round, 10 steps of "
        "batch 32, MLP 122-64-32-5, one trial"
    )
    figure.savefig(out, dpi=90)


def _rounds(wall: Any, memory: Any, scale: dict[str, Any]) -> None:
    engine = scale["engine"]
    for style, (name, point) in zip(["oC0-", "sC1-", "^C2-"], scale.items(), strict=True):
        memory.plot(range(1, len(point["rss_mb"]) + 1), point["rss_mb"], style, label=name)
        if "wall" in point:
            wall.plot(range(1, len(point["wall"]) + 1), point["wall"], style, label=name)
        else:
            second = engine["seconds_per_step"] * engine["cohort"] * engine["steps"]
            wall.axhline(second, color="C0", label=f"{name} (best)")
    wall.set_ylabel("seconds a round")
    wall.set_yscale("log")
    memory.set_ylabel("memory after the round, MB")
    memory.set_ylim(0, 1.2 * memory.get_ylim()[1])
    memory.set_xlabel(f"round ({engine['cohort']:,} of {engine['clients']:,} clients)")
    for axes in (wall, memory):
        axes.set_xticks(range(1, len(engine["rss_mb"]) + 1, 2))
        axes.legend()
        axes.grid(alpha=0.3)


def _short(value: float) -> str:
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return str(value)


if __name__ == "__main__":
    here = Path(__file__).parent
    draw(json.loads((here / "results" / "scaling.json").read_text()), here / "scaling.png")
