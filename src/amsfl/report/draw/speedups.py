"""The adaptivity study as a picture: how many times as fast, against whom."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from amsfl.report.draw.style import COLOURS

SHADES = (COLOURS["amsfl"], COLOURS["scaffold"], COLOURS["fednova"])


def draw(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    """speedups.png and .svg: a line a comparison, a dot with its interval a target, worst to best thin."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    pairs = list(dict.fromkeys((row["who"], row["against"]) for row in rows))
    targets = sorted({row["target"] for row in rows})
    if not pairs:
        return
    figure, axes = plt.subplots(figsize=(9, 0.55 * len(pairs) + 1.4), layout="constrained")
    for place, pair in enumerate(reversed(pairs)):
        for row in rows:
            if (row["who"], row["against"]) != pair:
                continue
            nth = targets.index(row["target"])
            y, color = place + 0.24 * (1 - nth), SHADES[nth]
            axes.plot([row["worst"], row["best"]], [y, y], color=color, lw=0.8, alpha=0.6)
            axes.plot([row["low"], row["high"]], [y, y], color=color, lw=3)
            axes.plot(row["mean"], y, "o", color=color, ms=5)
    axes.axvline(1, color="0.5", lw=1)
    axes.set_xscale("log")
    ticks = [t for t in (0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256) if _within(t, rows)]
    axes.set_xticks(ticks, [f"{t:g}x" for t in ticks])
    axes.minorticks_off()
    axes.set_yticks(
        range(len(pairs)), [f"{who}\nagainst {other}" for who, other in reversed(pairs)], fontsize=8
    )
    axes.set_xlabel("times as fast (dot: mean over settings, bar: 95%, line: worst to best)")
    for nth, target in enumerate(targets):
        axes.plot([], [], "o-", color=SHADES[nth], label=f"to {target:.0%}")
    axes.legend(loc="upper right", fontsize=8)
    axes.grid(axis="x", alpha=0.3)
    for kind in ("png", "svg"):
        figure.savefig(folder / f"speedups.{kind}", dpi=150)
    plt.close(figure)


def _within(tick: float, rows: Sequence[dict[str, Any]]) -> bool:
    low, high = min(row["worst"] for row in rows), max(row["best"] for row in rows)
    return bool(low / 1.5 <= tick <= high * 1.5)
