"""The report: one number everywhere the same, several folders in one, the page in a real browser."""

import csv
import io
import json
from xml.etree import ElementTree

import pytest
from browser import view
from command_line import invoke, succeed
from report_example import entry, source, trial
from study_example import settings
from test_report_names import Words

from amsfl import run
from amsfl.report import figures as style
from amsfl.report.page import compose, lines
from amsfl.report.tables import PAPER, Column, Table


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    file = str(settings(folder, seconds=3))
    done = succeed("reproduce", "--config", file, "--out", folder / "out")
    assert "is soonest at 60%, after" in done.output and "What to do:" in done.output
    return folder / "out"


def rows(folder, name):
    return list(csv.DictReader((folder / f"{name}.csv").open(encoding="utf-8")))


def test_one_number_in_page_csv_and_summary(study):
    cells = Words((study / "report.html").read_text(encoding="utf-8")).cells
    found = json.loads((study / "summary.json").read_text(encoding="utf-8"))
    for name in ("table1", "table2", "table3", "classes", "confusion", "clients", "tests"):
        assert rows(study, name)
    for row in rows(study, "table1"):
        if row["kind"]:
            continue
        one = next(each for each in found["methods"].values() if each["label"] == row["method"])
        measured = one["measures"]["accuracy_holdout"]
        assert float(row["score"]) == pytest.approx(measured["mean"])
        assert f"{measured['mean']:.4f} [{measured['low']:.4f}, {measured['high']:.4f}]" in cells
    for row in found["tests"]:
        assert any(f"{row['speedup']:.2f} [" in cell for cell in cells)
    assert {row["method"] for row in rows(study, "tests")} == {"FedAvg", "FedCSDA †"}
    assert sum(1 for _ in (study / "trials.csv").open()) == 1 + 6


@pytest.mark.usefixtures("without_figures")
def test_the_papers_numbers_stand_beside_ours_on_its_data_alone(study):
    """The study is of digits: no number of the paper is beside it, and its title says digits."""
    assert len(PAPER) == 7 and not any(row["kind"] == "paper" for row in rows(study, "table1"))
    trials = [entry(key, [0.5, 0.91, 0.95], 3) for key in ("amsfl", "fedavg")]
    files = compose([source(*trials, kind="reproduce", title="", data={"name": "nslkdd"})], 0.89)
    printed = list(csv.DictReader(io.StringIO(files["table1.csv"].decode())))
    assert [row["score"] for row in printed if row["kind"] == "paper"] == ["0.9023", "0.8987"]
    page = files["report.html"].decode()
    assert "<h1>The paper&#39;s comparison on NSL-KDD</h1>" in page and "Beside the paper" in page


def test_figures_are_there_and_well_formed(study):
    assert not (study / "figure_b.svg").exists()  # two trials have no density
    for name in ("figure_a", "score_time", "steps"):
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
    assert len(set(map(str, looks))) == 35 and len({one["color"] for one in looks[:7]}) == 7
    for colour in style.PALETTE:
        assert _contrast(colour, style.DAY[1]) > 2 and _contrast(colour, style.NIGHT[1]) > 3
    assert _contrast(*style.DAY) > 7 and _contrast(*style.NIGHT) > 7


def test_cells_of_a_table():
    import pandas as pd

    columns = [Column("method", "Method"), Column("x", "100% & more", 2, "min"), Column("x_p", "p", 4)]
    frame = pd.DataFrame(
        [
            {"method": "a_b", "x": -0.001, "x_low": -0.5, "x_high": 0.5, "x_p": 3e-9},
            {"method": "<c>", "x": -1.0, "least": "x", "x_p": 0.0123},
            {"method": "d", "x": None, "kind": "aside"},
        ]
    )
    table = Table("t", "A & B", columns, frame, ["50% of them."])
    first, second, third = ([cell["text"] for cell in cells[1:]] for _, cells in lines(table))
    assert first == ["0.00", "< 0.0001"]  # never -0.00, no p is 0
    assert second == ["≥ -1.00", "0.0123"] and third[0] == "–"  # noqa: RUF001
    cells = [cells[1] for _, cells in lines(table)]
    assert cells[0]["interval"] == "[-0.50, 0.50]" and not any(
        cell.get("best") for cell in cells
    )  # nor a bound


@pytest.mark.usefixtures("without_figures")
def test_notes_stand_once_on_the_page_and_with_every_file():
    one, data = entry("a", [0.3, 0.92], 2), {"synthetic": True, "note": "Made up."}
    files = compose([source(one, entry("b", [0.2, 0.5], 2), data=data, notes={"a": "A note of a."})], 0.9)
    page = files["report.html"].decode()
    assert page.count("† A note of a.") == page.count("Made up.</p>") == 1
    for name in ("table1.csv", "table2.csv", "tests.csv"):
        assert "Made up." in files[name].decode() and "A note of a." in files[name].decode()
    assert json.loads(files["summary.json"])["notes"][0] == "Made up."


def real(metrics):
    """A federation of real clients: scores as its record has them."""
    one = trial([0.5, 0.6, 0.7])
    rounds = [each._replace(metrics=metrics) for each in one.rounds]
    end = one.summary._replace(metrics=metrics, local_accuracy=None)
    return "a", {}, [one._replace(rounds=rounds, summary=end)]


def test_real_clients_are_judged_by_their_own_rows():
    files = compose([source(real({"clients": {"accuracy": 0.7}}), data={"classes": [], "eval_rows": {}})])
    page = files["report.html"].decode()
    assert "ends at 0.700 on the clients&#39; own rows" in page and "Accuracy on the clients" in page
    assert b"0.7" in files["table1.csv"] and "classes.csv" not in files
    files = compose([source(real({"clients": {"mae": 0.7}}))])
    assert "No accuracy is on record" in files["report.html"].decode() and "score_time.svg" not in files


def test_one_round_and_fifty_clients_have_a_report():
    assert b"<svg" in compose([source(("a", {}, [trial([0.5])]))])["score_time.svg"]
    steps = [[1 + (who * (k + 1)) % 30 for who in range(50)] for k in range(4)]
    planned = ("a", {}, [trial([0.1, 0.2, 0.3, 0.4], clients=50, steps=steps)])
    files = compose([source(planned, clients={"step_seconds": [0.05 - who / 1000 for who in range(50)]})])
    assert b"<image" in files["steps.svg"] and "40 of 50" in files["report.html"].decode()


@pytest.mark.usefixtures("without_figures")
def test_runs_and_studies_are_overlaid_and_a_runs_own_summary_is_left_alone(study, tmp_path):
    once = {"data": "digits", "model": "softmax", "seconds": 3, "target": 0.6, "engine": "loop"}
    once |= {"stop_at_target": False, "partition": "dirichlet:0.3"}
    run(method="fedavg", seed=0, out=tmp_path / "one", **once)
    before = (tmp_path / "one" / "summary.json").read_bytes()
    assert invoke("report", tmp_path / "one").exit_code == 0
    assert (tmp_path / "one" / "summary.json").read_bytes() == before
    assert (tmp_path / "one" / "report" / "report.html").exists()
    folders = [str(study), str(tmp_path / "one")]
    succeed("report", *folders, "--out", tmp_path / "both", "--target", "0.5")
    found = json.loads((tmp_path / "both" / "summary.json").read_text(encoding="utf-8"))
    assert list(found["methods"]) == ["fedavg@out", "fedcsda@out", "amsfl@out", "fedavg@one"]
    assert found["target"] == 0.5 and found["reference"] == "amsfl@out"


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_page_is_whole_fits_and_follows_light_and_dark(study, browser, width, mode):
    view(browser, width, mode)
    browser.get_log("browser")
    browser.get((study / "report.html").as_uri())
    images = browser.execute_script("return [...document.images].map(i => [i.complete, i.naturalWidth])")
    assert len(images) == 3 and all(complete and width > 0 for complete, width in images)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    outside = "return [...document.querySelectorAll('body *')].filter(e => !e.closest('.wide, pre') && "
    outside += "e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.outerHTML.slice(0, 80))"
    assert browser.execute_script(outside) == []
    paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (mode == "light")
