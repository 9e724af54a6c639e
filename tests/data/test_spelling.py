"""How numbers, dates and classes are written: thousands, decimal marks, units, limits, several files."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from amsfl.core import UserError
from amsfl.data import describe, load
from amsfl.data.dataset import Dataset
from amsfl.data.labels import class_places
from amsfl.data.preprocessing import encode
from amsfl.data.read_table import open_rows
from amsfl.data.recipe import ColumnRecipe, Recipe
from amsfl.data.spelling import parse_numbers
from amsfl.record import from_plain, plain

RNG = np.random.default_rng(0)


def write(path: Path, header: str, lines: list[str], ends: str = "\n") -> str:
    path.write_bytes(ends.join([header, *lines]).encode())
    return str(path)


def column(data: Dataset, name: str) -> ColumnRecipe:
    assert data.recipe is not None
    return next(each for each in data.recipe.columns if each.name == name)


@pytest.mark.parametrize(
    ("word", "spelling", "number"),
    [
        ("1.200", "comma", 1200.0),
        ("0.125", "comma", np.nan),  # no thousands begin with 0
        ("1.234.567,8", "comma", 1234567.8),
        ("12 345", "point", 12345.0),
        ("12\u202f345\u202f678", "point", 12345678.0),
        ("12'345.5", "point", 12345.5),
        ("1 2", "point", np.nan),
        ("(5.50)", "point", -5.5),
        ("\u22125.5", "point", -5.5),
        ("<0.5", "point", 0.5),
        ("1,234", "grouped", 1234.0),
    ],
)
def test_numbers_as_people_write_them(word: str, spelling: str, number: float) -> None:
    np.testing.assert_equal(parse_numbers(pa.array([word]), spelling)[0], number)


def test_a_unit_stands_behind_spaced_thousands() -> None:
    assert parse_numbers(pa.array(["12\u00a0345,50 €"]), "comma", "€")[0] == 12345.5


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_points_between_thousands_beside_decimal_commas(tmp_path: Path, task: str) -> None:
    """A file has one kind of decimal mark: 1.200 beside 0,5 is twelve hundred; beside no comma it is 1.2."""
    price = [int(value) for value in RNG.integers(200, 3200, 120)]
    text = [f"{value // 1000}.{value % 1000:03}" if value > 999 else str(value) for value in price]
    for mark, shift in ((",", np.mean(price)), (".", None)):
        lines = [f"0{mark}{i % 90 + 10};{word};{i % 2}" for i, word in enumerate(text)]
        path = write(tmp_path / "t.csv", "v;price;y", lines)
        if task == "regression":
            amount = load(path, label="price", task=task).amount
            assert amount is not None
            mean = amount.shift
        else:
            mean = column(load(path, label="y"), "price").shift
        assert (mean == pytest.approx(shift, rel=0.1)) if shift else mean < 700


def test_files_of_other_spellings_are_read_each_by_its_own(tmp_path: Path) -> None:
    rows = [(f"{value:.3f}", 1 + i % 28, 1 + i % 12, i % 2) for i, value in enumerate(RNG.uniform(0, 2, 80))]
    lines = [f"{v.replace('.', ',')};{d:02}/{m:02}/2024;{y}" for v, d, m, y in rows]
    write(tmp_path / "a.csv", "v;day;y", lines)
    write(tmp_path / "b.csv", "v,day,y", [f"{v},{m:02}/{d:02}/2024,{y}" for v, d, m, y in rows])
    data = load(str(tmp_path), label="y")
    assert column(data, "v").shift == pytest.approx(1, abs=0.2) and column(data, "day").read == "date"
    assert column(data, "day").shift == pytest.approx(19723 + 180, abs=20)
    assert sum("own spelling" in line for line in describe(data)) == 2


@pytest.mark.parametrize("mark", [".", ","])
def test_a_unit_at_one_site_alone(tmp_path: Path, mark: str) -> None:
    """Weights are numbers whoever writes kg behind them, and that is said; 0.12 beside 12% may be 12%."""
    for unit, read in ((" kg", "number"), (" %", "hash")):
        for site, own in (("a", ""), ("b", unit)):
            lines = [f"{60 + i % 40 / 5}{own};{i / 7:.2f};{i % 2}".replace(".", mark) for i in range(80)]
            write(tmp_path / f"{site}.csv", "w;v;label", lines)
        data = load(str(tmp_path))
        assert column(data, "w").read == read
        if read == "number":
            assert column(data, "w").shift == pytest.approx(64, abs=1)
            assert any("'kg'" in line and "without it" in line for line in describe(data))


def test_units_that_differ_are_said(tmp_path: Path) -> None:
    for site, unit in (("a", "kg"), ("b", "lb")):
        write(tmp_path / f"{site}.csv", "w,label", [f"{60 + i / 10} {unit},{i % 2}" for i in range(80)])
    assert any("in kg in" in line and "in lb in" in line for line in describe(load(str(tmp_path), keep="w")))


def test_sites_that_write_differently_keep_their_remarks(tmp_path: Path) -> None:
    """Detection limits, gaps and cells without a unit are said of every file, whoever else writes how."""
    lines = [f"{'<0.5' if i % 9 == 0 else '-' if i % 9 == 1 else i / 8},{60 + i / 8} kg" for i in range(80)]
    write(tmp_path / "a.csv", "crp,w,label", [f"{line},{i % 2}" for i, line in enumerate(lines)])
    other = [f"{i / 8:.3f};{60 + i / 8:.1f};{i % 2}".replace(".", ",") for i in range(80)]
    write(tmp_path / "b.csv", "crp;w;label", other)
    said = describe(load(str(tmp_path), keep="w"))
    assert any("'<0.5'" in line and "a.csv: " in line for line in said)
    assert any("'-' among" in line and "a.csv: " in line for line in said)
    assert any("without it" in line and "'kg'" in line and "b.csv: " in line for line in said)


def test_files_of_every_site_are_read_by_its_own_spelling_again(tmp_path: Path) -> None:
    """A model reads what it was trained on, whichever site wrote it; what may be either is refused."""
    rows = [(f"{60 + i / 8:.1f}", 1 + i % 28, 1 + i % 12, i % 2) for i in range(80)]
    first = [f"{v} kg,{d:02}/{m:02}/2024,{y}" for v, d, m, y in rows]
    other = [f"{v.replace('.', ',')};{m:02}/{d:02}/2024;{y}" for v, d, m, y in rows]
    files = [write(tmp_path / "a.csv", "w,day,label", first), write(tmp_path / "b.csv", "w;day;label", other)]
    recipe = load(str(tmp_path), label="label", keep="w").recipe
    assert recipe is not None
    recipe = from_plain(Recipe, plain(recipe))
    typed = {"w": [float(row[0]) for row in rows], "day": [f"2024-{row[2]:02}-{row[1]:02}" for row in rows]}
    expected = encode(recipe, open_rows(typed))
    for file in files:
        np.testing.assert_array_equal(encode(recipe, open_rows(file)), expected)
    for odd in ({"day": "03/04/2024", "w": "70.1 kg"}, {"day": "2024-03-04", "w": "1.234"}):
        with pytest.raises(UserError, match=r"day/month/year and month/day/year|1234\.5 and 1234,5"):
            encode(recipe, open_rows(odd))
    with pytest.raises(UserError, match=r"1234\.5 or 1234,5"):
        encode(recipe, open_rows({"day": "2024-03-04", "w": "7x"}))


def test_words_for_gaps_hold_where_sites_write_differently(tmp_path: Path) -> None:
    first = [f"{'<0.5' if i % 9 == 0 else i / 8},{i % 2}" for i in range(80)]
    write(tmp_path / "a.csv", "crp,label", first)
    write(tmp_path / "b.csv", "crp;label", [f"{i / 8:.3f};{i % 2}".replace(".", ",") for i in range(80)])
    assert column(load(str(tmp_path), missing="<0.5"), "crp").indicator
    assert not column(load(str(tmp_path)), "crp").indicator


def test_a_site_may_have_no_cell_of_a_column(tmp_path: Path) -> None:
    """What is empty at one site says nothing of how the others write it."""
    for site, words in (("a", ["0,5", "1,25"]), ("b", ["", ""])):
        write(tmp_path / f"{site}.csv", "v;x;label", [f"{words[i % 2]};0,{i % 9};{i % 2}" for i in range(40)])
    write(tmp_path / "c.csv", "v,x,label", [f"{('0.5', '1.25')[i % 2]},0.{i % 9},{i % 2}" for i in range(40)])
    data = load(str(tmp_path))
    assert column(data, "v").read == "number" and 0.5 <= column(data, "v").shift <= 1.25


def test_the_spelling_is_chosen_by_all_rows(tmp_path: Path) -> None:
    """One cell with a comma or a day above 12 may be in the hold-out alone: that is no mistake."""
    for place in range(0, 60, 4):
        lines = [f'"{100 + i}",{1 + i % 12:02}/{1 + i % 12:02}/2024,{i % 2}' for i in range(60)]
        lines[place] = f'"1,250",01/25/2024,{place % 2}'
        data = load(write(tmp_path / "t.csv", "charge,day,label", lines), keep="charge")
        assert column(data, "charge").spelling == "grouped" and column(data, "day").spelling == "%m/%d/%Y"


def test_ranges_are_words_and_limits_numbers(tmp_path: Path) -> None:
    ages, levels = ("<65", ">=65"), ("<0.5", "0.7", "1.5", ">9")
    lines = [f"{ages[i % 2]},{levels[i % 4]},{i % 2}" for i in range(80)]
    data = load(write(tmp_path / "t.csv", "age,level,label", lines))
    assert column(data, "age").read == "words" and column(data, "level").read == "number"


def test_what_excel_could_not_compute_is_a_gap_and_other_words_are_said(tmp_path: Path) -> None:
    """A column of numbers that is read as words for a few of its cells names one of them."""
    odd = {"#DIV/0!": "number", "inf": "words"}
    for word, read in odd.items():
        lines = [f"{word if i % 5 == 0 else i % 9 + 0.5},₹{i % 7}.50,{i % 2}" for i in range(80)]
        data = load(write(tmp_path / "t.csv", "v,price,label", lines))
        assert column(data, "v").read == read and column(data, "price").unit == "₹"
        assert any("'v'" in line and f"'{word}'" in line for line in describe(data))


def test_missing_holds_for_the_label(tmp_path: Path) -> None:
    lines = [f"{i % 7},{-999 if i % 10 == 0 else i / 10}" for i in range(100)]
    path = write(tmp_path / "t.csv", "v,label", lines)
    assert any("--missing=-999" in line for line in describe(load(path)))
    data = load(path, missing="-999.0")
    assert data.amount is not None and data.amount.shift == pytest.approx(5, abs=0.5)
    lines = [f"{i % 7},{('yes', 'no', 'unclear')[i % 3]}" for i in range(90)]
    assert load(write(tmp_path / "c.csv", "v,label", lines), missing="unclear").classes == ("no", "yes")


def test_what_the_label_is_read_by_is_said(tmp_path: Path) -> None:
    lines = [f'{i % 7},"{1 + i % 3},{i:03}"' for i in range(100)]
    said = describe(load(write(tmp_path / "t.csv", "v,label", lines)))
    assert any("between thousands" in line for line in said)
    lines = [f"{i % 7},{'<0.5' if i % 5 == 0 else i / 10}" for i in range(100)]
    assert any("limits" in line for line in describe(load(write(tmp_path / "l.csv", "v,label", lines))))


def test_one_and_one_point_nought_are_a_class(tmp_path: Path) -> None:
    for site, form in (("a", "{}"), ("b", "{}.0")):
        write(tmp_path / f"{site}.csv", "v,label", [f"{i % 7},{form.format(i % 2)}" for i in range(40)])
    assert load(str(tmp_path)).classes == ("0", "1")
    assert class_places(("0.0", "1.0"), ["1", "0"]) == {"1": 1, "0": 0}
    assert class_places(("0", "1"), ["-0.0"]) == {"-0.0": 0}
    assert class_places(("FALSE", "TRUE"), ["True", "maybe"]) == {"True": 1}
    assert class_places(("a", "A"), ["a", "A"]) == {"a": 0, "A": 1}


def test_old_line_ends_and_commas_in_names(tmp_path: Path) -> None:
    lines = [f"{i % 7},{i},{'yn'[i % 2]}" for i in range(40)]
    assert load(write(tmp_path / "mac.csv", "v,x,label", lines, "\r"), keep="x").x.shape[1] == 2
    lines = [f"{i % 7};{i % 9};{i % 5};{'yn'[i % 2]}" for i in range(40)]
    data = load(write(tmp_path / "n.csv", '"Height, cm";"Weight, kg";"Age, years";label', lines))
    assert data.features == ("Height, cm", "Weight, kg", "Age, years")


def test_files_with_true_and_false_in_other_cases_have_the_same_two_words(tmp_path: Path) -> None:
    for name, words in {"a": ("TRUE", "FALSE"), "b": ("True", "False"), "c": ("TRUE", "FALSE")}.items():
        write(
            tmp_path / f"{name}.csv", "v,f,y", [f"{i},{words[i // 2 % 2]},{words[i % 2]}" for i in range(40)]
        )
    data = load(str(tmp_path), label="y")
    assert column(data, "f").words == ("false", "true") and data.classes == ("false", "true")
    (tmp_path / "b.csv").unlink()
    assert load(str(tmp_path), label="y").classes == ("FALSE", "TRUE")
