"""Files that were made to hurt: far larger inside than outside, and with sizes that are not true."""

import gzip
import json
import random
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from amsfl.core import UserError
from amsfl.data import load, sizes
from amsfl.data.read_table import read_file


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that reads tables of 4 MB, so that bombs can be small."""
    monkeypatch.setattr(sizes, "largest", lambda: 4 << 20)


def refused(path: Path, match: str = "") -> None:
    with pytest.raises(UserError, match=match) as said:
        read_file(str(path))
    assert str(said.value).endswith(".") and "\n" not in str(said.value)


def zeros(blocks: int) -> bytes:
    return b"a,label\n" + b"0,0\n" * (blocks << 18)


@pytest.mark.parametrize("ending", [".csv.gz", ".csv.zip"])
def test_packed_text_is_read_as_far_as_memory_goes(ending: str, tmp_path: Path, little_memory: None) -> None:
    path = tmp_path / f"bomb{ending}"
    if ending == ".csv.gz":
        path.write_bytes(gzip.compress(zeros(6), 9))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("t.csv", zeros(6))
    assert path.stat().st_size < 40_000
    refused(path, "there is memory for a table of")


def test_content_of_two_hundred_times_its_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "SMALL", 1 << 20)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(zeros(6), 9))
    refused(path, "more than 200 times its size")


def test_a_zip_that_says_less_than_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "liar.csv.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.csv", zeros(1))
    whole, size = path.read_bytes(), struct.pack("<I", len(zeros(1)))
    assert whole.count(size) == 2
    path.write_bytes(whole.replace(size, struct.pack("<I", 100)))
    refused(path, "cannot be read as CSV text")


@pytest.mark.parametrize("claimed", [0, 100, 2**31, 2**32 - 1])
def test_a_gzip_that_lies_about_its_size(claimed: int, tmp_path: Path) -> None:
    path = tmp_path / "liar.csv.gz"
    path.write_bytes(gzip.compress(zeros(1))[:-4] + struct.pack("<I", claimed))
    refused(path, "cannot be read")


def test_a_parquet_of_many_equal_rows(tmp_path: Path, little_memory: None) -> None:
    """A column of one value takes no room in the file, and eight bytes a row in memory."""
    rows = 1_000_000
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array([0.5]))
    parquet.write_table(pa.table({"a": column, "label": column}), tmp_path / "bomb.parquet")
    assert (tmp_path / "bomb.parquet").stat().st_size < 20_000
    refused(tmp_path / "bomb.parquet", "there is memory for a table of")


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".jsonl", ".xlsx", ".csv.gz", ".csv.zip"])
def test_damaged_files_are_sentences(ending: str, tmp_path: Path) -> None:
    """Cut short, with single bytes changed, with sizes in the headers made large, or full of noise."""
    if ending == ".xlsx":
        pytest.importorskip("openpyxl")
    path = tmp_path / f"t{ending}"
    write_table(path)
    whole, rng, tried, said = path.read_bytes(), random.Random(5), 0, 0
    read_file(str(path))
    for number in range(25):
        content = bytearray(whole)
        if number % 5 == 0:
            content = content[: rng.randrange(len(content))]
        elif number % 5 == 1:
            place = rng.randrange(max(1, len(content) - 8))
            content[place : place + 8] = struct.pack("<q", rng.choice([-1, 2**31 - 1, 2**62]))
        elif number % 5 == 2:
            content = bytearray(rng.randbytes(200))
        else:
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        tried += 1
        try:
            read_file(str(path))
        except UserError as error:
            said += 1
            assert str(error).endswith("."), error
    assert said > tried // 3


def write_table(path: Path) -> None:
    rows = {"a": [0.5 * n for n in range(60)], "w": ["uv"[n % 2] for n in range(60)], "label": [0, 1] * 30}
    text = "a,w,label\n" + "".join(f"{a},{w},{y}\n" for a, w, y in zip(*rows.values(), strict=True))
    if path.suffix == ".parquet":
        parquet.write_table(pa.table(rows), path)
    elif path.suffix == ".feather":
        feather.write_feather(pa.table(rows), path, compression="lz4")
    elif path.suffix == ".jsonl":
        lines = [json.dumps(dict(zip(rows, row, strict=True))) for row in zip(*rows.values(), strict=True)]
        path.write_text("\n".join(lines))
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("t.csv", text)
    else:
        from openpyxl import Workbook

        book = Workbook()
        for row in (list(rows), *zip(*rows.values(), strict=True)):
            book.active.append(row)
        book.save(path)


def rewrite_sheet(path: Path, change: Any) -> None:
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["xl/worksheets/sheet1.xml"] = change(parts["xl/worksheets/sheet1.xml"])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def test_an_excel_sheet_that_claims_to_be_huge(tmp_path: Path) -> None:
    """Seventeen thousand million cells by its own words; the three columns that it has are read."""
    pytest.importorskip("openpyxl")
    write_table(tmp_path / "t.xlsx")
    rewrite_sheet(tmp_path / "t.xlsx", lambda xml: xml.replace(b'ref="A1:C61"', b'ref="A1:XFD1048576"'))
    assert list(read_file(str(tmp_path / "t.xlsx")).columns) == ["a", "w", "label"]
    assert len(load(str(tmp_path / "t.xlsx")).y) == 48


def test_an_excel_bomb(tmp_path: Path, little_memory: None) -> None:
    pytest.importorskip("openpyxl")
    write_table(tmp_path / "t.xlsx")
    rewrite_sheet(tmp_path / "t.xlsx", lambda xml: xml + b" " * (5 << 20))
    refused(tmp_path / "t.xlsx", "there is memory for a table of")


def test_json_nested_without_end(tmp_path: Path) -> None:
    """It took the process along: no parser's stack is deep enough."""
    for between in ("", "\n", " [], "):
        (tmp_path / "t.jsonl").write_text('{"a": ' + f"[{between}" * 100_000)
        refused(tmp_path / "t.jsonl", "are nested 100 deep")
