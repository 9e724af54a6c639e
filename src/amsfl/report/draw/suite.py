"""The suite as a picture: how many times as fast in every case, to three targets."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from amsfl.report.draw.speedups import SHADES

LABELS = ("70%", "85%", "95%")


def draw(groups: Mapping[str, Sequence[dict[str, Any]]], folder: Path) -> None:
    """suite.png and .svg: a line a case, a dot a target; the worst single setting thin."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lines = [(title, row) for title, group in groups.items() for row in group]
    if not lines:
        return
    figure, axes = plt.subplots(figsize=(8, 0.42 * len(lines) + 1.3), layout="constrained")
    for place, (_, row) in enumerate(reversed(lines)):
        for nth, times in enumerate(row["speedups"]):
            axes.plot(times, place + 0.2 * (1 - nth), "o", color=SHADES[nth], ms=5)
        axes.plot([row["worst"], min(row["speedups"])], [place, place], color="0.6", lw=0.8, zorder=0)
    axes.axvline(1, color="0.5", lw=1)
    axes.set_xscale("log")
    everything = [value for _, row in lines for value in (*row["speedups"], row["worst"])]
    ticks = [t for t in (0.125, 0.25, 0.5, 1, 2, 4, 8) if min(everything) / 2 <= t <= 2 * max(everything)]
    axes.set_xticks(ticks, [f"{t:g}x" for t in ticks])
    axes.minorticks_off()
    axes.set_yticks(
        range(len(lines)), [f"{row['case']} ({title})" for title, row in reversed(lines)], fontsize=8
    )
    axes.set_xlabel("times as fast as the best rival with hindsight (thin line: worst single setting)")
    for nth, label in enumerate(LABELS):
        axes.plot([], [], "o", color=SHADES[nth], label=f"{label} of the way")
    axes.legend(loc="best", fontsize=8)
    axes.grid(axis="x", alpha=0.3)
    for kind in ("png", "svg"):
        figure.savefig(folder / f"suite.{kind}", dpi=150)
    plt.close(figure)
