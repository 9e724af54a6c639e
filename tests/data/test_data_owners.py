"""Whose row it is and which row it is: files as clients, client columns, identifiers, names with commas."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from amsfl.core import UserError
from amsfl.data import describe, load, load_table, partition
from amsfl.data.column_options import ColumnOptions, split_names
from amsfl.data.preprocessing import encode
from amsfl.data.raw_table import from_frame
from amsfl.data.read_table import name_files, read_file

LARGE = 2**53 + 1  # the first whole number that float64 does not hold


def write(path: Path, columns: dict[str, list[Any]]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join([",".join(columns), *rows]))
    return str(path)


def visits(**more: list[Any]) -> dict[str, list[Any]]:
    return {"v": [i % 7 + 0.5 for i in range(60)], **more, "label": ["x", "y", "x"] * 20}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([20_240_000_000, 5, None], ["20240000000", "5", None]),
        ([20_240_000_000.0, 1.5, float("nan")], ["20240000000", "1.5", None]),  # as Excel has them
        ([LARGE, LARGE + 1, -LARGE], [str(LARGE), str(LARGE + 1), str(-LARGE)]),
        (pa.array([2**64 - 1], pa.uint64()), [str(2**64 - 1)]),
    ],
)
def test_whole_numbers_have_the_text_that_a_csv_has(values: Any, words: list[str | None]) -> None:
    cells = from_frame({"id": values}).columns["id"]
    assert cells.text.to_pylist() == words
    np.testing.assert_array_equal(cells.numbers, [np.nan if word is None else float(word) for word in words])


def test_long_numbers_in_parquet_are_as_in_csv(tmp_path: Path) -> None:
    """Four hospitals stay four, hashed codes fall into the same buckets, and sites' files are joined so."""
    table = visits(
        ean=[4_006_381_333_931 + i % 9 for i in range(60)], hospital=[LARGE + i % 4 for i in range(60)]
    )
    text = write(tmp_path / "t.csv", table)
    for name in ("one", "two"):
        parquet.write_table(pa.table(table), tmp_path / f"{name}.parquet")
    expected = load(text, columns="ean=hash")
    data = load(str(tmp_path / "one.parquet"), columns="ean=hash")
    assert data.site_names == expected.site_names == tuple(str(LARGE + i) for i in range(4))
    np.testing.assert_array_equal(data.x, expected.x)
    joined = read_file(str(tmp_path / "*.parquet")).columns["hospital"]
    assert joined.kind == "number" and joined.text.to_pylist() == list(map(str, table["hospital"] * 2))


def test_files_are_clients_by_names_of_their_own(tmp_path: Path) -> None:
    for name in ("a/data.csv", "b/data.csv", "ward.1.csv", "ward.2.csv"):
        write(tmp_path / name, visits())
    one, two = tmp_path / "a/data.csv", tmp_path / "b/data.csv"
    data = load(f"{one},{two}")
    assert data.site_names == ("a/data", "b/data") and "a/data, b/data" in " ".join(describe(data))
    assert load(str(tmp_path / "*.csv")).site_names == ("ward.1", "ward.2")
    assert name_files([Path("x/t.csv.gz"), Path("x/t.parquet")]) == ["t.csv.gz", "t.parquet"]
    with pytest.raises(UserError, match="given twice"):
        load(f"{one},{one}")


def test_files_are_clients_whatever_their_columns_are_called(tmp_path: Path) -> None:
    """Two sites with customers of the same names; another column is gone by if somebody says so."""
    for name in ("north", "south"):
        write(tmp_path / f"{name}.csv", visits(client=["ann", "bob"] * 30, site=["ward 1", "ward 2"] * 30))
    data = load(str(tmp_path))
    assert data.site_names == ("north", "south") and "--client-column client" in " ".join(describe(data))
    asked = load(str(tmp_path), client_column="client")
    assert asked.site_names == ("ann", "bob") and "which file" in " ".join(describe(asked))
    for each in (data, asked):  # one file alone does not say which one it is
        assert len(encode(each.recipe, read_file(str(tmp_path / "north.csv")))) == 60
    assert load(str(tmp_path / "north.csv")).site_names == ("ann", "bob")


def test_a_column_that_names_every_file_is_the_client(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path / f"{name}.csv", visits(site=[f"ward {name}"] * 60, client=["ann", "bob"] * 30))
    assert load(str(tmp_path)).site_names == ("ward one", "ward two")


@pytest.mark.parametrize(
    ("name", "values", "out"),
    [
        ("patient_id", [5000 + i // 2 for i in range(200)], True),
        ("patientId", [5000 + i // 3 for i in range(200)], True),
        ("patient_id", [f"P{i // 2:04}" for i in range(200)], True),
        ("visit_id", [7 * i % 120 for i in range(200)], True),
        ("store_id", [i // 20 for i in range(200)], False),
        ("store_id", [f"S{i % 20}" for i in range(200)], False),
        ("paid", [7 * i % 120 for i in range(200)], False),
        ("heat_index", [7 * i % 120 for i in range(200)], False),
    ],
)
def test_identifiers_that_several_rows_share(name: str, values: list[Any], out: bool) -> None:
    data = load_table(
        {name: values, "v": [i % 7 + 0.5 for i in range(200)], "label": ["x"] * 100 + ["y"] * 100}
    )
    assert (name in data.recipe.left_out) == out == (f"--keep {name}" in " ".join(describe(data)))


def test_a_client_column_that_names_no_clients_can_be_dropped() -> None:
    """Customers: as many clients as rows. Without the column the next usual name counts, or none."""
    table = visits(client=[f"C{i:04}" for i in range(60)])
    data = load_table(table)
    with pytest.raises(UserError, match=r"no training rows.*--drop.*--partition iid"):
        partition("column", data.y, 60, 0, sites=data.sites, site_names=data.site_names)
    data = load_table(table, options=ColumnOptions(drop="client"))
    assert data.sites is None and data.features == ("v",)
    table = visits(client=["ann", "bob"] * 30, site=["n", "s", "s"] * 20)
    assert load_table(table, options=ColumnOptions(drop="client")).site_names == ("n", "s")


def test_names_of_columns_may_hold_commas() -> None:
    known = ("a,b", "Height, cm", "c")
    assert split_names("a,b", known) == ("a,b",) and split_names("a, b") == ("a", "b")
    assert split_names(" c,Height, cm,a,b ,d", known) == ("c", "Height, cm", "a,b", "d")
    table = visits(**{"a,b": [i % 5 for i in range(60)], "Height, cm": [i % 9 for i in range(60)]})
    data = load_table(table, options=ColumnOptions(drop="a,b", columns="Height, cm=hash,v=number"))
    assert list(data.recipe.left_out) == ["a,b"] and data.features[1] == "Height, cm#0"


def test_numbers_that_are_close_for_their_size_are_not_the_same() -> None:
    """Article numbers differ in their last digit; float64 tells them apart, and 0.3 from 0.1 + 0.2 hardly."""
    table = visits(
        ean=[4_006_381_333_931 + i % 5 for i in range(60)], same=[0.3, 0.1 + 0.2] * 30, one=[0.1] * 60
    )
    data = load_table(table)
    constant = {column.name: column.constant for column in data.recipe.columns}
    assert constant == {"v": False, "ean": False, "same": True, "one": True}
    np.testing.assert_allclose(np.ptp(data.x[:, 1]), 4 / np.sqrt(2), rtol=0.1)


def test_lines_of_excel_are_rows_of_the_sheet(tmp_path: Path) -> None:
    """The header is row 1, and an empty row counts, though it is left out."""
    book = pytest.importorskip("openpyxl").Workbook()
    for row in [("a", "label"), (1, "x"), (None, None), (2, "y")]:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    assert list(read_file(str(tmp_path / "t.xlsx")).lines) == [2, 4]
