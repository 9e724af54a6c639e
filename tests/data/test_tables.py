"""Any table: what becomes of numbers, dates, words, gaps, identifiers, labels and clients."""

import json
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amsfl.core import UserError
from amsfl.data import describe, load, partition
from amsfl.data.cells import date_readings, number_readings
from amsfl.data.dataset import mean_and_deviation
from amsfl.data.features import encode, other_scale, unfamiliar_cells
from amsfl.data.files import name_files, source_name
from amsfl.data.read_table import RawTable, read_rows, read_table
from amsfl.data.recipe import ColumnRecipe, split_names
from amsfl.data.table import class_places

HEADER = "age,smoker,flat,hospital,label"
LINES = [
    f"{30 + i},{'yes' if i % 3 else 'no'},7,{'north' if i < 12 else 'south'},{'ill' if i % 2 else 'well'}"
    for i in range(20)
]
LABELS = ["x", "y"] * 40


def sheet(path: Path, *lines: str, encoding: str = "utf-8") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(("\n".join(lines) + "\n").encode(encoding))
    return str(path)


def columns_of(data: Any) -> dict[str, ColumnRecipe]:
    return {column.name: column for column in data.recipe.columns}


def new_rows(data: Any, rows: Any) -> RawTable:
    return read_rows(rows, data.recipe)


def features_of(data: Any, rows: Any) -> Any:
    return encode(data.recipe, new_rows(data, rows))


def test_words_numbers_labels_and_clients(tmp_path: Path) -> None:
    data = load(sheet(tmp_path / "heart.csv", HEADER, *LINES))
    assert data.name == "csv:heart.csv" and data.classes == ("ill", "well")
    assert data.features == ("age", "smoker=no", "smoker=yes", "flat")
    assert data.site_names == ("north", "south") and data.sites is not None
    assert len(data.sites) == len(data.y) == 16 and len(data.evals["holdout"][1]) == 4
    age, no, yes, flat = data.x.T
    assert age.mean() == pytest.approx(0, abs=1e-6) and age.std() == pytest.approx(1, rel=1e-6)
    assert (no + yes == 1).all() and (flat == 0).all()
    parts = partition("column", data.y, 2, 0, sites=data.sites, site_names=data.site_names)
    assert [len(p) for p in parts] == np.bincount(data.sites).tolist()
    other = load(sheet(tmp_path / "heart.csv", HEADER, *LINES), client_column="smoker")
    assert other.site_names == ("no", "yes")
    assert other.features == ("age", "flat", "hospital=north", "hospital=south")


def test_class_names_in_the_order_of_numbers() -> None:
    data = load({"a": range(12), "y": [(10, 9, 100)[i % 3] for i in range(12)]})
    assert data.classes == ("9", "10", "100")
    codes = load({"a": [i % 5 for i in range(12)], "y": ["01", "007"] * 6})
    assert codes.classes == ("01", "007")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=8, max_size=30))
def test_any_finite_numbers_stay_finite(
    tmp_path_factory: pytest.TempPathFactory, values: list[float]
) -> None:
    path = tmp_path_factory.mktemp("t") / "t.csv"
    path.write_text("a,b,y\n" + "".join(f"{v!r},{i % 5},{i % 2}\n" for i, v in enumerate(values)))
    data = load(str(path))
    for x in (data.x, data.evals["holdout"][0]):
        assert np.isfinite(x).all() and np.abs(x).max() <= 10
    mean, deviation = mean_and_deviation(np.array(values))
    size = max(1e-300, float(np.abs(values).max()))
    assert mean / size == pytest.approx(np.mean(np.array(values) / size), abs=1e-12)
    assert deviation / size == pytest.approx(np.std(np.array(values) / size), abs=1e-12)


def test_the_hold_out_is_not_looked_at() -> None:
    """Whatever the held-out rows say, the recipe is the same: it is fitted to training rows alone."""
    rng = np.random.default_rng(0)
    y = ["p", "q"] * 50
    table: dict[str, list[Any]] = {"a": rng.normal(size=100).tolist(), "label": y}
    table["w"] = rng.choice(["u", "v"], 100).tolist()
    data = load(table)
    held = data.evals["holdout"][0].tolist()
    rows = features_of(data, {name: table[name] for name in ("a", "w")}).tolist()
    places = [place for place, row in enumerate(rows) if row in held]
    assert len(places) == 20
    for place in places:
        table["a"][place], table["w"][place] = 1e6, "only here"
    again = load(table)
    assert again.recipe._replace(rows="") == data.recipe._replace(rows="")  # type: ignore[union-attr]
    assert np.abs(again.evals["holdout"][0]).max() == 10  # cut off, not taken into the scale


@pytest.mark.parametrize(
    ("word", "form", "number"),
    [
        ("1.200", "decimal-comma", 1200.0),
        ("0.125", "decimal-comma", np.nan),  # no thousands begin with 0
        ("1.234.567,8", "decimal-comma", 1234567.8),
        ("1,5e3", "decimal-comma", 1500.0),
        ("1,234", "decimal-point", 1234.0),
        ("1,5", "decimal-point", np.nan),
        ("inf", "decimal-point", np.nan),
        ("TRUE", "decimal-point", 1.0),
    ],
)
def test_numbers_as_people_write_them(word: str, form: str, number: float) -> None:
    np.testing.assert_equal(number_readings([word])[form][0], number)


@pytest.mark.parametrize(
    ("word", "form", "days"),
    [
        ("1970-01-02", "year-first", 1.0),
        ("1970/01/02", "year-first", 1.0),
        ("1970-01-01T01:00:00+01:00", "year-first", 0.0),
        ("02.01.1970 12:00", "day-first", 1.5),
        ("2/1/1970 6:00", "day-first", 1.25),
        ("01/02/1970", "month-first", 1.0),
        ("31.12.1969", "month-first", np.nan),  # points have the day first
        ("31/12/1969", "month-first", np.nan),
        ("3:1", "year-first", np.nan),
    ],
)
def test_days_since_1970(word: str, form: str, days: float) -> None:
    np.testing.assert_equal(date_readings([word])[form][0], days)


def test_dates_identifiers_words_and_commas(tmp_path: Path) -> None:
    lines = ["id;born;seen;weight;price;code;label"]
    for i in range(200):
        born, seen = f"{1 + i % 28:02}.{1 + i % 12:02}.19{60 + i % 30}", f"2024-03-{1 + i % 31:02}T12:00:00"
        lines.append(
            f"{1000 + i};{born};{seen};{i % 9},{i % 10};1.{i:03},5;w{i % 90};{'Yes' if i % 2 else 'no'}"
        )
    path = sheet(tmp_path / "t.csv", *lines)
    data = load(path)
    found = columns_of(data)
    assert data.recipe is not None and list(data.recipe.left_out) == ["id"]
    assert (found["born"].read, found["born"].form) == ("date", "day-first")
    assert (found["seen"].read, found["seen"].form) == ("date", "")
    assert found["weight"].read == "number" and len(found["code"].words) == 64
    assert (found["price"].form, found["price"].shift) == ("decimal-comma", pytest.approx(1100, abs=15))
    assert data.x.shape[1] == len(data.features) == 4 + 64
    said = "\n".join(describe(data))
    for part in ("identifier", "the 64 commonest count", "decimal commas", "day.month.year", "0.500"):
        assert part in said
    chosen = load(path, columns="code=words,id=keep", drop="born, seen")
    assert len(columns_of(chosen)["code"].words) > 64 and "id" in chosen.features
    assert list(chosen.recipe.left_out) == ["born", "seen"]  # type: ignore[union-attr]
    typed = {"id": [1], "born": ["1970-01-02"], "weight": [1.5], "price": [2.0], "code": ["w1"]}
    both = [
        features_of(data, typed | {"seen": [seen]}) for seen in ("2024-03-01", pd.Timestamp("2024-03-01"))
    ]
    np.testing.assert_array_equal(*both)  # whatever the training file's spelling


@pytest.mark.parametrize(
    ("columns", "readings"),
    [
        ({"a": ["1,234", "5,678"]}, ("decimal-point", "decimal-comma", 1234, 1.234)),
        ({"a": ["03/04/2024", "05/06/2024"]}, ("day-first", "month-first", 19816, 19786)),
    ],
)
def test_what_may_mean_two_things_is_refused_and_can_be_said(columns: Any, readings: Any) -> None:
    table = {"a": columns["a"] * 20, "label": ["x", "y"] * 20}
    one, other, first, second = readings
    with pytest.raises(UserError, match=f"a={one} or a={other}"):
        load(table)
    for form, number in ((one, first), (other, second)):
        data = load(table, columns=f"a={form}")
        column = columns_of(data)["a"]
        assert column.form == form
        x = features_of(data, {"a": [columns["a"][0]]})
        assert x[0, 0] == pytest.approx((number - column.shift) / column.scale, abs=1e-5)
    with pytest.raises(UserError, match="which may be read as"):
        features_of(load({"a": [1.5, 2.5] * 20, "label": LABELS[:40]}), {"a": ["1,500", "2"]})


def test_points_between_thousands_beside_decimal_commas(tmp_path: Path) -> None:
    """A file has one kind of decimal mark: 1.200 beside 0,5 is twelve hundred; beside no comma it is 1.2."""
    price = [int(value) for value in np.random.default_rng(0).integers(200, 3200, 120)]
    text = [f"{value // 1000}.{value % 1000:03}" if value > 999 else str(value) for value in price]
    for mark, mean in ((",", np.mean(price)), (".", None)):
        lines = [f"0{mark}{i % 90 + 10};{word};{i % 2}" for i, word in enumerate(text)]
        path = sheet(tmp_path / "t.csv", "v;price;y", *lines)
        shift = columns_of(load(path, label="y", columns="price=keep"))["price"].shift
        amount = load(path, label="price", columns="price=number").amount
        assert amount is not None
        for found in (shift, amount.shift):
            assert (found == pytest.approx(mean, rel=0.1)) if mean else found < 700


def test_typed_numbers_never_go_through_a_files_spelling(tmp_path: Path) -> None:
    """1.234 in a frame is 1.234, although the training file had decimal commas; in text it is refused."""
    lines = [f'{i % 7}|"{i % 7 + 1},{i % 10}"|{"yes" if i % 3 else "no"}' for i in range(90)]
    data = load(sheet(tmp_path / "t.csv", "x|weight|label", *lines), drop="x")
    column = columns_of(data)["weight"]
    for value in (1.234, 2.5, 3):
        x = features_of(data, {"weight": [value]})
        assert x[0, 0] == pytest.approx((value - column.shift) / column.scale, abs=1e-6)


def test_encodings_separators_and_capitals(tmp_path: Path) -> None:
    text = ["größe{0}label", *(f"{i % 5}{{0}}{('Ja', 'ja', 'Nein')[i % 3]}" for i in range(30))]
    kinds = {"a.tsv": ("\t", "utf-8"), "b.csv": (";", "cp1252"), "c.csv": (",", "utf-16")}
    kinds |= {"d.csv": ("|", "utf-8-sig")}
    for name, (separator, encoding) in kinds.items():
        path = sheet(tmp_path / name, *(line.format(separator) for line in text), encoding=encoding)
        data = load(path)
        assert data.features == ("größe",) and data.classes == ("Ja", "Nein", "ja")
        said = " ".join(describe(data))
        assert ("Windows text" in said) == (encoding == "cp1252")
    old = ["v,x,label", *(f"{i % 7},{i},{'yn'[i % 2]}" for i in range(40))]
    (tmp_path / "mac.csv").write_bytes("\r".join(old).encode())
    assert load(str(tmp_path / "mac.csv"), columns="x=keep").x.shape[1] == 2


def test_formats_and_frames_hold_the_same_table(tmp_path: Path) -> None:
    """CSV, packed, JSON lines, data frames, a file a site."""
    frame = pd.DataFrame({"a": np.arange(60) % 7 + 0.5, "w": ["u", "v"] * 30, "label": ["x", "y", "x"] * 20})
    frame["when"] = [f"2024-01-{1 + i % 28:02}" for i in range(60)]
    frame["gap"] = pd.Series([None if i % 9 == 0 else i % 5 for i in range(60)], dtype=object)
    frame["site"] = [f"s{i // 30}" for i in range(60)]
    rows = frame.to_dict("records")
    frame.to_csv(tmp_path / "t.csv", index=False)
    expected = load(str(tmp_path / "t.csv"))
    sources: list[Any] = [frame, {name: list(frame[name]) for name in frame}]
    sources.append(frame.assign(when=pd.to_datetime(frame["when"]), w=frame["w"].astype("category")))
    sources.append(frame.convert_dtypes())
    sheet(tmp_path / "t.jsonl", *(json.dumps(row) for row in rows))
    frame.to_csv(tmp_path / "t.csv.gz", index=False)
    sources += [str(tmp_path / name) for name in ("t.jsonl", "t.csv.gz")]
    for source in sources:
        data = load(source)
        np.testing.assert_allclose(data.x, expected.x, atol=1e-6)
        assert data.features == expected.features
    for site, part in frame.groupby("site"):
        (tmp_path / "sites").mkdir(exist_ok=True)
        part.drop(columns="site").to_csv(tmp_path / "sites" / f"{site}.csv", index=False)
    for source in (str(tmp_path / "sites"), str(tmp_path / "sites" / "*.csv")):
        data = load(source)
        assert data.site_names == ("s0", "s1")
        np.testing.assert_allclose(data.x, expected.x, atol=1e-6)
    sheet(tmp_path / "sites" / "s2.csv", "a,label", "1,x")
    with pytest.raises(UserError, match="do not have the same columns"):
        load(str(tmp_path / "sites"))


def test_typed_files_of_other_libraries(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    large = 2**53 + 1  # the first whole number that float64 does not hold
    frame = pd.DataFrame({"v": [i % 7 + 0.5 for i in range(60)], "label": ["x", "y", "x"] * 20})
    frame["hospital"] = [large + i % 4 for i in range(60)]
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    expected = load(str(tmp_path / "t.csv"))
    assert expected.site_names == tuple(str(large + i) for i in range(4))  # four hospitals stay four
    data = load(str(tmp_path / "t.parquet"))
    assert data.site_names == expected.site_names
    np.testing.assert_array_equal(data.x, expected.x)


def test_excel(tmp_path: Path) -> None:
    """Lines are rows of the sheet: the header is row 1, and an empty row counts, though it is left out."""
    book = pytest.importorskip("openpyxl").Workbook()
    for row in [("a", "label"), (None, None), *((i % 7 + 0.5, "xy"[i % 2]) for i in range(40))]:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    data = load(str(tmp_path / "t.xlsx"))
    assert data.x.shape == (32, 1)
    table = read_table(str(tmp_path / "t.xlsx"))
    assert table.place(0) == "Row 3" and table.kind("a") == "number"


def test_what_spreadsheets_do_to_tables(tmp_path: Path) -> None:
    """Excel's first line, an unnamed index, words for gaps, blank lines, cells of several lines."""
    lines = [f"{i};{'-' if i % 5 == 1 else i % 19};{['no', 'yes'][i % 2]}" for i in range(40)]
    data = load(sheet(tmp_path / "a.csv", "sep=;", ";age;label", *lines[:20], "", *lines[20:], ""))
    assert columns_of(data)["age"].read == "number" and "identifier" in data.recipe.left_out["unnamed 1"]
    said = " ".join(describe(data))
    assert "In 'age', '-' among numbers is a gap" in said and "beside the median: 'age' 8" in said
    path = sheet(tmp_path / "b.csv", "a,label", *["1,x"] * 9, "", "oops,y", *["2,y"] * 9)
    with pytest.raises(UserError, match="Line 12, column 'a' is 'oops', but the rest are numbers"):
        load(path)
    path = sheet(tmp_path / "c.csv", "a,label", '1,"x\ny"', "oops,y", *["2,y"] * 19)
    with pytest.raises(UserError, match="Row 2, column 'a'"):
        load(path)


def test_gaps_are_a_category_and_an_indicator() -> None:
    table = {
        "pool": ["Yes" if i % 4 == 0 else "" for i in range(80)],
        "area": [float(i % 5) if i % 3 else None for i in range(80)],
        "label": LABELS,
    }
    data = load(table)
    assert data.features == ("pool=(missing)", "pool=Yes", "area", "area missing")
    x = features_of(data, {"pool": ["", "Yes"], "area": [None, 2.0]})
    assert x[:, [0, 1, 3]].tolist() == [[1, 0, 1], [0, 1, 0]]
    assert "'pool' 60" in " ".join(describe(data))


def test_rows_without_a_label_are_left_out(tmp_path: Path) -> None:
    lines = [f"{i % 7},{'' if i == 3 else i % 2}" for i in range(21)]
    data = load(sheet(tmp_path / "t.csv", "a,y", *lines))
    assert len(data.y) + len(data.evals["holdout"][1]) == 20
    assert "Left out 1 row without y, the first: line 5." in describe(data)


def test_codes_for_gaps() -> None:
    table: dict[str, list[Any]] = {
        "dose": [-999 if i % 8 == 0 else i % 6 for i in range(80)],
        "label": LABELS,
    }
    table["crp"] = ["below" if i % 5 == 0 else f"{1 + i % 4}.25" for i in range(80)]
    data = load(table, missing="below")
    assert "--missing=-999" in " ".join(describe(data)) and "crp missing" in data.features
    coded = load(table, missing=["-999", "below"])
    assert {"dose missing", "crp missing"} <= set(coded.features)
    assert columns_of(coded)["dose"].shift > 0 and "--missing=-999" not in " ".join(describe(coded))
    assert features_of(coded, {"dose": [-999], "crp": ["below"]})[0].tolist()[1::2] == [1, 1]
    amounts = {
        "v": [i % 7 for i in range(100)],
        "label": [-999 if i % 10 == 0 else i / 10 for i in range(100)],
    }
    data = load(amounts, missing="-999.0")
    assert data.amount is not None and data.amount.shift == pytest.approx(5, abs=0.5)


def test_identifiers_are_found_by_their_values() -> None:
    """A table sorted by its label with row numbers and noise: nothing but the noise may be learned from."""
    rng = np.random.default_rng(0)
    table = {
        "rownames": range(1, 201),
        "mrn": rng.permutation(200) + 70_000,
        "code": [f"P{i:04}" for i in range(200)],
        "noise": rng.normal(size=200),
        "age": rng.integers(20, 90, 200),
        "label": ["a"] * 100 + ["b"] * 100,
    }
    data = load(table)
    assert set(data.recipe.left_out) == {"rownames", "mrn", "code"} and data.features == ("noise", "age")
    chosen = load(table, columns="rownames=keep")
    assert "rownames" in chosen.features
    assert "'rownames' alone says label" in " ".join(describe(chosen))  # its order is the label's


@pytest.mark.parametrize(("rows", "out"), [(30, ()), (50, ("name",))])
def test_names_of_rows_are_no_words_in_a_small_table_either(rows: int, out: tuple[str, ...]) -> None:
    table = {"name": [f"N{i}" for i in range(rows)], "v": [i % 7 + 0.5 for i in range(rows)]}
    data = load(table | {"label": ["x", "y"] * (rows // 2)}, seed=0)
    assert tuple(data.recipe.left_out) == out


@pytest.mark.parametrize(
    ("name", "values", "out"),
    [
        ("patient id", [5000 + i * 7 % 120 for i in range(200)], True),
        ("patient_id", [f"P{i // 2:04}" for i in range(200)], True),
        ("store_id", [i // 20 for i in range(200)], False),
        ("store_id", [f"S{i % 20}" for i in range(200)], False),
        ("paid", [7 * i % 120 for i in range(200)], False),
    ],
)
def test_identifiers_that_several_rows_share(name: str, values: list[Any], out: bool) -> None:
    table = {name: values, "v": [i % 7 + 0.5 for i in range(200)], "label": ["x"] * 100 + ["y"] * 100}
    data = load(table)
    flag = f"--columns {quote(name + '=keep')}"
    assert (name in data.recipe.left_out) == out == (flag in " ".join(describe(data)))


def test_doubtful_tables_are_said_or_refused() -> None:
    """A typo among classes, the answer under another name, columns that say nothing."""
    half = ["yes", "no"] * 60
    table = {"a": [i % 50 for i in range(120)], "copy": half, "one": [1] * 120, "label": ["yess", *half[1:]]}
    said = " ".join(describe(load(table)))
    assert "1 class of 'label' has 1 row: 'yess' (is it 'yes'?); mend" in said
    assert "alone says" not in said
    assert "'copy' alone says label" in " ".join(describe(load({"copy": half, "label": half})))


def test_new_rows_may_lack_what_training_rows_had() -> None:
    """Gaps and words that no training row had are predicted, and said: a line for each kind."""
    table = {"age": [i % 37 for i in range(40)], "ward": ["A", "B"] * 20, "label": ["x", "y"] * 20}
    data = load(table | {"bmi": [i % 11 for i in range(40)]})
    rows = new_rows(data, {"age": ["-", 5, 1e9], "bmi": [1, 1e9, 1e9], "ward": ["B", "Z", ""]})
    x = encode(data.recipe, rows)
    np.testing.assert_array_equal(x[:, 1:3], [[0, 1], [0, 0], [0, 0]])
    assert abs(x[0, 0]) < 0.2 and x[2, 0] == 10  # the median, and the cut
    filled, words, far = unfamiliar_cells(data.recipe, rows)
    assert "'age' 1" in filled
    assert "'ward' in 2 rows ((missing), Z)" in words
    assert far.startswith("3 values far") and "'age' 1, 'bmi' 2" in far
    wide = {f"c{i}": ["a", "b"] * 20 for i in range(30)}
    data = load(wide | {"label": [0, 1] * 20})
    said = unfamiliar_cells(data.recipe, new_rows(data, {name: ["new"] for name in wide}))
    assert len(said) == 1 and "10 more" in said[0]


def test_new_rows_are_as_they_were_in_training_or_refused() -> None:
    data = load({"a": [True, False, None] * 20, "b": ["2025-01-31", "2024-02-29"] * 30, "label": LABELS[:60]})
    same = [
        features_of(data, {"a": a, "b": ["2025-01-31"] * 3}) for a in (["True", "FALSE", ""], [1, 0, None])
    ]
    np.testing.assert_array_equal(*same)
    for cells, said in (({"a": ["often"]}, "should be a number"), ({"b": ["soon"]}, "year-month-day")):
        with pytest.raises(UserError, match=f"Row 1, column .* is .*{said}"):
            features_of(data, {"a": [True], "b": ["2025-01-31"]} | cells)
    with pytest.raises(UserError, match="has no column 'b'"):
        features_of(data, {"a": [True]})


def test_numbers_on_another_scale_are_found() -> None:
    data = load("digits")
    raw = np.concatenate([data.x, data.evals["holdout"][0]]) * 16
    names = [column.name for column in data.recipe.columns]  # type: ignore[union-attr]
    for factor in (1, 1 / 16, 16):
        table = new_rows(data, dict(zip(names, factor * raw.T, strict=True)))
        assert bool(other_scale(data.recipe, table)) == (factor != 1)  # type: ignore[arg-type]


def test_files_are_clients_by_names_of_their_own(tmp_path: Path) -> None:
    lines = ["v,label", *(f"{i % 7 + 0.5},{'xy'[i % 2]}" for i in range(60))]
    for name in ("a/data.csv", "b/data.csv", "ward.1.csv", "ward.2.csv"):
        sheet(tmp_path / name, *lines)
    one, two = tmp_path / "a/data.csv", tmp_path / "b/data.csv"
    data = load(f"{one},{two}")
    assert data.site_names == ("a/data", "b/data") and "a/data 48, b" in " ".join(describe(data))
    assert load(str(tmp_path / "*.csv")).site_names == ("ward.1", "ward.2")
    assert name_files([Path("x/t.csv.gz"), Path("x/t.parquet")]) == ["t.csv.gz", "t.parquet"]
    assert [source_name(each) for each in ("x/t.v2.csv.gz", "t.JSONL", "digits")] == ["t.v2", "t", "digits"]
    with pytest.raises(UserError, match="given twice"):
        load(f"{one},{one}")
    sheet(one, "v,label", *lines[1:], "much,x")
    with pytest.raises(UserError, match="Line 62, column 'v' is 'much'"):
        load(f"{one},{two}")


def test_files_are_clients_whatever_their_columns_are_called(tmp_path: Path) -> None:
    """Two sites with customers of the same names; another column is gone by if somebody says so."""
    for name in ("north", "south"):
        rows = [f"{i % 7 + 0.5},{('ann', 'bob')[i % 2]},ward {i % 3},{'xy'[i % 5 % 2]}" for i in range(60)]
        sheet(tmp_path / f"{name}.csv", "v,client,site,label", *rows)
    data = load(str(tmp_path))
    assert data.site_names == ("north", "south") and "--client-column client" in " ".join(describe(data))
    asked = load(str(tmp_path), client_column="client")
    assert asked.site_names == ("ann", "bob") and "which file" in " ".join(describe(asked))
    for each in (data, asked):  # one file alone does not say which one it is
        assert len(features_of(each, str(tmp_path / "north.csv"))) == 60
    assert load(str(tmp_path / "north.csv")).site_names == ("ann", "bob")
    for name in ("north", "south"):
        rows = [f"{i % 7 + 0.5},ward {name},{'xy'[i % 5 % 2]}" for i in range(60)]
        sheet(tmp_path / f"{name}.csv", "v,site,label", *rows)
    assert load(str(tmp_path)).site_names == ("ward north", "ward south")


def test_every_file_is_read_by_its_own_marks(tmp_path: Path) -> None:
    """0,5 and 31/12/2024 at one site, 0.5 and 12/31/2024 at another; an empty column says nothing."""
    rows = [(f"{value:.3f}", 1 + i % 28, 1 + i % 12, i % 2) for i, value in enumerate(np.arange(80) / 40)]
    sheet(
        tmp_path / "a.csv",
        "v;day;e;y",
        *(f"{v.replace('.', ',')};{d:02}/{m:02}/2024;0,5;{y}" for v, d, m, y in rows),
    )
    sheet(tmp_path / "b.csv", "v,day,e,y", *(f"{v},{m:02}/{d:02}/2024,,{y}" for v, d, m, y in rows))
    data = load(str(tmp_path), label="y")
    found = columns_of(data)
    assert found["v"].shift == pytest.approx(1, abs=0.2) and found["day"].read == "date"
    assert found["day"].shift == pytest.approx(19723 + 180, abs=20) and found["e"].indicator
    sheet(tmp_path / "c.csv", "v,day,e,y", *(f"w{i % 3},2024-01-31,1,{i % 2}" for i in range(80)))
    assert columns_of(load(str(tmp_path), label="y"))["v"].read == "words"  # somewhere, so everywhere


def test_a_client_column_that_names_no_clients_can_be_dropped() -> None:
    """Customers: as many clients as rows. Without the column the next usual name counts, or none."""
    table: dict[str, list[Any]] = {"v": [i % 7 + 0.5 for i in range(60)], "label": ["x", "y", "x"] * 20}
    table["client"] = [f"C{i:04}" for i in range(60)]
    data = load(table)
    with pytest.raises(UserError, match=r"no training rows.*--drop.*--partition iid"):
        partition("column", data.y, 60, 0, sites=data.sites, site_names=data.site_names)
    data = load(table, drop="client")
    assert data.sites is None and data.features == ("v",)
    table["site"] = ["n", "s", "s"] * 20
    assert load(table, drop="client").site_names == ("n", "s")


def test_names_of_columns_may_hold_commas() -> None:
    known = ("a,b", "Height, cm", "c")
    assert split_names("a,b", known) == ("a,b",) and split_names("a, b") == ("a", "b")
    assert split_names(" c,Height, cm,a,b ,d", known) == ("c", "Height, cm", "a,b", "d")
    table = {"a,b": [i % 5 for i in range(60)], "Height, cm": [i % 9 for i in range(60)], "v": [1.5, 2] * 30}
    asked = {"drop": "a,b", "columns": "Height, cm=words,v=number"}
    data = load(table | {"label": LABELS[:60]}, **asked)
    assert list(data.recipe.left_out) == ["a,b"] and data.features[0] == "Height, cm=0"


def test_numbers_that_are_close_for_their_size_are_not_the_same() -> None:
    """Article numbers differ in their last digit; float64 tells them apart, and 0.3 from 0.1 + 0.2 hardly."""
    table = {"ean": [4_006_381_333_931 + i % 5 for i in range(60)], "same": [0.3, 0.1 + 0.2] * 30}
    data = load(table | {"one": [0.1] * 60, "label": ["x", "y", "x"] * 20})
    assert [column.scale > 0 for column in data.recipe.columns] == [True, False, False]
    np.testing.assert_allclose(np.ptp(data.x[:, 0]), 4 / np.sqrt(2), rtol=0.1)


def test_dates_are_classes_or_no_labels() -> None:
    """A number of days is no date: whoever gives dates would not know what is predicted."""
    frame = pd.DataFrame(
        {"a": [1.5, 2.5] * 50, "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(100) % 25, "D")}
    )
    with pytest.raises(UserError, match=r"'when' holds dates.*--columns when=words"):
        load(frame, label="when", columns="when=number")
    assert load(frame, label="when", columns="when=words").classes[0] == "2024-01-01"
    with pytest.raises(UserError, match="give days since"):
        load(frame.assign(when=pd.Timestamp("2024-01-01") + pd.to_timedelta(range(100), "D")), label="when")


def test_numbers_to_predict_are_described_in_their_own_units() -> None:
    data = load({"a": [i % 7 for i in range(100)], "y": [1.00001, *np.linspace(1.5, 344, 99)]})
    assert any("from 1 to 344" in line for line in describe(data))
    twice = load({"a": [i % 7 for i in range(90)], "y": [f"{i % 30},5" for i in range(90)]})
    assert twice.amount is not None and twice.amount.shift == pytest.approx(15, abs=0.5)


def test_class_names_of_other_spellings() -> None:
    assert class_places(("0.0", "1.0"), ["1", "0"]) == {"1": 1, "0": 0}
    assert class_places(("FALSE", "TRUE"), ["True", "maybe"]) == {"True": 1}
    assert class_places(("a", "A"), ["a", "A"]) == {"a": 0, "A": 1}


IDENTIFIED = ["id,y", *[f"p{i},{i % 2}" for i in range(200)]]
HEART = [HEADER, *LINES]
CASES: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "no label": ([HEADER.replace("label", "z"), *LINES], {}, "no label column; its columns are age"),
    "label not there": (HEART, {"label": "sick"}, "no column 'sick'.*known: age, smoker, .*--label"),
    "client not there": (HEART, {"client_column": "ward"}, "no column 'ward'.*--client-column"),
    "label is client": (HEART, {"label": "hospital"}, "both the label and the client"),
    "infinite": ([*HEART, "inf,no,7,north,ill"], {}, "Line 22, column 'age' is inf"),
    "word among numbers": ([*HEART, "old,no,7,north,ill"], {}, "Line 22, column 'age' is 'old', but"),
    "long line": ([*HEART, "40,no,7,north,ill,1"], {}, "line 22 has 6 cells; the header has 5"),
    "title above": (["Visits", "a,label", "1,x"], {}, "delete what stands above the names"),
    "one class": ([line.replace("ill", "well") for line in HEART], {}, "label 'well'; learning needs two"),
    "an amount": (HEART, {"label": "age"}, "'age' has 20 different values in 20 rows"),
    "identifier": (IDENTIFIED, {}, "no columns besides 'y'.*looks like an identifier.*--columns id=keep"),
    "odd number": (HEART, {"columns": "smoker=number"}, "column 'smoker' is '(yes|no)', but the rest"),
    "no such column": (HEART, {"drop": "agee"}, r"no column 'agee'.*'age'"),
    "no such reading": (HEART, {"columns": "age=letters"}, "not NAME=HOW with HOW one of number"),
    "all dropped": (["a,y", "1,0", "2,1", "3,0", "4,1"], {"drop": "a"}, "no columns besides 'y'"),
    "nobody's rows": (["a,y", "1,", "2,"], {}, "Every row of .* lacks y"),
    "no header": (["1,1", "3,4", "5,6"], {}, "must name the columns"),
    "same name twice": (["a,a,y", "1,2,0"], {}, "has two columns 'a'"),
    "header only": ([HEADER], {}, "no rows below its first line"),
}


@pytest.mark.parametrize("case", CASES)
def test_every_mistake_has_its_sentence(case: str, tmp_path: Path) -> None:
    lines, options, sentence = CASES[case]
    with pytest.raises(UserError, match=sentence):
        load(sheet(tmp_path / "heart.csv", *lines), **options)


def test_frames_that_are_no_tables() -> None:
    for wrong in ({"a": [1, 2], "y": [1]}, 5, [1, 2]):
        with pytest.raises(UserError, match="A table is a file, a pandas or polars DataFrame"):
            load(wrong)
    with pytest.raises(UserError, match="two columns 'a'"):
        load(pd.DataFrame([[1, 2, "x"]] * 9, columns=["a", "a", "label"]))
    numbered = pd.DataFrame({0: pd.array([1, None, 3, 4] * 9, "Int64"), 1: ["x", "y"] * 18})
    assert columns_of(load(numbered, label=1))["0"].read == "number"  # type: ignore[arg-type]


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no file"):
        load(str(tmp_path / "none.csv"))
    with pytest.raises(UserError, match=r"is a URL.*download it first"):
        load("https://example.org/t.csv")
    for name, content, said in (
        ("binary.csv", bytes(range(256)), "cannot be read as CSV text; save it as UTF-8"),
        ("fake.csv.gz", b"age,y\n1,0\n", "cannot be read as CSV"),
        ("deep.jsonl", b'{"a": ' + b"[" * 100_000, "cannot be read as jsonl"),
        ("cut.parquet", b"PAR1", "cannot be read as parquet|needs pyarrow: pip install 'amsfl\\[parquet\\]'"),
        ("empty.csv", b"", "has no rows"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=said) as error:
            load(str(tmp_path / name))
        assert str(error.value).endswith(".") and "\n" not in str(error.value)
