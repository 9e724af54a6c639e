"""CSV tables: what becomes of words, numbers, labels and clients, and the sentence for every mistake."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amsfl.core import UserError
from amsfl.data import load, partition

HEADER = "age,smoker,flat,hospital,label"
LINES = [
    f"{30 + i},{'yes' if i % 3 else 'no'},7,{'north' if i < 12 else 'south'},{'ill' if i % 2 else 'well'}"
    for i in range(20)
]


@pytest.fixture
def write(tmp_path: Path):  # type: ignore[no-untyped-def]
    def to(*lines: str, name: str = "heart.csv") -> str:
        content = ("\n".join(lines) + "\n").encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        return str(tmp_path / name)

    return to


def test_words_numbers_labels_and_clients(write) -> None:  # type: ignore[no-untyped-def]
    data = load(write(HEADER, *LINES))
    assert data.name == "csv:heart.csv" and data.classes == ("ill", "well")
    assert data.features == ("age", "smoker=no", "smoker=yes", "flat")
    assert data.site_names == ("north", "south") and data.sites is not None
    assert len(data.sites) == len(data.y) == 16 and len(data.evals["holdout"][1]) == 4
    age, no, yes, flat = data.x.T
    assert age.mean() == pytest.approx(0, abs=1e-6) and age.std() == pytest.approx(1, rel=1e-6)
    assert (no + yes == 1).all() and (flat == 0).all()
    parts = partition("column", data.y, 2, 0, sites=data.sites, site_names=data.site_names)
    assert [len(p) for p in parts] == np.bincount(data.sites).tolist()


def test_scale_none_keeps_the_numbers(write) -> None:  # type: ignore[no-untyped-def]
    data = load(write(HEADER, *LINES), scale="none")
    every = np.concatenate([data.x, data.evals["holdout"][0]])
    assert sorted(every[:, 0]) == list(range(30, 50)) and (every[:, 3] == 7).all()
    with pytest.raises(UserError, match=r"Unknown scale 'standart'.*'standard'"):
        load(write(HEADER, *LINES), scale="standart")


def test_gzip_semicolons_byte_order_mark_and_other_names(write) -> None:  # type: ignore[no-untyped-def]
    lines = [line.replace(",", ";") for line in (HEADER.replace("label", "outcome"), *LINES)]
    plain = load(write(HEADER, *LINES))
    other = load(write("\ufeff" + lines[0], "", *lines[1:], name="h.csv.gz"), label="outcome")
    assert (plain.x == other.x).all() and other.features[0] == "age" and other.name == "csv:h.csv.gz"


def test_named_client_column_leaves_the_features(write) -> None:  # type: ignore[no-untyped-def]
    data = load(write(HEADER, *LINES), client_column="smoker")
    assert data.site_names == ("no", "yes")
    assert data.features == ("age", "flat", "hospital=north", "hospital=south")


def test_class_names_in_the_order_of_numbers(write) -> None:  # type: ignore[no-untyped-def]
    data = load(write("a,y", *[f"{i},{(10, 9, 100)[i % 3]}" for i in range(12)]))
    assert data.classes == ("9", "10", "100")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=8, max_size=30))
def test_any_finite_numbers_stay_finite(
    tmp_path_factory: pytest.TempPathFactory, values: list[float]
) -> None:
    path = tmp_path_factory.mktemp("t") / "t.csv"
    path.write_text("a,b,y\n" + "".join(f"{v!r},{i % 5},{i % 2}\n" for i, v in enumerate(values)))
    data = load(str(path))
    for x in (data.x, data.evals["holdout"][0]):
        assert np.isfinite(x).all() and np.abs(x).max() <= 10


CASES = {
    "no label column": (
        [HEADER.replace("label", "z"), *LINES],
        {},
        "has no label column; its columns are age, .*--label",
    ),
    "label not there": (
        [HEADER, *LINES],
        {"label": "sick"},
        "no column 'sick'.*known: age, smoker, .*--label",
    ),
    "wide": ([",".join(f"c{i}" for i in range(99)), ",".join("1" * 99)], {}, "c0, .* c39 and 59 more"),
    "client not there": ([HEADER, *LINES], {"client_column": "ward"}, "no column 'ward'.*--client-column"),
    "label is client": ([HEADER, *LINES], {"label": "hospital"}, "both the label and the client"),
    "empty cell": (
        [HEADER, *LINES, "40,,7,north,ill"],
        {"impute": "refuse"},
        "line 22, column 'smoker' is empty; .*--impute indicator",
    ),
    "nan": (
        [HEADER, LINES[0], "NaN,no,7,north,ill", *LINES],
        {"impute": "refuse"},
        "line 3, column 'age' is empty",
    ),
    "infinite": ([HEADER, *LINES, "inf,no,7,north,ill"], {}, "Line 22, column 'age' is 'inf', but the rest"),
    "word among numbers": ([HEADER, *LINES, "old,no,7,north,ill"], {}, "Line 22, column 'age' is 'old', but"),
    "short line": ([HEADER, *LINES, "40,no,7"], {}, "line 22 has 3 cells; the header has 5"),
    "one class": (
        [HEADER, *[x.replace("ill", "well") for x in LINES]],
        {},
        "has label 'well'; learning needs two",
    ),
    "an amount": ([HEADER, *LINES], {"label": "age"}, "'age' has 20 different values in 20 rows"),
    "identifier": (
        ["id,y", *[f"p{i},{i % 2}" for i in range(200)]],
        {},
        "no columns besides 'y'.*looks like an identifier: 160 different words; --keep id",
    ),
    "odd number": (
        [HEADER, *LINES],
        {"columns": "smoker=number"},
        "column 'smoker' is '(yes|no)', but the rest are numbers",
    ),
    "no such column": ([HEADER, *LINES], {"drop": "agee"}, r"no column 'agee'.*'age'"),
    "no such reading": ([HEADER, *LINES], {"columns": "age=letters"}, "not NAME=HOW with HOW one of number"),
    "no such filling": ([HEADER, *LINES], {"impute": "mean"}, "Unknown impute 'mean'"),
    "no site to fill by": (
        ["a,y", *[f"{i % 3},{i % 2}" for i in range(20)]],
        {"impute": "site"},
        "no column names one; pass --client-column",
    ),
    "all dropped": (["a,y", "1,0", "2,1", "3,0", "4,1"], {"drop": "a"}, "no columns besides 'y'"),
    "nobody's rows": (["a,y", "1,", "2,"], {}, "Every row of .* lacks y"),
    "no header": (["1,2", "3,4", "5,6"], {}, "must name the columns"),
    "same name twice": (["a,a,y", "1,2,0"], {}, "each differently; it reads a,a,y"),
    "nothing to learn from": (["y", *["0", "1"] * 4], {}, "no columns besides 'y'"),
    "a feature's name": (
        ["g,g=a,y", *[f"{'ab'[i % 2]},{i % 7 + 0.5},{i % 2}" for i in range(20)]],
        {},
        "has a column 'g=a'.*rename it",
    ),
    "header only": ([HEADER], {}, "no rows below its first line"),
}


@pytest.mark.parametrize("case", CASES)
def test_every_mistake_has_its_sentence(case: str, write) -> None:  # type: ignore[no-untyped-def]
    lines, options, sentence = CASES[case]
    with pytest.raises(UserError, match=sentence):
        load(write(*lines), **options)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no file"):
        load(str(tmp_path / "none.csv"))
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)))
    with pytest.raises(UserError, match="cannot be read as CSV text; save it as UTF-8"):
        load(str(tmp_path / "binary.csv"))
    (tmp_path / "fake.csv.gz").write_bytes(b"age,y\n1,0\n")
    with pytest.raises(UserError, match="cannot be read as CSV"):
        load(str(tmp_path / "fake.csv.gz"))
