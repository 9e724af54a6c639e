"""Names from data that would be commands elsewhere: each output shows them as they are, and nothing runs."""

import csv
import io
import re
import unicodedata
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from report_example import HOSTILE, series, source, trial
from study_example import app
from typer.testing import CliRunner

from amsfl.report.measure.text import distinct, short, shown
from amsfl.report.tabulate.table import LATEX, ReportTable, TableColumn, TableRow, escape_latex, to_markdown
from amsfl.report.write.folder import compose


@given(st.text(st.characters()))
@example("\ud800 \x07 \u2028 \uffff")
def test_shown_is_one_line_that_every_file_can_hold(text):
    found = shown(text)
    assert found == shown(found) and len(found.splitlines()) <= 1
    assert not any(unicodedata.category(letter) in ("Cc", "Cs") for letter in found)
    ElementTree.fromstring(f"<x>{found.replace('&', '').replace('<', '')}</x>")
    assert found.encode().decode() == found


def test_shown_leaves_ordinary_names_alone():
    for name in ("normal", "Zürich", "東京", "O'Brien & Söhne", "\u0645\u200c\u0645"):
        assert shown(name) == name


def test_names_that_look_alike_are_told_apart():
    assert distinct(["a b", "a\nb", "c"]) == ["a b", "a b (2)", "c"]
    assert short("x" * 50) == "x" * 39 + "…"


class Words(HTMLParser):
    """The text of every table cell, and of all else together."""

    def __init__(self, html):
        super().__init__()
        self.cells, self.rest, self.inside = [], "", False
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        if tag in ("td", "th"):
            self.cells.append("")
            self.inside = True
        assert tag not in ("script", "img", "a", "svg"), tag

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self.inside:
            self.cells[-1] += data
        else:
            self.rest += data


def _table(name):
    columns = [TableColumn("method", f"{name}"), TableColumn("x", "value", 2)]
    return ReportTable("t", name, columns, [TableRow({"method": name, "x": 0.5})], [name])


@given(st.text(min_size=1).map(shown).filter(bool))
@example(shown(HOSTILE[0]))
@example(shown(HOSTILE[4]))
@example("1. [x]: y")
@example("# *a* __b__ ![c](d) <http://e> | f \\| $g$ &amp; ~~h~~")
def test_markdown_cells_read_back_as_they_were(name):
    """Through a parser of others: CommonMark with tables and strikethrough."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    words = Words(parser.render(to_markdown(_table(name))))
    assert words.cells == [name, "value", name, "0.50"]
    assert words.rest.split() == (f"{name} {name}").split()


@given(st.text(st.characters(max_codepoint=0x17F), min_size=1).map(shown))
@example(r"\input{/etc/passwd} $\frac$ ^^5c --- %")
def test_latex_has_no_command_that_is_not_ours(name):
    text = escape_latex(name)
    ours = sorted({value for value in LATEX.values()} | {"-{}"}, key=len, reverse=True)
    left = re.sub("|".join(re.escape(value) for value in ours), "", text)
    assert not set(left) & set('\\&%$#_{}~^"`[]<>|')
    back = {value: letter for letter, value in LATEX.items()} | {"-{}": "-"}
    whole = re.sub("|".join(re.escape(value) for value in ours), lambda found: back[found.group()], text)
    assert whole == name


def hostile():
    """A study whose title, data, notes, classes, clients, methods and folder are all hostile."""
    entries = []
    for k, name in enumerate(HOSTILE):
        steps = [[1, 2, 3]] * 3 if k == 0 else None
        trials = [trial([0.1, 0.5, 0.8 - k / 50], seed, None, 3, steps, read=k == 0) for seed in (0, 1)]
        entries.append(series(name, trials)._replace(note=f"† {name}"))
    data = {"name": HOSTILE[0], "synthetic": True, "note": HOSTILE[1], "classes": HOSTILE[:2]}
    clients = {"names": HOSTILE[:3], "step_seconds": [0.01, 0.02, 0.03]}
    run = {"partition": "column", "label": HOSTILE[3], "data": f"{HOSTILE[4]}.csv"}
    return source(
        *entries, folder=HOSTILE[5], title=HOSTILE[6], data=data, clients=clients, run=run, target=0.6
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    where = tmp_path_factory.mktemp("hostile")
    for name, content in compose([hostile()], 0.6).items():
        (where / name).write_bytes(content)
    return where


WATCH = """
window.hacked = () => { window.ran = true };
for (const kind of ["alert", "confirm", "prompt"]) window[kind] = window.hacked;
document.addEventListener("securitypolicyviolation", (e) => { window.refused = (window.refused || 0) + 1 });
"""


@pytest.mark.parametrize("without_policy", [False, True])
def test_nothing_of_a_hostile_study_runs_in_a_browser(page, browser, without_policy):
    """Nor does it without the page's policy, which is the second lock and not the first."""
    text = (page / "report.html").read_text(encoding="utf-8")
    if without_policy:
        text = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    (page / "tried.html").write_text(text, encoding="utf-8")
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
    try:
        browser.get((page / "tried.html").as_uri())
        hover = (
            "for (const e of document.querySelectorAll('*')) for (const t of ['mouseover', 'load', 'error'])"
        )
        browser.execute_script(f"{hover} e.dispatchEvent(new Event(t))")
        assert browser.execute_script("return [window.ran, window.refused]") == [None, None]
        scripts = "return [...document.scripts].map(s => s.type)"
        assert browser.execute_script(scripts) == ["application/json", ""]
        handlers = "return [...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames())"
        assert not [name for name in browser.execute_script(handlers) if name.startswith("on")]
        assert (
            browser.execute_script("return document.querySelectorAll('table img, table script').length") == 0
        )
        heads = browser.execute_script(
            "return [...document.querySelectorAll('#table1 tbody th')].map(e => e.textContent)"
        )
        assert heads == [shown(name) for name in HOSTILE]
        heads = browser.execute_script(
            "return [...document.querySelectorAll('#recall thead th')].map(e => e.textContent)"
        )
        assert heads[1:] == [f"{shown(name)}, hold-out" for name in HOSTILE[:2]]
        heads = browser.execute_script(
            "return [...document.querySelectorAll('#table1 thead th')].map(e => e.textContent)"
        )
        assert heads[1:4] == [f"ACC {shown(name)}" for name in HOSTILE[:3]]
        names = browser.execute_script(
            "return [...document.querySelectorAll('.series .name')].map(e => e.textContent)"
        )
        assert names == [shown(name) for name in HOSTILE]
        assert browser.title == shown(HOSTILE[6])
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


def test_the_policy_stops_what_a_page_should_not_hold(page, browser):
    """What would happen if something got through: a script, a handler, a picture from elsewhere."""
    bad = (
        "<script>window.ran = true</script><img src=x onerror='window.ran = true'><p style='color: red'>x</p>"
    )
    text = (page / "report.html").read_text(encoding="utf-8").replace("</body>", f"{bad}</body>")
    (page / "tried.html").write_text(text, encoding="utf-8")
    browser.get((page / "tried.html").as_uri())
    assert browser.execute_script("return window.ran") is None
    refused = [entry["message"] for entry in browser.get_log("browser")]
    assert len([message for message in refused if "Content Security Policy" in message]) >= 3


def test_pictures_of_a_hostile_study_are_whole(page):
    for path in page.glob("*.svg"):
        tree = ElementTree.parse(path)
        for node in tree.iter():
            assert not node.tag.endswith(("script", "foreignObject", "}a"))
            assert not [name for name in node.attrib if name.startswith("on")]
    assert {path.stem for path in page.glob("*.svg")} >= {"accuracy_time", "figure_a", "steps", "drift"}


def test_csv_has_the_names_as_they_are(page):
    rows = list(csv.DictReader(io.StringIO((page / "table1.csv").read_text(encoding="utf-8"))))
    assert [row["method"] for row in rows] == [shown(name) for name in HOSTILE]


def test_a_hostile_table_goes_through_compare(tmp_path, browser):
    """From a CSV file with such classes, clients, columns and file name to the page."""
    classes = ['"><img src=x onerror=window.ran=1>', "</script><script>window.ran=1</script>"]
    sites = ["[/b] Oslo [north]", "$\\frac$"]
    where = tmp_path / '"><img src=x onerror=window.ran=1>.csv'
    with where.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["label", "site", "<b>x</b>"])
        writer.writerows([classes[k % 2], sites[k // 2 % 2], k % 2 + k / 100] for k in range(40))
    flags = "--client-column site --methods fedavg --model softmax --rounds 2 --trials 1 --tune none --quiet"
    files = ["--data", str(where), "--out", str(tmp_path / "o")]
    done = CliRunner().invoke(app, ["compare", *files, *flags.split()])
    assert done.exit_code == 0, done.output
    browser.get((tmp_path / "o" / "report.html").as_uri())
    assert browser.execute_script("return window.ran") is None
    heads = browser.execute_script(
        "return [...document.querySelectorAll('thead th')].map(e => e.textContent)"
    )
    assert {f"{name}, hold-out" for name in classes} <= set(heads)
    assert {f"ACC {name}" for name in sites} <= set(heads)
