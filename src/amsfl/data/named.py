"""Images of digits by name, and a messy table to try."""

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from amsfl.data.dataset import Dataset, hold_out, random_stream
from amsfl.data.recipe import ColumnRecipe, Recipe

GAPS = 0.04  # share of empty cells in the example's columns that may have them
COMES_BACK = 0.07
DIAGNOSES = 3_000
HOSPITALS = {"Oslo": 0.34, "Lyon": 0.24, "Graz": 0.17, "Porto": 0.12, "Turku": 0.08, "Ghent": 0.05}
WARDS = {  # and what they add to the risk
    "surgery": -1.0,
    "cardiology": 0.8,
    "oncology": 1.2,
    "geriatrics": 1.6,
    "neurology": 0.0,
    "general": -0.5,
}


def load_digits(holdout: float, seed: int) -> Dataset:
    """1,797 images of 8 x 8 in ten classes, UCI's handwritten digits, the test half: grey values scaled from
    the known range 0..16 to [0, 1], and the recipe that does so.

    scikit-learn's file is read by itself: importing scikit-learn takes longer than many a run on it.
    """
    spec = find_spec("sklearn")
    assert spec is not None and spec.submodule_search_locations
    file = Path(spec.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"
    table = np.loadtxt(gzip.decompress(file.read_bytes()).decode().splitlines(), np.float32, delimiter=",")
    x, y = table[:, :-1] / np.float32(16), table[:, -1].astype(np.int32)
    names = tuple(f"pixel_{row}_{column}" for row in range(8) for column in range(8))
    recipe = Recipe(tuple(ColumnRecipe(name, "number", scale=16.0) for name in names), label="class")
    return hold_out(Dataset("digits", x, y, {}, tuple("0123456789"), names, recipe=recipe), holdout, seed)


def messy(rows: int = 20_000, new: int = 500) -> dict[str, bytes]:
    """A table as tables are, in two CSV files by name: visits.csv with its label, and new-visits.csv, later
    rows without one.

    Hospital visits that nobody made, with gaps, dates, an id and very many words. Who comes back within
    thirty days (7 in 100) depends on age, earlier visits, a laboratory value, the ward and the diagnosis. The
    six hospitals differ in size, in whom they treat and in how often patients return.
    """
    import pandas as pd  # here: slow to import, and data by name need none

    rng, count = random_stream(13, "messy"), rows + new
    site, ward = (
        rng.choice(6, count, p=p) for p in ([*HOSPITALS.values()], [0.25, 0.2, 0.1, 0.15, 0.1, 0.2])
    )
    age = np.clip(rng.normal(58 + 3 * site, 17), 18, 99)  # the smaller the hospital, the older its patients
    earlier = rng.poisson(np.exp((age - 60) / 40) * (0.6 + 0.2 * site))
    code = rng.permutation(np.arange(count) % min(DIAGNOSES, count // 6))
    creatinine = rng.lognormal(0.01 * (age - 60), 0.45)
    smoker = rng.random(count) < 0.25
    risk = (
        1.1 * np.minimum(earlier, 6)
        + 0.05 * (age - 60)
        + 1.5 * np.log(creatinine)
        + np.array([*WARDS.values()])[ward]
        + rng.normal(0, 0.8, DIAGNOSES)[code]
        + 0.6 * smoker
        + np.array([-0.6, 0.0, 0.3, -0.2, 0.6, 0.9])[site]
        + rng.logistic(0, 0.5, count)
    )
    admitted = pd.Timestamp("2023-01-01") + pd.to_timedelta(np.sort(rng.integers(0, 730, count)), "D")
    cells = {
        "admitted": admitted.strftime("%Y-%m-%d"),
        "born": (admitted - pd.to_timedelta((age * 365.25).astype(int), "D")).strftime("%d.%m.%Y"),
        "ward": np.array([*WARDS])[ward],
        "diagnosis": [f"{chr(ord('A') + each // 200)}{each % 200 // 5:02}.{each % 5}" for each in code],
        "pulse": rng.normal(78, 12, count).round(),
        "temperature": rng.normal(37.1, 0.6, count).round(1),
        "creatinine": creatinine.round(2),
        "earlier_visits": earlier,
        "smoker": np.where(smoker, "yes", "no"),
    }
    frame = pd.DataFrame(cells).mask(rng.random((count, len(cells))) < GAPS)
    frame.insert(0, "visit_id", 100_000 + np.arange(count))
    frame.insert(1, "hospital", np.array([*HOSPITALS])[site])
    returned = risk[:rows] >= np.quantile(risk[:rows], 1 - COMES_BACK)
    files = {
        "visits.csv": frame[:rows].assign(readmitted=np.where(returned, "yes", "no")),
        "new-visits.csv": frame[rows:],
    }
    return {name: each.to_csv(index=False, lineterminator="\n").encode() for name, each in files.items()}
