"""The looks of figures: one colour a series, on light and dark pages, also for colour-blind readers."""

import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from amsfl.core.records import Json

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette ("Color Universal Design", 2008), less its yellow, which is lost on white, and
# with a grey for its black, which is lost on black. The first colour is the reference's.
PALETTE = ("#D55E00", "#7A7A7A", "#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#E69F00")
DASHES: tuple[tuple[float, ...], ...] = ((), (4, 1.5), (1, 1), (5, 1, 1, 1), (8, 2))  # in line widths


MARKERS = "os^vDPXp"


class Look(NamedTuple):
    colour: str
    marker: str
    dash: tuple[float, ...]  # () for a solid line

    @property
    def line_style(self) -> Json:
        """Keywords of matplotlib's plot."""
        line = (0, self.dash) if self.dash else "solid"
        return {"color": self.colour, "linestyle": line, "marker": self.marker}


def look(place: int) -> Look:
    """By the place of a series; after seven, colours repeat with other dashes."""
    again = place // len(PALETTE)
    marker = MARKERS[(place + again) % len(MARKERS)]
    return Look(PALETTE[place % len(PALETTE)], marker, DASHES[again % len(DASHES)])


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
