"""The report: one number everywhere the same, several runs overlaid, and the page in a real browser."""

import csv
import json
import math
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from browser import view
from study_example import app, settings
from typer.testing import CliRunner

from amsfl import run
from amsfl.report.draw import style
from amsfl.report.measure.paper import PAPER
from amsfl.report.measure.stats import Estimate
from amsfl.report.tabulate.table import ReportTable, TableColumn, TableRow, to_csv, to_latex, to_markdown

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    done = RUNNER.invoke(
        app,
        ["reproduce", "--config", str(settings(folder, seconds=3)), "--out", str(folder / "out"), "--quiet"],
    )
    assert done.exit_code == 0, done.output
    return folder / "out"


class Cells(HTMLParser):
    """data-key cells of every table, row by row; the paper's rows join the row above them."""

    def __init__(self):
        super().__init__()
        self.tables, self.key, self.row = {}, None, None

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag == "table":
            self.table = self.tables.setdefault(found["id"], [])
        elif tag == "tr" and found.get("class") != "paper":
            self.row = {}
            self.table.append(self.row)
        elif tag in ("td", "th"):
            self.key = found.get("data-key")
        elif tag == "small":
            self.key = f"{self.key} interval"

    def handle_data(self, data):
        if self.key and data.strip():
            self.row[self.key] = data.strip()

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.key = None


def test_numbers_on_the_page_are_those_in_the_csv(study):
    page = Cells()
    page.feed((study / "report.html").read_text(encoding="utf-8"))
    assert set(page.tables) == {
        "table1",
        "table2",
        "table3",
        "recall",
        "classes",
        "confusion",
        "own_rows",
        "tests",
    }
    compared = 0
    for name, rows in page.tables.items():
        shown = [row for row in rows if row]
        table = list(csv.DictReader((study / f"{name}.csv").open(encoding="utf-8")))
        assert len(shown) == len(table) > 0
        for html_row, csv_row in zip(shown, table, strict=True):
            for key, text in html_row.items():
                if key.endswith(" interval"):
                    key = key.removesuffix(" interval")
                    assert text == f"[{csv_row[key + '_low']}, {csv_row[key + '_high']}]"
                else:
                    assert text.removeprefix("≥ ").replace("–", "") == csv_row.get(key, ""), (name, key)  # noqa: RUF001
                compared += 1
    assert compared > 80


def test_the_papers_numbers_stand_beside_ours(study):
    rows = list(csv.DictReader((study / "table1.csv").open(encoding="utf-8")))
    assert [float(row["paper_acc_global"]) for row in rows[:3]] == [0.8987, 0.8763, 0.9023]
    assert float(rows[0]["paper_acc_c5"]) == 0.8754
    assert len(PAPER) == 7


def test_summary_has_every_number_of_the_tables(study):
    found = json.loads((study / "summary.json").read_text(encoding="utf-8"))
    rows = {row["method"]: row for row in csv.DictReader((study / "table1.csv").open(encoding="utf-8"))}
    measured = found["methods"]["amsfl"]["measures"]["accuracy_holdout"]
    assert rows["AMSFL"]["acc_global"] == f"{measured['mean']:.4f}"
    assert {row["method"] for row in found["tests"]} == {"FedAvg", "FedCSDA †"}


def test_figures_are_there_and_well_formed(study):
    assert not (study / "figure_b.svg").exists()  # two trials have no density
    for name in ("figure_a", "accuracy_time", "time_to_target", "steps", "drift"):
        text = (study / f"{name}.svg").read_text(encoding="utf-8")
        ElementTree.fromstring(text)
        assert "prefers-color-scheme:dark" in text and style.INK not in text
        assert (study / f"{name}.png").read_bytes()[:4] == b"\x89PNG"


def _contrast(one, two):
    """WCAG 2's contrast of two colours."""

    def light(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    high, low = sorted((light(one), light(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_every_place_has_its_own_legible_look():
    """By place, not by name: any number of methods, whoever wrote them."""
    looks = [style.look(place) for place in range(35)]
    assert len(set(looks)) == 35 and len({one.colour for one in looks[:7]}) == 7
    assert all(one.line_style["linestyle"] == "solid" for one in looks[:7])
    for colour in style.PALETTE:
        assert _contrast(colour, style.DAY[1]) > 2 and _contrast(colour, style.NIGHT[1]) > 3
    assert _contrast(*style.DAY) > 7 and _contrast(*style.NIGHT) > 7


def _table():
    columns = [TableColumn("method", "Method"), TableColumn("x", "100% & more", 2, "min")]
    rows = [
        TableRow({"method": "a_b", "x": Estimate(-0.001, -0.5, 0.5, 0.1, 3)}, {"x": 1.5}),
        TableRow({"method": "<c>", "x": Estimate(0.2, None, None, None, 1)}, None, frozenset({"x"}), "n"),
    ]
    return ReportTable("t", "A & B", columns, rows, ["50% of them."])


def test_one_table_four_ways():
    assert to_csv(_table()).splitlines() == [
        "method,x,x_low,x_high,paper_x,lower_bounds,note",
        "a_b,0.00,-0.50,0.50,1.50,,",
        "<c>,0.20,,,,x,n",
    ]
    text = to_markdown(_table())
    assert r"| a\_b | 0.00 [-0.50, 0.50] |" in text and "| &lt;c&gt; | ≥ 0.20 |" in text
    latex = to_latex(_table())
    assert r"a\_b" in latex and r"100\% \& more" in latex and r"$\geq$ 0.20" in latex
    assert latex.count(r"\begin{") == latex.count(r"\end{")


@pytest.mark.slow
def test_runs_and_studies_are_overlaid(study, tmp_path):
    once = {
        "data": "digits",
        "model": "softmax",
        "seconds": 3,
        "target": 0.6,
        "stop_at_target": False,
        "engine": "loop",
    }
    for seed in (0, 1):
        run(method="fedavg", seed=seed, out=tmp_path / f"run{seed}", **once)
    folders = [str(study), str(tmp_path / "run0"), str(tmp_path / "run1")]
    done = RUNNER.invoke(app, ["report", *folders, "--out", str(tmp_path / "both"), "--target", "0.5"])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "both" / "summary.json").read_text(encoding="utf-8"))
    assert list(found["methods"]) == ["fedavg@out", "fedcsda@out", "amsfl@out", "fedavg@run0", "fedavg@run1"]
    assert found["target"] == 0.5 and math.isfinite(
        found["methods"]["fedavg@run0"]["measures"]["least_sum"]["mean"]
    )


def test_a_runs_own_summary_is_left_alone(tmp_path):
    run(method="fedavg", data="digits", model="softmax", rounds=2, out=tmp_path / "one")
    before = (tmp_path / "one" / "summary.json").read_bytes()
    assert RUNNER.invoke(app, ["report", str(tmp_path / "one")]).exit_code == 0
    assert (tmp_path / "one" / "summary.json").read_bytes() == before
    assert (tmp_path / "one" / "report" / "report.html").exists()


def test_a_folder_without_records_is_a_sentence(tmp_path):
    done = RUNNER.invoke(app, ["report", str(tmp_path)])
    assert done.exit_code == 2 and "holds no record" in done.output


def test_the_page_opens_whole_and_alone(study, browser):
    browser.get("about:blank")
    for log in ("browser", "performance"):
        browser.get_log(log)  # what the browser does of its own before it has seen a page
    browser.get((study / "report.html").as_uri())
    images = browser.execute_script("return [...document.images].map(i => [i.complete, i.naturalWidth])")
    assert len(images) == 6 and all(complete and width > 0 for complete, width in images)
    tables = browser.execute_script("return [...document.querySelectorAll('table')].map(t => t.rows.length)")
    assert len(tables) == 8 and all(rows > 2 for rows in tables)
    assert browser.get_log("browser") == []
    asked = [
        message["params"]["request"]["url"]
        for entry in browser.get_log("performance")
        if (message := json.loads(entry["message"])["message"])["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_page_fits_and_follows_light_and_dark(study, browser, width, mode):
    view(browser, width, mode)
    browser.get((study / "report.html").as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    outside = "return [...document.querySelectorAll('body *')].filter(e => !e.closest('.wide, pre') && "
    outside += "e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.outerHTML.slice(0, 80))"
    assert browser.execute_script(outside) == []
    paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (mode == "light")
