"""The figures of a report, functions of its data frames: how fast methods learn and how they end."""

import io
import warnings
from collections.abc import Callable, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pandas as pd

from amsfl.core.records import Json
from amsfl.report.comparison import Comparison
from amsfl.report.read import short

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import Collection
    from matplotlib.figure import Figure

FEW = 5  # trials; below that, quartiles mean nothing: the band holds all of them, and there are dots
POINTS = 160  # of a curve, at most: more than a phone has room for
MARKS = 7  # on every curve
NAME_WIDTH = 24  # letters of a row's label before it takes a second line
NAMED = 12  # clients with names in a map
Drawn = tuple[str, str, str, "Figure"]  # name, title, caption


# Okabe and Ito's palette ("Color Universal Design", 2008), less its yellow, which is lost on white, and
# with a grey for its black, which is lost on black. The first colour is the reference's.
PALETTE = ("#D55E00", "#7A7A7A", "#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#E69F00")
DASHES: tuple[tuple[float, ...], ...] = ((), (4, 1.5), (1, 1), (5, 1, 1, 1), (8, 2))  # in line widths


MARKERS = "os^vDPXp"


def look(place: int) -> Json:
    """Of matplotlib's plot, by the place of a series; after seven, colours repeat with other dashes."""
    again = place // len(PALETTE)
    marker, dash = MARKERS[(place + again) % len(MARKERS)], DASHES[again % len(DASHES)]
    return {
        "color": PALETTE[place % len(PALETTE)],
        "linestyle": (0, dash) if dash else "solid",
        "marker": marker,
    }


WIDTH = 5.6  # inches: at a phone's width the labels still have ten pixels
DAY, NIGHT = ("#1f2328", "#ffffff"), ("#e6e8ea", "#15181c")  # ink, paper
INK = "#010203"  # stands for the page's text colour in an SVG
RC: Any = {  # matplotlib's own type lists every setting it has
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters on every machine
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.facecolor": "none",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.13,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "text.parse_math": False,  # a name with dollar signs is a name
    "svg.fonttype": "path",  # a phone does not have the font
    "svg.hashsalt": "amsfl",
    "figure.constrained_layout.use": True,
}


def canvas(
    height: float, rows: int = 1, columns: int = 1, sharex: bool = False, sharey: bool = False
) -> tuple["Figure", list[list["Axes"]]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height))
    grid = figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)
    return figure, [list(row) for row in grid]


def legend(figure: "Figure", handles: Sequence["Artist"], labels: Sequence[str], columns: int = 0) -> None:
    """Above the panels. matplotlib leaves out labels that begin with _, so they get a space."""
    longest = max(len(label) for label in labels)
    columns = columns or (4 if longest < 14 else 2 if longest < 36 else 1)
    visible = [f" {label}" if label.startswith("_") else label for label in labels]
    figure.legend(list(handles), visible, loc="outside upper center", ncols=columns)


class Picture(NamedTuple):
    """A drawn figure. An SVG follows the reader's light or dark setting; the PNG is by day."""

    name: str
    title: str
    caption: str
    svg: str
    png: bytes


def render(name: str, title: str, caption: str, figure: "Figure") -> Picture:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a letter that the font lacks is drawn as a box
        svg = _svg(figure)
        figure.set_layout_engine("none")  # laid out already, which takes longer than drawing
        out = io.BytesIO()
        figure.savefig(out, format="png", dpi=200, facecolor=DAY[1], metadata={"Software": None})
        return Picture(name, title, caption, svg, out.getvalue())


def _svg(figure: "Figure") -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", facecolor="none", metadata={"Date": None, "Creator": None})
    text = out.getvalue().replace(INK, "currentColor")
    rules = (
        f"<style>:root{{color:{DAY[0]};background:{DAY[1]}}}"
        f"@media(prefers-color-scheme:dark){{:root{{color:{NIGHT[0]};background:{NIGHT[1]}}}}}</style>"
    )
    after = text.index(">", text.index("<svg")) + 1
    return text[:after] + rules + text[after:]


def figures(c: Comparison) -> list[Picture]:
    """All figures; matplotlib is imported here and not before."""
    import matplotlib

    makers = (score_over_time, figure_a, figure_b, steps)
    with matplotlib.rc_context(RC):
        return [render(*drawn) for make in makers if (drawn := make(c)) is not None]


def curve(c: Comparison, key: str, split: str) -> pd.DataFrame:
    """[seconds] mean, low, high over the trials, from where half of them were scored.

    After a trial's end its score stays what it was, so a curve ends at the mean of the table.
    """
    mine = c.rounds[c.rounds["method"] == key].dropna(subset=split)
    if mine["trial"].nunique() < len(c.methods[key].trials):
        return pd.DataFrame()
    table = mine.pivot_table(index=c.clock, columns="trial", values=split, aggfunc="last").ffill()
    table = table[table.notna().sum(axis=1) * 2 >= table.shape[1]]
    places = np.linspace(0, len(table) - 1, min(len(table), POINTS)).round().astype(int)
    ends = (0.0, 1.0) if table.shape[1] < FEW else (0.25, 0.75)
    low, high = (table.quantile(end, axis=1) for end in ends)
    return pd.DataFrame({"mean": table.mean(axis=1), "low": low, "high": high}).iloc[places]


def score_over_time(c: Comparison) -> Drawn | None:
    score = c.score
    figure, grid = canvas(2.4 * len(c.splits) + 0.8, len(c.splits), 1, sharex=True)
    for (axes,), (split, title) in zip(grid, c.splits.items(), strict=True):
        curves = {key: line for key in c.methods if len(line := curve(c, key, split))}
        if not curves:
            return None  # no score on record
        lines = [_draw_curve(axes, c, key, line) for key, line in curves.items()]
        if c.target is not None and split == "holdout":
            axes.axhline(c.target, color=INK, linewidth=1, linestyle=(0, (2, 2)))
        low, high = axes.get_ylim()
        if low < score.least and score.larger:  # R² of a first round may be anything below
            low = score.least
            axes.set_ylim(bottom=low)
        if low < c.base.get(split, low) < high:  # where a curve is near it
            axes.axhline(c.base[split], color=INK, linewidth=1, alpha=0.5)
        axes.set_title(title)
        axes.set_ylabel(score.title)
        axes.set_xlim(left=0)
        if split == "holdout":
            legend(figure, lines, [short(c.label(key)) for key in curves])
    grid[-1][0].set_xlabel(f"virtual seconds ({c.clock} clock)")
    return "score_time", f"{score.heading} over virtual time", _curve_caption(c), figure


def _draw_curve(axes: "Axes", c: Comparison, key: str, line: pd.DataFrame) -> "Artist":
    own, first = look(c.place(key)), key == c.reference
    x, every = line.index.to_numpy(), max(1, len(line) // MARKS)
    if len(c.methods[key].trials) > 1:
        axes.fill_between(x, line["low"], line["high"], color=own["color"], alpha=0.16, linewidth=0)
    drawn = axes.plot(
        x,
        line["mean"],
        linewidth=2.4 if first else 1.5,
        zorder=3 if first else 2,
        ms=4.5,
        markevery=(c.place(key) * every // len(c.methods), every),
        **own,
    )
    return drawn[0]


def _curve_caption(c: Comparison) -> str:
    counts = [len(one.trials) for one in c.methods.values()]
    if max(counts) == 1:
        text = "One trial each."
    elif max(counts) < FEW:
        text = "Mean over trials; the band holds all of them."
    else:
        few = "" if min(counts) >= FEW else f", all where there are fewer than {FEW}"
        text = f"Mean over trials; the band holds the middle half of them{few}."
    text += f" A curve ends at the {c.score.title} of the table."
    text += (
        f" Dotted: {'the target, ' if not c.in_hindsight else ''}{c.goal}." if c.target is not None else ""
    )
    if "holdout" in c.base:
        text += f" Grey, where in view: the score of always predicting {c.base_name}."
    return text


def figure_a(c: Comparison) -> Drawn | None:
    if len(c.trials) == 1:
        return None  # one dot
    text = f"{c.score.heading} of the global model at the end of every trial: "
    title = f"Figure A: {c.score.title} of every trial"
    if _any_shape(c):
        title = f"Figure A: {c.score.title} over trials, box plot"
        text += "median, quartiles, whiskers to the last trial within 1.5 times their distance; "
    return "figure_a", title, f"{text}a dot is a trial.", _distribution(c, _box)


def figure_b(c: Comparison) -> Drawn | None:
    if not _any_shape(c):
        return None  # it would be figure A once more
    title = f"Figure B: {c.score.title} over trials, violin plot"
    return "figure_b", title, "The same as densities; a dot is a trial.", _distribution(c, _violin)


def _any_shape(c: Comparison) -> bool:
    return any(_has_shape(c.numbers(key, c.score.measure(split))) for key in c.methods for split in c.splits)


def _has_shape(values: "pd.Series[float]") -> bool:
    """Whether there are enough trials for a box or a violin."""
    return len(values) >= FEW and values.nunique() > 2


def _distribution(c: Comparison, draw: Callable[["Axes", int, list[float], str], None]) -> "Figure":
    figure, grid = canvas(0.7 + 0.33 * len(c.methods), 1, len(c.splits), sharey=True)
    for axes, (split, title) in zip(grid[0], c.splits.items(), strict=True):
        for place, key in enumerate(c.methods):
            values, colour = c.numbers(key, c.score.measure(split)), look(c.place(key))["color"]
            jitter = np.linspace(-0.1, 0.1, len(values)) if len(values) > 1 else np.zeros(len(values))
            if _has_shape(values):
                draw(axes, place, values.tolist(), colour)
                axes.plot(values, place + jitter, ".", ms=3, color=INK, alpha=0.55, mew=0)
            else:
                axes.plot(values, place + jitter, "o", ms=6, color=colour, mec=INK, mew=0.6)
        axes.set_title(title)
        axes.set_xlabel(c.score.title)
        axes.locator_params(axis="x", nbins=4)
        axes.set_yticks(range(len(c.methods)), [fill(short(c.label(key)), NAME_WIDTH) for key in c.methods])
        axes.set_ylim(len(c.methods) - 0.4, -0.6)  # the first one on top
        axes.grid(axis="y", visible=False)
    return figure


def _box(axes: "Axes", place: int, values: list[float], colour: str) -> None:
    ink = {"color": INK, "linewidth": 1}
    axes.boxplot(
        values,
        positions=[place],
        orientation="horizontal",
        widths=0.6,
        manage_ticks=False,
        showfliers=False,
        patch_artist=True,
        boxprops={"facecolor": colour, "edgecolor": INK},
        medianprops=ink | {"linewidth": 2},
        whiskerprops=ink,
        capprops=ink,
    )


def _violin(axes: "Axes", place: int, values: list[float], colour: str) -> None:
    made = axes.violinplot(values, [place], orientation="horizontal", widths=0.8, showextrema=False)
    for body in cast("list[Collection]", made["bodies"]):
        body.set(facecolor=colour, edgecolor=INK, alpha=1, linewidth=1)


def steps(c: Comparison) -> Drawn | None:
    """Steps that a policy chose, as a map: a row a client, slow ones below, a column a round."""
    from matplotlib.colors import LogNorm

    if not len(c.work):
        return None
    planned = [key for key in c.methods if c.work.loc[c.work["method"] == key, "steps"].nunique() > 1]
    if not planned:
        return None
    maps = {key: step_map(c, key) for key in planned}
    most, tallest = max(float(np.nanmax(each)) for each in maps.values()), max(map(len, maps.values()))
    figure, grid = canvas(0.4 + min(3.6, 0.9 + 0.17 * tallest) * len(planned), len(planned), 1, sharex=True)
    for (axes,), (key, values) in zip(grid, maps.items(), strict=True):
        image = axes.imshow(
            values,
            aspect="auto",
            interpolation="nearest",
            extent=(0.5, values.shape[1] + 0.5, len(values) - 0.5, -0.5),
            norm=LogNorm(1, max(most, 2)),
            cmap="viridis",
        )
        axes.grid(visible=False)
        axes.set_title(short(c.label(key)))
        order = _by_speed(c, len(values))
        if len(values) <= NAMED:
            axes.set_yticks(
                range(len(values)), [short(_speed_label(c, client), NAME_WIDTH) for client in order]
            )
        else:
            axes.set_yticks([])
            axes.set_ylabel("client, slowest below" if c.step_seconds else "client")
        bar = figure.colorbar(image, ax=axes, label="local steps", pad=0.02)
        powers = range(0, int(np.log2(most)) + 1, max(1, int(np.log2(most)) // 6))
        bar.set_ticks([2**power for power in powers], labels=[str(2**power) for power in powers])
        bar.minorticks_off()
    grid[-1][0].set_xlabel("round")
    grid[-1][0].locator_params(axis="x", integer=True)
    same = [
        f"{c.label(k)} {c.work.loc[c.work['method'] == k, 'steps'].iloc[0]}"
        for k in c.methods
        if k not in maps
    ]
    caption = "Mean local steps over the trials. Empty: not asked in that round."
    caption += f" The others take the same number everywhere: {', '.join(same)}." if same else ""
    return "steps", "Steps of every client", caption, figure


def step_map(c: Comparison, key: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """[client by speed, round] means over the trials, of rounds that half of them had."""
    mine = c.work[c.work["method"] == key]
    table = mine.pivot_table(index="client", columns="round", values="steps")
    lengths = mine.groupby("trial")["round"].max().sort_values()
    rounds = range(1, int(lengths.iloc[len(lengths) // 2]) + 1)
    whole = table.reindex(index=_by_speed(c, int(table.index.max()) + 1), columns=rounds)
    return np.asarray(whole, np.float64)


def _by_speed(c: Comparison, clients: int) -> list[int]:
    speeds = [*c.step_seconds[:clients], *[0.0] * (clients - len(c.step_seconds))]
    return sorted(range(clients), key=lambda client: speeds[client])


def _speed_label(c: Comparison, client: int) -> str:
    speed = f", {1000 * c.step_seconds[client]:.3g} ms" if client < len(c.step_seconds) else ""
    return f"{short(c.client(client), 14)}{speed}"
