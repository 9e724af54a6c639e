"""Names from data that would be commands elsewhere: each output shows them as they are, and nothing runs."""

import csv
import io
import unicodedata
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from command_line import succeed
from hypothesis import example, given
from hypothesis import strategies as st
from report_example import HOSTILE, source, trial

from amsfl.report.page import compose
from amsfl.report.read import short, shown


@given(st.text(st.characters()))
@example("\ud800 \x07 \u2028 \uffff")
def test_shown_is_one_line_that_every_file_can_hold(text):
    found = shown(text)
    assert found == shown(found) and len(found.splitlines()) <= 1
    assert not any(unicodedata.category(letter) in ("Cc", "Cs") for letter in found)
    ElementTree.fromstring(f"<x>{found.replace('&', '').replace('<', '')}</x>")
    assert found.encode().decode() == found


def test_ordinary_names_are_left_alone():
    for name in ("normal", "Zürich", "東京", "O'Brien & Söhne", "\u0645\u200c\u0645"):
        assert shown(name) == name
    assert short("x" * 50) == "x" * 39 + "…"


class Words(HTMLParser):
    """The text of every table cell, and of all else together; nothing but what a table of ours has."""

    def __init__(self, html):
        super().__init__()
        self.cells, self.rest, self.inside, self.tags = [], "", False, []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        if tag in ("td", "th"):
            self.cells.append("")
            self.inside = True
        self.tags.append(tag)
        assert tag not in ("script", "a", "svg", "iframe", "object"), tag
        assert not [name for name, _ in attributes if name.startswith("on")]

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self.inside:
            self.cells[-1] += data
        else:
            self.rest += data


def hostile():
    """A study whose title, data, notes, classes, clients, methods and folder are all hostile."""
    entries = []
    for k, name in enumerate(HOSTILE):
        steps = [[1, 2, 3]] * 3 if k == 0 else None
        trials = [trial([0.1, 0.5, 0.8 - k / 50], seed, 3, steps) for seed in (0, 1)]
        entries.append((name, {}, trials))
    return source(
        *entries,
        folder=HOSTILE[5],
        title=HOSTILE[6],
        data={"name": HOSTILE[0], "synthetic": True, "note": HOSTILE[1], "classes": HOSTILE[:2]},
        clients={"names": HOSTILE[:3], "step_seconds": [0.01, 0.02, 0.03]},
        run={"partition": "column", "label": HOSTILE[3], "data": f"{HOSTILE[4]}.csv", "target": 0.6},
        notes={name: name for name in HOSTILE},
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    where = tmp_path_factory.mktemp("hostile")
    for name, content in compose([hostile()], 0.6).items():
        (where / name).write_bytes(content)
    return where


def test_names_are_text_in_every_file(page):
    words = Words((page / "report.html").read_text(encoding="utf-8"))
    names = [shown(name) for name in HOSTILE]
    assert {f"{name} †" for name in names} <= set(words.cells)
    assert {f"ACC {name}" for name in names[:3]} <= set(words.cells)
    assert (
        words.tags.count("img") == len(list(page.glob("*.svg")))
        and names[6] in words.rest
        and names[1] in words.rest
    )
    rows = list(csv.DictReader(io.StringIO((page / "table1.csv").read_text(encoding="utf-8"))))
    assert [row["method"] for row in rows] == [f"{name} †" for name in names]
    for path in page.glob("*.svg"):
        for node in ElementTree.parse(path).iter():
            assert not node.tag.endswith(("script", "foreignObject", "}a"))
            assert not [name for name in node.attrib if name.startswith("on")]
    assert {path.stem for path in page.glob("*.svg")} >= {"score_time", "figure_a", "steps"}


def test_nothing_of_a_hostile_study_runs_in_a_browser(page, browser):
    watch = (
        "window.hacked = () => { window.ran = true }; for (const kind of ['alert', 'confirm', 'prompt']) "
        "window[kind] = window.hacked;"
    )
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": watch})
    try:
        browser.get((page / "report.html").as_uri())
        fire = "for (const t of ['mouseover', 'load', 'error']) e.dispatchEvent(new Event(t))"
        browser.execute_script(f"for (const e of document.querySelectorAll('*')) {fire}")
        assert browser.execute_script("return window.ran") is None
        assert browser.execute_script("return document.scripts.length") == 0
        assert browser.title == shown(HOSTILE[6])
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


@pytest.mark.usefixtures("without_figures")
def test_a_hostile_table_goes_through_compare(tmp_path):
    """From a CSV file with such classes, clients, columns and file name to the page."""
    classes = ['"><img src=x onerror=window.ran=1>', "</script><script>window.ran=1</script>"]
    sites = ["[/b] Oslo [north]", "$\\frac$"]
    where = tmp_path / '"><img src=x onerror=window.ran=1>.csv'
    with where.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["label", "site", "<b>x</b>"])
        writer.writerows([classes[k % 2], sites[k // 2 % 2], k % 2 + k / 100] for k in range(40))
    flags = "--client-column site --methods fedavg --model softmax --rounds 2 --trials 1 --tune none"
    files = ["--data", str(where), "--out", str(tmp_path / "o")]
    succeed("compare", *files, *flags.split())
    words = Words((tmp_path / "o" / "report.html").read_text(encoding="utf-8"))
    assert {*classes, *(f"ACC {name}" for name in sites)} <= set(words.cells)
