"""The looks of figures: one colour a series, on light and dark pages, also for colour-blind readers."""

import io
from typing import TYPE_CHECKING, Any, NamedTuple

from amsfl.core.records import Json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette ("Color Universal Design", 2008), less its yellow, which is lost on white, and
# with a grey for its black, which is lost on black. The first colour is the reference's.
PALETTE = ("#D55E00", "#7A7A7A", "#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#E69F00")
DASHES: tuple[tuple[float, ...], ...] = ((), (4, 1.5), (1, 1), (5, 1, 1, 1), (8, 2))  # in line widths


class Marker(NamedTuple):
    code: str  # matplotlib's
    path: str  # the same shape in an SVG, about eight units wide


MARKERS = (
    Marker("o", "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z"),
    Marker("s", "M-3.5-3.5h7v7h-7z"),
    Marker("^", "M0-4.5L4.5 3.5h-9z"),
    Marker("v", "M0 4.5L4.5-3.5h-9z"),
    Marker("D", "M0-4.8L4.8 0L0 4.8L-4.8 0z"),
    Marker("P", "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z"),
    Marker("X", "M-4-2.4L-2.4-4L0-1.6L2.4-4L4-2.4L1.6 0L4 2.4L2.4 4L0 1.6L-2.4 4L-4 2.4L-1.6 0z"),
    Marker("p", "M0-4.6L4.4-1.4L2.7 3.7h-5.4L-4.4-1.4z"),
)


class Look(NamedTuple):
    colour: str
    marker: Marker
    dash: tuple[float, ...]  # () for a solid line

    @property
    def line_style(self) -> Json:
        """Keywords of matplotlib's plot."""
        line = (0, self.dash) if self.dash else "solid"
        return {"color": self.colour, "linestyle": line, "marker": self.marker.code}

    @property
    def for_chart(self) -> Json:
        """As chart.js takes it."""
        return {"colour": self.colour, "marker": self.marker.path, "dash": list(self.dash)}


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


def to_svg(figure: "Figure") -> str:
    """An SVG that follows the reader's light or dark setting, on a page or by itself."""
    out = io.StringIO()
    figure.savefig(out, format="svg", facecolor="none", metadata={"Date": None, "Creator": None})
    text = out.getvalue().replace(INK, "currentColor")
    rules = (
        f"<style>:root{{color:{DAY[0]};background:{DAY[1]}}}"
        f"@media(prefers-color-scheme:dark){{:root{{color:{NIGHT[0]};background:{NIGHT[1]}}}}}</style>"
    )
    opening = text.index("<svg")
    after = text.index(">", opening) + 1
    return text[:after] + rules + text[after:]


def to_png(figure: "Figure") -> bytes:
    """By day, for places that take no SVG."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=200, facecolor=DAY[1], metadata={"Software": None})
    return out.getvalue()
