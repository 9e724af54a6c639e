"""A table as tables are: hospital visits that nobody made, with gaps, dates, an id and very many words.

Who comes back within thirty days (7 in 100) depends on age, earlier visits, a laboratory value, the ward and
the diagnosis. The six hospitals differ in size, in whom they treat and in how often patients return.
"""

import csv
import io
from datetime import date

import numpy as np
import numpy.typing as npt

from amsfl.core import UserError
from amsfl.data.dataset import random_stream

ROWS, NEW = 20_000, 500
SEED = 13
GAPS = 0.04  # share of empty cells in the columns that may have them
COMES_BACK = 0.07
DIAGNOSES = 3_000
HOSPITALS = {"Oslo": 0.34, "Lyon": 0.24, "Graz": 0.17, "Porto": 0.12, "Turku": 0.08, "Ghent": 0.05}
WARDS = ("surgery", "cardiology", "oncology", "geriatrics", "neurology", "general")
WARD_RISK = np.array([-0.8, 0.6, 0.9, 1.2, 0.0, -0.4])
WHOLE = ("visit_id", "hospital")  # columns without gaps
LABEL = "readmitted"

Floats = npt.NDArray[np.float64]


def messy(rows: int = ROWS, new: int = NEW, seed: int = SEED) -> dict[str, bytes]:
    """Two CSV files by name: visits.csv with its label, and new-visits.csv, later rows without one.

    The same numbers give the same bytes wherever numpy draws alike.
    """
    if rows < 100 or new < 1:
        raise UserError(f"The example has 100 rows or more and 1 new row or more; got {rows} and {new}.")
    columns, risk = _visits(rows + new, random_stream(seed, "messy"))
    returned = risk[:rows] >= np.quantile(risk[:rows], 1 - COMES_BACK)
    labels = np.where(returned, "yes", "no").tolist()
    old = {name: cells[:rows] for name, cells in columns.items()} | {LABEL: labels}
    later = {name: cells[rows:] for name, cells in columns.items()}
    return {"visits.csv": _csv(old), "new-visits.csv": _csv(later)}


def _visits(count: int, rng: np.random.Generator) -> tuple[dict[str, list[str]], Floats]:
    """The columns as text, and every visit's risk."""
    site = rng.choice(len(HOSPITALS), count, p=list(HOSPITALS.values()))
    age = np.clip(rng.normal(58 + 3 * site, 17), 18, 99)  # the smaller the hospital, the older its patients
    earlier = rng.poisson(np.exp((age - 60) / 40) * (0.6 + 0.2 * site))
    ward = (rng.choice(len(WARDS), count, p=[0.25, 0.2, 0.1, 0.15, 0.1, 0.2]) + (site == 5)) % len(WARDS)
    # most visits go through all diagnoses there are, the others have what is common in their hospital
    distinct = min(DIAGNOSES, count // 6)
    every = rng.permutation(np.arange(count) % distinct)
    common = rng.zipf(1.3, count) % distinct * (1 + 7 * site) % distinct
    code = np.where(rng.random(count) < 0.85, every, common)
    creatinine = rng.lognormal(0.0 + 0.01 * (age - 60), 0.45)
    pulse = rng.normal(78, 12, count) + 4 * (creatinine > 2)
    smoker = rng.random(count) < 0.25
    logit = (
        1.1 * np.minimum(earlier, 6)
        + 0.05 * (age - 60)
        + 1.5 * np.log(creatinine)
        + 1.3 * WARD_RISK[ward]
        + rng.normal(0, 0.8, DIAGNOSES)[code]
        + 0.6 * smoker
        + 0.03 * (pulse - 78)
        + np.array([-0.6, 0.0, 0.3, -0.2, 0.6, 0.9])[site]
    )
    admitted = date(2023, 1, 1).toordinal() + np.sort(rng.integers(0, 730, count))
    born = admitted - (age * 365.25).astype(int)
    columns = {
        "visit_id": [str(100_000 + place) for place in range(count)],
        "hospital": [list(HOSPITALS)[place] for place in site],
        "admitted": [date.fromordinal(int(day)).isoformat() for day in admitted],
        "born": [date.fromordinal(int(day)).strftime("%d.%m.%Y") for day in born],
        "ward": [WARDS[place] for place in ward],
        "diagnosis": [_code(place) for place in code],
        "pulse": [f"{value:.0f}" for value in pulse],
        "temperature": [f"{value:.1f}" for value in rng.normal(37.1, 0.6, count)],
        "creatinine": [f"{value:.2f}" for value in creatinine],
        "earlier_visits": [str(value) for value in earlier],
        "smoker": ["yes" if value else "no" for value in smoker],
    }
    for name, cells in columns.items():
        if name not in WHOLE:
            for place in np.flatnonzero(rng.random(count) < GAPS):
                cells[place] = ""
    return columns, logit + rng.logistic(0, 0.5, count)


def _code(place: int) -> str:
    """A diagnosis as hospitals write them: a letter, two digits, a point and a digit."""
    letter, rest = divmod(int(place), 200)
    return f"{chr(ord('A') + letter)}{rest // 5:02}.{rest % 5}"


def _csv(columns: dict[str, list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *zip(*columns.values(), strict=True)])
    return text.getvalue().encode()
