"""How figures look: one colour a method everywhere, by day, by night, and for the colour-blind."""

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette ("Color Universal Design", 2008), less its yellow, which is lost on white, and
# with a grey for its black, which is lost on black. The most telling colour goes to the method in question.
COLOURS = {
    "amsfl": "#D55E00",
    "fedavg": "#7A7A7A",
    "scaffold": "#0072B2",
    "fedprox": "#56B4E9",
    "fednova": "#009E73",
    "feddyn": "#CC79A7",
    "fedcsda": "#E69F00",
}
MARKERS = {
    "amsfl": "o",
    "fedavg": "s",
    "scaffold": "^",
    "fedprox": "v",
    "fednova": "D",
    "feddyn": "P",
    "fedcsda": "X",
}
DASHES: list[Any] = ["solid", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (8, 2))]
WIDTH = 5.6  # inches: at a phone's width the labels still have ten pixels
DAY, NIGHT = ("#1f2328", "#ffffff"), ("#e6e8ea", "#15181c")  # ink, paper
INK = "#010203"  # stands for the page's text colour in an SVG
RC: dict[str, Any] = {
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
    "svg.fonttype": "path",  # a phone does not have the font
    "svg.hashsalt": "amsfl",
    "figure.constrained_layout.use": True,
}


def dash(variant: int) -> Any:
    return DASHES[variant % len(DASHES)]


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
