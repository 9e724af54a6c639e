"""Tables as they are: gaps, dates, identifiers, many words, commas, encodings, other formats."""

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amsfl.core import UserError
from amsfl.data import describe, load, load_table
from amsfl.data.column_options import ColumnOptions
from amsfl.data.dates import format_date, parse_date
from amsfl.data.federated_statistics import mean_and_deviation, median
from amsfl.data.preprocessing import encode, unfamiliar_cells
from amsfl.data.raw_table import from_frame
from amsfl.data.recipe import ColumnRecipe, Recipe
from amsfl.record import from_plain, plain

PARTS = st.lists(
    st.lists(st.integers(-(10**6), 10**6).map(lambda n: n / 1000), max_size=9), min_size=1, max_size=5
)


@settings(max_examples=60, deadline=None)
@given(PARTS.filter(lambda parts: any(parts)))
def test_sums_find_what_all_rows_together_have(parts: list[list[float]]) -> None:
    """The lower median is the value that half of all rows reach; numpy's 'lower' method gives the same."""
    arrays = [np.array(part, float) for part in parts]
    pooled = np.concatenate(arrays)
    mean, deviation = mean_and_deviation(arrays)
    size = max(1e-300, float(np.abs(pooled).max()))
    assert mean / size == pytest.approx(pooled.mean() / size, abs=1e-12)
    assert deviation / size == pytest.approx(pooled.std() / size, abs=1e-7)
    expected = float(np.sort(pooled)[(len(pooled) + 1) // 2 - 1])
    assert median(arrays) / size == pytest.approx(expected / size, abs=1e-8)


def columns_of(data: Any) -> dict[str, ColumnRecipe]:
    return {column.name: column for column in data.recipe.columns}


def test_gaps_are_filled_by_sums_or_by_site() -> None:
    """Site a has ages 10, b has 30 twice as often: the shared lower median is 30, each site's its own."""
    table = {
        "age": [10.0, None, 30.0, 30.0, None] * 8,
        "word": ["x", "", "y", "y", ""] * 8,
        "site": ["a", "a", "b", "b", "b"] * 8,
        "label": ["p", "q", "q", "p", "q"] * 8,
    }
    shared = load_table(table, holdout=0.1, options=ColumnOptions(impute="shared"))
    assert (columns_of(shared)["age"].fill, columns_of(shared)["word"].fill) == (30, "y")
    assert not columns_of(shared)["age"].site_fill
    by_site = load_table(table, holdout=0.1, options=ColumnOptions(impute="site"))
    assert columns_of(by_site)["age"].site_fill == {"a": 10, "b": 30}
    assert columns_of(by_site)["word"].site_fill == {"a": "x", "b": "y"}
    new = from_frame({"age": [None, None, None], "word": ["", "", ""], "site": ["a", "b", "new"]})
    low, high, unknown = encode(by_site.recipe, new)
    assert low[0] < high[0] and (unknown == high).all()  # a site never met is filled by the sums
    assert all("each site's own" in line for line in unfamiliar_cells(by_site.recipe, new))
    assert any("16 gaps in 'age'" in line for line in describe(shared))


def test_the_hold_out_is_not_looked_at() -> None:
    """Whatever the held-out rows say, the recipe is the same: it is fitted to training rows alone."""
    rng = np.random.default_rng(0)
    y = ["p", "q"] * 50
    table = {"a": rng.normal(size=100).tolist(), "w": rng.choice(["u", "v"], 100).tolist(), "label": y}
    data = load_table(table)
    held = [
        i
        for i, a in enumerate(table["a"])
        if encode(data.recipe, from_frame({"a": [a], "w": [table["w"][i]]}))[0].tolist()
        in data.evals["holdout"][0].tolist()
    ]
    assert len(held) == 20
    for i in held:
        table["a"][i], table["w"][i] = 1e6, "only here"
    again = load_table(table)
    assert again.recipe == data.recipe
    assert np.abs(again.evals["holdout"][0]).max() == 10  # cut off, not taken into the scale


def test_dates_identifiers_words_and_commas(tmp_path: Path) -> None:
    lines = ["id;born;seen;weight;price;code;label"]
    for i in range(200):
        born, seen = f"{1 + i % 28:02}.{1 + i % 12:02}.19{60 + i % 30}", f"2024-03-{1 + i % 31:02}T12:00:00"
        lines.append(
            f"{1000 + i};{born};{seen};{i % 9},{i % 10};1.{i:03},5;w{i % 90};{'Yes' if i % 2 else 'no'}"
        )
    path = tmp_path / "t.csv"
    path.write_bytes("\n".join(lines).encode())
    data = load(str(path))
    found = columns_of(data)
    assert data.recipe is not None and list(data.recipe.left_out) == ["id"]
    assert (found["born"].read, found["born"].spelling) == ("date", "%d.%m.%Y")
    assert (found["seen"].read, found["seen"].spelling) == ("date", "iso")
    assert (found["weight"].read, found["weight"].spelling) == ("number", "comma")
    assert found["price"].shift == pytest.approx(1100, abs=15) and found["code"].read == "hash"
    assert data.x.shape[1] == len(data.features) == 4 + 64
    said = "\n".join(describe(data))
    for part in (
        "identifier",
        "different words, hashed",
        "decimal commas",
        "day.month.year",
        "0.500",
    ):
        assert part in said
    chosen = load(str(path), columns="code=frequency,id=number", drop="born, seen")
    assert columns_of(chosen)["code"].features == ("code",) and "id" in chosen.features
    assert list(chosen.recipe.left_out) == ["born", "seen"]  # type: ignore[union-attr]


def test_days_since_1970() -> None:
    assert parse_date("1970-01-02", "iso") == 1 and parse_date("02.01.1970 12:00", "%d.%m.%Y") == 1.5
    assert parse_date("1970-01-01T01:00:00+01:00", "iso") == 0
    assert np.isnan([parse_date("31/12/1969", "%m/%d/%Y"), parse_date("20240131", "iso")]).all()


@pytest.mark.parametrize(
    ("word", "spelling", "days"),
    [
        ("01/02/1970 6:00 PM", "%m/%d/%Y", 1.75),
        ("01/02/1970 12:00am", "%m/%d/%Y", 1.0),
        ("02-JAN-1970", "%d-%b-%Y", 1.0),
        ("2 January 1970", "%d %B %Y", 1.0),
        ("Jan 2, 1970 06:00", "%b %d, %Y", 1.25),
        ("13:30", "time", 13.5 / 24),
        ("9:00:36", "time", 9.01 / 24),
        ("1:30 PM", "time", 13.5 / 24),
        ("3:1", "time", np.nan),
        ("25:10", "time", np.nan),
        ("02.01.1970 12:00", "time", np.nan),
        ("noon", "time", np.nan),
    ],
)
def test_spellings_of_dates_and_times(word: str, spelling: str, days: float) -> None:
    assert parse_date(word, spelling) == pytest.approx(days, nan_ok=True)
    if np.isfinite(days):
        assert parse_date(format_date(days, spelling), spelling) == pytest.approx(days, abs=1e-5)


def test_columns_of_times_scores_and_dates_with_names(tmp_path: Path) -> None:
    """A score is words, whatever it looks like; gaps get the median time."""
    rows = [
        f"{i % 24}:{i % 60:02},{i % 4}:{i % 3},{1 + i % 28:02}-Mar-2024,{'ab'[i % 2]}" for i in range(200)
    ]
    path = tmp_path / "t.csv"
    path.write_text("at,score,seen,label\n" + "\n".join(rows) + "\n,1:1,,a\n")
    data = load(str(path))
    found = columns_of(data)
    assert (found["at"].read, found["at"].spelling, found["score"].read) == ("date", "time", "words")
    assert (found["seen"].read, found["seen"].spelling) == ("date", "%d-%b-%Y")
    said = "\n".join(describe(data))
    assert "Times in 'at'" in said and "hour:minute" in said and "Mar-2024" in said


def test_encodings_separators_and_capitals(tmp_path: Path) -> None:
    text = "größe{0}label\n" + "".join(f"{i % 5}{{0}}{('Ja', 'ja', 'Nein')[i % 3]}\n" for i in range(30))
    kinds = {
        "a.tsv": ("\t", "utf-8"),
        "b.csv": (";", "cp1252"),
        "c.csv": (",", "utf-16"),
        "d.csv": ("|", "utf-8"),
    }
    for name, (separator, encoding) in kinds.items():
        (tmp_path / name).write_bytes(text.format(separator).encode(encoding))
        data = load(str(tmp_path / name))
        assert data.features == ("größe",) and data.classes == ("Ja", "Nein", "ja")
        said = " ".join(describe(data))
        assert "differ in capitals alone are kept apart: Ja, ja" in said
        assert ("Windows text" in said) == (encoding == "cp1252")


def test_frames_and_parquet_are_as_the_csv(tmp_path: Path) -> None:
    pandas, parquet = pytest.importorskip("pandas"), pytest.importorskip("pyarrow.parquet")
    import pyarrow

    columns: dict[str, list[Any]] = {
        "when": [f"2024-01-{1 + i % 28:02}" for i in range(40)],
        "amount": [i * 0.5 if i % 9 else None for i in range(40)],
        "label": ["p" if i % 2 else "q" for i in range(40)],
    }
    frame = pandas.DataFrame(columns)
    frame.to_csv(tmp_path / "t.csv", index=False)
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    expected = load(str(tmp_path / "t.csv"))
    others = [load(str(tmp_path / "t.parquet")), load_table(frame)]
    others.append(load_table(frame.assign(when=pandas.to_datetime(frame["when"]))))
    polars = pytest.importorskip("polars")
    for other in [*others, load_table(polars.DataFrame(columns))]:
        np.testing.assert_allclose(other.x, expected.x, atol=1e-6)


def test_dates_are_classes_or_no_labels() -> None:
    """A number of days is no date: whoever gives dates would not know what is predicted."""
    days = pa.array([date(2024, 1, 1 + day % 25) for day in range(100)])
    frame = {"a": [1.5, 2.5] * 50, "when": days}
    with pytest.raises(UserError, match=r"'when' holds dates.*--task classification"):
        load_table(frame, label="when")
    assert load_table(frame, label="when", task="classification").classes[0] == "2024-01-01"
    days = {"a": [1.5, 2.5] * 50, "when": [str(date.fromordinal(738000 + day)) for day in range(100)]}
    for task in ("auto", "regression"):
        with pytest.raises(UserError, match="give days since") as error:
            load_table(days, label="when", task=task)
        assert "--task" not in str(error.value)


def test_rows_without_a_label_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{i % 7},{'' if i == 3 else i % 2}\n" for i in range(21)))
    data = load(str(path))
    assert len(data.y) + len(data.evals["holdout"][1]) == 20
    assert "Left out 1 row without y, the first in line 5." in describe(data)


def test_a_recipe_is_data(tmp_path: Path) -> None:
    column = ColumnRecipe(
        "a", "number", "comma", fill=1.5, site_fill={"s": 2.0}, shift=0.1, scale=3.0, low=-1.0
    )
    recipe = Recipe(
        (column, ColumnRecipe("b", "words", words=("u", "v"))), "y", "site", {"id": "why"}, ("said",)
    )
    assert from_plain(Recipe, plain(recipe)) == recipe


def sheet(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_what_spreadsheets_do_to_numbers(tmp_path: Path) -> None:
    """Units, words for gaps, Excel's first line, pandas' unnamed index, short years: the same numbers."""
    lines = [
        f"{i};{i % 25}%;{'-' if i % 5 == 1 else i % 19};{1 + i % 12}/{1 + i % 28}/21;{['no', 'yes'][i % 2]}"
        for i in range(40)
    ]
    path = sheet(tmp_path / "a.csv", "\n".join(["sep=;", ";share;age;when;label", *lines]))
    data = load(path)
    columns = columns_of(data)
    assert {name: column.read for name, column in columns.items()} == {
        "share": "number",
        "age": "number",
        "when": "date",
    }
    assert "identifier" in data.recipe.left_out["unnamed 1"]
    said = " ".join(describe(data))
    assert "'share' are read without their '%'" in said and "In 'age', '-' among numbers or dates" in said
    assert "month/day/year" in said and "8 gaps in 'age'" in said
    plain = load_table(
        {"share": [i % 25 for i in range(40)], "label": [line.rpartition(";")[2] for line in lines]}
    )
    np.testing.assert_array_equal(data.x[:, 0], plain.x[:, 0])
    assert load_table({"a": ["P1", "P2"] * 9, "label": ["x", "y"] * 9}).recipe.columns[0].read == "words"
    priced = load_table({"price": ["$1.50", "$-2", ""] * 30, "label": ["5%", "9%"] * 45})
    assert priced.x.shape == (72, 2) and priced.classes == ("5%", "9%")
    new = from_frame({"price": ["$1.50", "-2"]})
    np.testing.assert_allclose(
        *(encode(priced.recipe, each) for each in (new, from_frame({"price": [1.5, -2]})))
    )
    assert load_table(
        {"a": ["s1", "s2"] * 9, "client": ["s1", "s2"] * 9, "label": ["x", "y", "x"] * 6}
    ).site_names == ("s1", "s2")
    amounts = load_table({"a": [i % 9 for i in range(60)], "label": [f"${i}.25" for i in range(60)]})
    assert amounts.amount is not None and not amounts.classes


def test_doubtful_tables_are_said_or_refused(tmp_path: Path) -> None:
    """A typo among classes, the answer under another name, columns that say nothing, two of one name."""
    half = ["yes", "no"] * 60
    data = load_table(
        {"a": [i % 50 for i in range(120)], "copy": half, "one": [1] * 120, "label": ["yess", *half[1:]]}
    )
    said = " ".join(describe(data))
    assert "Class 'yess' of 'label' has 1 row; is it 'yes'?" in said
    assert "nothing is learned from it: one." in said and "alone tells" not in said
    assert "'copy' alone tells label" in " ".join(describe(load_table({"copy": half, "label": half})))
    with pytest.raises(UserError, match="nothing to learn from"):
        load_table({"one": [1] * 120, "label": half})
    with pytest.raises(UserError, match="Line 6, column 'x' is 'inf', but the rest are numbers"):
        load(
            sheet(
                tmp_path / "b.csv",
                "x,label\n" + "\n".join(f"{'inf' if i == 4 else i % 40},{i % 2}" for i in range(90)),
            )
        )
    with pytest.raises(UserError, match="delete what stands above the names"):
        load(sheet(tmp_path / "c.csv", "Visits\na,label\n1,x\n"))
    pandas = pytest.importorskip("pandas")
    with pytest.raises(UserError, match="two columns 'a'"):
        load_table(pandas.DataFrame([[1, 2, "x"]] * 9, columns=["a", "a", "label"]))
    frame = pandas.DataFrame({0: pandas.array([1, None, 3, 4] * 9, "Int64"), 1: ["x", "y"] * 18})
    assert load_table(frame, label=1).recipe.columns[0].read == "number"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("trained", "new", "like"),
    [
        ("1.5", "1,500", r"1234\.5"),
        ("1.5 kg", "heavy", "1234.5 kg"),
        ("2025-01-31", "31.1.2024", "year-month"),
    ],
)
def test_cells_that_are_not_as_in_training_say_how_training_was(trained: str, new: str, like: str) -> None:
    data = load_table({"a": [trained, trained.replace("5", "6", 1)] * 20, "label": [0, 1] * 20})
    assert data.recipe is not None
    with pytest.raises(UserError, match=f"line 1, column 'a' is '{new}'.*{like}"):
        encode(data.recipe, from_frame({"a": [new]}))


def test_new_rows_may_lack_what_training_rows_had() -> None:
    """Gaps and words that no training row had are predicted, and said."""
    table = {"age": [i % 37 for i in range(40)], "ward": ["A", "B"] * 20, "label": ["x", "y"] * 20}
    recipe = load_table(table).recipe
    new = from_frame({"age": ["-", 5, 1e9], "ward": ["B", "Z", ""]})
    x = encode(recipe, new)
    np.testing.assert_array_equal(x[:, 1:], [[0, 1], [0, 0], [0, 0]])
    assert abs(x[0, 0]) < 0.2 and x[2, 0] == 10  # the median, and the cut
    assert unfamiliar_cells(recipe, new) == [
        f"1 gap in 'age' filled ({recipe.columns[0].fill:g}).",
        "1 value of 'age' far from the training rows', cut.",
        "2 cells of 'ward' with words that no training row had ((missing), Z): nothing is known of them.",
    ]


def test_remarks_on_new_rows_have_an_end() -> None:
    columns = {f"c{i}": ["a", "b"] * 20 for i in range(30)}
    data = load_table(columns | {"label": [0, 1] * 20})
    assert data.recipe is not None
    said = unfamiliar_cells(data.recipe, from_frame({name: ["new"] for name in columns}))
    assert len(said) == 21 and "10 more" in said[-1]


def test_new_rows_spell_booleans_and_whole_numbers_otherwise() -> None:
    """Trained on a frame's booleans, asked about a CSV file's words; and the other way round."""
    flags = {"a": [True, False, None] * 20, "label": ["x", "y", "x"] * 20}
    recipe = load_table(flags).recipe
    new = from_frame({"a": ["True", "FALSE", "", "1", "0"]})
    same = from_frame({"a": [True, False, None, True, False]})
    np.testing.assert_array_equal(encode(recipe, new), encode(recipe, same))
    with pytest.raises(UserError, match="finite number"):
        encode(load_table({"a": [1, 5, 9] * 20, "label": ["x", "y", "x"] * 20}).recipe, new)
    words = {"a": ["true", "false"] * 20, "b": ["1.0", "2.0", "", "7"] * 10, "label": ["x", "y"] * 20}
    recipe = load_table(words, options=ColumnOptions(columns="b=words")).recipe
    new = from_frame({"a": [True, False, "no"], "b": [1, 7.0, None]})
    np.testing.assert_array_equal(
        encode(recipe, new), [[0, 1, 0, 1, 0, 0], [1, 0, 0, 0, 0, 1], [0, 0, 1, 0, 0, 0]]
    )
    assert len(unfamiliar_cells(recipe, new)) == 1


def comma_table(tmp_path: Path) -> str:
    lines = [f"{i % 7},{i % 10};{'yes' if i % 3 else 'no'}" for i in range(90)]
    return sheet(tmp_path / "comma.csv", "\n".join(["weight;label", *lines]))


def test_typed_numbers_never_go_through_a_files_spelling(tmp_path: Path) -> None:
    """1.234 in a frame is 1.234, although the training file had decimal commas; in text it is refused."""
    data = load(comma_table(tmp_path))
    column = columns_of(data)["weight"]
    assert column.spelling == "comma"
    for value in (1.234, 2.5, 3):
        x = encode(data.recipe, from_frame({"weight": [value]}))
        assert x[0, 0] == pytest.approx((value - column.shift) / column.scale, abs=1e-6)
    for word in ("1.234", "2.5"):
        with pytest.raises(UserError, match=rf"decimal commas.*{word.replace('.', ',')} or"):
            encode(data.recipe, from_frame({"weight": [word, "3"]}))
    mixed = encode(data.recipe, from_frame({"weight": ["1.234,5", "1,5"]}))
    assert mixed[0, 0] == 10 and mixed[1, 0] < 1  # a thousands point beside decimal commas is plain


def test_identifiers_are_found_by_their_values() -> None:
    """A table sorted by its label with row numbers and noise: nothing but the noise may be learned from."""
    rng = np.random.default_rng(0)
    table = {
        "rownames": range(1, 201),
        "mrn": rng.permutation(200) + 70_000,
        "noise": rng.normal(size=200),
        "age": rng.integers(20, 90, 200),
        "label": ["a"] * 100 + ["b"] * 100,
    }
    data = load_table(table)
    assert set(data.recipe.left_out) == {"rownames", "mrn"} and data.features == ("noise", "age")
    chosen = load_table(table, options=ColumnOptions(keep="rownames"))
    assert "rownames" in chosen.features
    assert "'rownames' alone tells label" in " ".join(describe(chosen))  # its order is the label's
    named = load_table({"patient_id": range(9), "a": [1, 2, 2] * 3, "label": ["x", "y", "x"] * 3})
    assert list(named.recipe.left_out) == ["patient_id"]


def test_a_gap_is_a_category_of_its_own() -> None:
    """Words have a column for gaps, numbers an indicator, and new rows the same."""
    table = {
        "pool": ["Yes" if i % 4 == 0 else "" for i in range(80)],
        "area": [float(i % 5) if i % 3 else None for i in range(80)],
        "label": ["x", "y"] * 40,
    }
    data = load_table(table)
    assert data.features == ("pool=(missing)", "pool=Yes", "area", "area missing")
    x = encode(data.recipe, from_frame({"pool": ["", "Yes"], "area": [None, 2.0]}))
    assert x[:, [0, 1, 3]].tolist() == [[1, 0, 1], [0, 1, 0]]
    filled = load_table(table, options=ColumnOptions(impute="shared"))
    assert filled.features == ("pool=Yes", "area")
    assert "60 gaps in 'pool'" in " ".join(describe(data))


def test_detection_limits_and_codes_for_gaps() -> None:
    table = {
        "crp": ["<0.5" if i % 5 == 0 else f"{1 + i % 4}.25" for i in range(80)],
        "dose": [-999 if i % 8 == 0 else i % 6 for i in range(80)],
        "label": ["x", "y"] * 40,
    }
    data = load_table(table)
    said = " ".join(describe(data))
    assert "'<0.5'" in said and "detection limits" in said and "--missing=-999" in said
    assert columns_of(data)["crp"].read == "number"
    coded = load_table(table, options=ColumnOptions(missing=["-999", "<0.5"]))
    assert {"dose missing", "crp missing"} <= set(coded.features)
    assert columns_of(coded)["dose"].shift > 0 and "--missing=-999" not in " ".join(describe(coded))


def test_formats_hold_the_same_table(tmp_path: Path) -> None:
    """JSON lines, Feather, Parquet, zipped CSV and a folder with a file a site, as the CSV."""
    import zipfile

    import pyarrow
    from pyarrow import feather

    rows = [
        {"a": i % 7 + 0.5, "w": "uv"[i % 2], "site": f"s{i // 30}", "label": "xy"[i % 3 % 2]}
        for i in range(60)
    ]
    header = list(rows[0])
    lines = [",".join(str(row[name]) for name in header) for row in rows]
    text = "\n".join([",".join(header), *lines])
    expected = load(sheet(tmp_path / "t.csv", text))
    feather.write_feather(pyarrow.Table.from_pylist(rows), tmp_path / "t.feather")
    sheet(tmp_path / "t.jsonl", "\n".join(__import__("json").dumps(row) for row in rows))
    with zipfile.ZipFile(tmp_path / "t.csv.zip", "w") as archive:
        archive.write(tmp_path / "t.csv", "t.csv")
    for name in ("t.feather", "t.jsonl", "t.csv.zip"):
        np.testing.assert_array_equal(load(str(tmp_path / name)).x, expected.x)
    home = tmp_path / "sites"
    home.mkdir()
    for site in ("s0", "s1"):
        part = [line for line in lines if f",{site}," in line]
        sheet(
            home / f"{site}.csv",
            "\n".join([",".join(header), *part]).replace(f",{site},", ",").replace("site,", ""),
        )
    for source in (str(home), str(home / "*.csv")):
        data = load(source)
        assert data.site_names == ("s0", "s1")
        np.testing.assert_array_equal(data.x, expected.x)
    sheet(home / "s2.csv", "a,label\n1,x\n")
    with pytest.raises(UserError, match="do not have the same columns"):
        load(str(home))


def test_excel(tmp_path: Path) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    for row in [("a", "label"), *((i % 7 + 0.5, "xy"[i % 2]) for i in range(40))]:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    assert load(str(tmp_path / "t.xlsx")).x.shape == (32, 1)


def test_free_text_is_said_and_can_be_read() -> None:
    """Notes are no identifiers; hashed words tell the classes apart."""
    notes = [f"the {'red' if i % 2 else 'blue'} patient number {i} came back" for i in range(120)]
    table = {"note": notes, "a": [i % 7 for i in range(120)], "label": ["x", "y"] * 60}
    data = load_table(table)
    assert "free text" in data.recipe.left_out["note"] and "--columns note=text" in " ".join(describe(data))
    read = load_table(table, options=ColumnOptions(columns="note=text"))
    x = encode(read.recipe, from_frame({"note": ["red", "blue"], "a": [1, 1]}))
    assert x.shape == (2, 257) and (x[0] != x[1]).sum() == 2


def test_lists_are_taken_where_a_text_with_commas_is(tmp_path: Path) -> None:
    path = comma_table(tmp_path)
    assert load(path, drop=[], keep=["weight"]).features == ("weight",)
