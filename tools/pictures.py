"""The pictures of docs/how.md, from the package itself: `python tools/pictures.py` draws them anew."""

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

from amsfl import schedule

OUT = Path(__file__).parents[1] / "docs/figures"
NAMES = ("Oslo", "Lyon", "Graz", "Porto", "Turku")
STEP = np.array([0.01, 0.02, 0.03, 0.06, 0.08])
COMM = np.array([0.05, 0.05, 0.10, 0.10, 0.20])
WEIGHT = np.array([0.30, 0.25, 0.20, 0.15, 0.10])
FADING = np.array([0.05, 0.15, 0.05, 0.10, 0.05])
COLOURS = ("#3366cc", "#dd7711", "#229955", "#aa3377", "#777777")
FIXED = 10


def main() -> None:
    plt.rcParams.update({"font.size": 10, "svg.hashsalt": "amsfl", "svg.fonttype": "none"})
    save(rounds(), "how-rounds")
    save(worth(), "how-worth")
    save(price(), "how-price")


def problem(clock: str) -> schedule.Problem:
    return schedule.problem(WEIGHT, STEP, COMM, fading=FADING, clock=clock, clients=NAMES)


def rounds() -> plt.Figure:
    """A round of equal steps beside a planned one."""
    planned = schedule.policy("price")(problem("makespan")).steps
    figure, panels = plt.subplots(2, 1, figsize=(7, 4.2), sharex=True)
    for axes, steps, title in (
        (
            panels[0],
            np.full(5, FIXED),
            f"equal steps: {5 * FIXED} in {max(COMM + FIXED * STEP):.2f} s, and the fast wait",
        ),
        (
            panels[1],
            planned,
            f"planned: {int(planned.sum())} in {max(COMM + planned * STEP):.2f} s, the most gain per second",
        ),
    ):
        for place, count in enumerate(steps):
            axes.barh(place, COMM[place], color="#cccccc", height=0.6)
            for step in range(int(count)):
                left = COMM[place] + step * STEP[place]
                axes.barh(place, STEP[place] * 0.85, left=left, color=COLOURS[place], height=0.6)
            end = COMM[place] + count * STEP[place]
            axes.text(end + 0.01, place, f"{count} steps", va="center", fontsize=9)
        axes.set_yticks(range(5), NAMES)
        axes.invert_yaxis()
        axes.set_title(title, loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    panels[1].set_xlabel("seconds of the round (grey: sending the model)")
    panels[1].set_xlim(0, 1.25)
    return figure


def worth() -> plt.Figure:
    """What each further step of a client is worth."""
    figure, axes = plt.subplots(figsize=(7, 3))
    steps = np.arange(30)
    for fading, colour, label in ((0.03, COLOURS[0], "little drift"), (0.15, COLOURS[1], "much drift")):
        axes.plot(steps + 1, np.exp(-fading * steps), "o-", ms=3, color=colour, label=label)
    axes.set_xlabel("local step")
    axes.set_ylabel("worth of the step")
    axes.set_ylim(0, 1.05)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def price() -> plt.Figure:
    """Worth per second, and the price at which steps stop."""
    posed = problem("sum")
    made = schedule.policy("price")(posed)
    figure, axes = plt.subplots(figsize=(7, 3.4))
    steps = np.arange(40)
    for place, name in enumerate(NAMES):
        value = WEIGHT[place] * np.exp(-FADING[place] * steps) / STEP[place]
        taken = int(made.steps[place])
        axes.plot(steps + 1, value, color=COLOURS[place], alpha=0.35)
        axes.plot(steps[:taken] + 1, value[:taken], "o", ms=4, color=COLOURS[place], label=f"{name}: {taken}")
    level = posed.worth(made.steps) / made.seconds
    axes.axhline(level, color="black", lw=1, ls="--")
    axes.text(40, level * 0.9, "price of a second", ha="right", va="top")
    axes.set_yscale("log")
    axes.set_xlabel("local step (dots: taken)")
    axes.set_ylabel("worth per second")
    axes.legend(frameon=False, title="steps taken", loc="center left", bbox_to_anchor=(1, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def save(figure: plt.Figure, name: str) -> None:
    figure.tight_layout()
    figure.savefig(OUT / f"{name}.svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
