"""The interactive curves in a real browser: values, switches, axes, keys, light and dark, no script."""

import json

import pytest
from browser import view
from report_example import series, source, trial

from amsfl.report.write.folder import compose

FIRST, SECOND = [0.2, 0.6, 0.9, 0.92], [0.1, 0.3, 0.5]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    one = series("fast", [trial([s - seed / 100 for s in FIRST], seed) for seed in (0, 1)])
    two = series("slow", [trial([s - seed / 100 for s in SECOND], seed) for seed in (0, 1)])
    wide = {
        "classes": [f"a rather long name of a class {k}" for k in range(6)],
        "base_rate": {"holdout": 0.3},
    }
    for entry in (one, two):
        for each in entry.trials:
            each.summary.metrics["holdout"]["recall"] = [0.5] * 6
    path = tmp_path_factory.mktemp("curves") / "report.html"
    path.write_bytes(compose([source(one, two, data=wide)], 0.9)["report.html"])
    return path


@pytest.fixture
def opened(page, browser):
    view(browser)
    browser.get_log("browser")
    browser.get(page.as_uri())
    yield browser
    assert browser.get_log("browser") == []


def values(browser):
    return browser.execute_script(
        "return [...document.querySelectorAll('.series output')].map(o => o.textContent)"
    )


def spoken(browser):
    return browser.execute_script(
        "return document.querySelector('[role=slider]').getAttribute('aria-valuetext')"
    )


def hint(browser, table):
    """Whether the line below a table that speaks of scrolling is seen."""
    more = f"document.getElementById('{table}').closest('section').querySelector('.more')"
    return browser.execute_script(f"return getComputedStyle({more}).display")


def choose(browser, key):
    browser.execute_script(f"document.querySelector('input[value={key}]').click()")


def test_values_at_the_end_are_those_of_the_table(opened):
    assert values(opened) == ["0.9150 [0.910, 0.920]", "0.4950 [0.490, 0.500]"]
    cells = (
        "return [...document.querySelectorAll('#table1 [data-key=acc_global] span')].map(e => e.textContent)"
    )
    assert opened.execute_script(cells)[:2] == ["0.9150", "0.4950"]


def test_hover_shows_the_values_there(opened):
    from selenium.webdriver import ActionChains

    box = opened.execute_script(
        "return document.querySelector('.chart [role=slider]').getBoundingClientRect()"
    )
    slider = opened.find_element("css selector", ".chart [role=slider]")
    # the plot runs from 44 to width - 14, 0 to 8 s; 5 s lies between the rounds at 4 s and 6 s
    at = 44 + (box["width"] - 58) * 5 / 8 - box["width"] / 2
    ActionChains(opened).move_to_element_with_offset(slider, round(at), 0).perform()
    assert values(opened) == ["0.5950 [0.590, 0.600]", "0.2950 [0.290, 0.300]"]
    ActionChains(opened).move_to_element(opened.find_element("css selector", "h1")).perform()
    assert values(opened)[0].startswith("0.9150")


def test_keys_move_the_cursor_and_are_spoken(opened):
    from selenium.webdriver import Keys

    slider = opened.find_element("css selector", ".chart [role=slider]")
    slider.send_keys(Keys.HOME)
    assert values(opened) == ["", ""] and spoken(opened) == "0.00 s: no method shown"
    slider.send_keys(Keys.PAGE_UP * 5)
    assert spoken(opened) == "4.00 s: fast 0.5950, slow 0.2950"
    slider.send_keys(Keys.ARROW_LEFT)
    assert spoken(opened) == "3.84 s: fast 0.1950, slow 0.0950"
    slider.send_keys(Keys.END)
    assert spoken(opened) == "8.00 s: fast 0.9150, slow 0.4950"


def test_methods_go_and_come_back(opened):
    lines = "return document.querySelectorAll('.chart [role=slider] path[stroke-width]').length"
    assert opened.execute_script(lines) == 2
    box = opened.find_elements("css selector", ".series input")[0]
    box.click()
    assert opened.execute_script(lines) == 1 and values(opened) == ["", "0.4950 [0.490, 0.500]"]
    box.send_keys(" ")
    assert opened.execute_script(lines) == 2 and values(opened)[0].startswith("0.9150")


def test_by_rounds_and_by_bytes(opened):
    from selenium.webdriver import Keys

    slider = opened.find_element("css selector", ".chart [role=slider]")
    choose(opened, "rounds")
    slider.send_keys(Keys.PAGE_DOWN * 5)
    assert spoken(opened) == "2 rounds: fast 0.5950, slow 0.2950"
    choose(opened, "megabytes")
    assert spoken(opened) == "6.00 MB: fast 0.9150, slow 0.4950"


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_it_fits_and_can_be_read(page, browser, width, mode):
    view(browser, width, mode)
    browser.get(page.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    ink = browser.execute_script("return getComputedStyle(document.querySelector('.chart text')).fill")
    paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert ((ink, paper) == ("rgb(31, 35, 40)", "rgb(255, 255, 255)")) == (mode == "light")
    labels = browser.find_elements("css selector", ".series label")
    assert min(label.size["height"] for label in labels) >= 24  # room for a finger


def test_a_wide_table_says_that_there_is_more(page, browser):
    view(browser, 390)
    browser.get(page.as_uri())
    side = "return document.querySelector('#recall').parentElement.className"
    assert hint(browser, "recall") == "block" and "right" in browser.execute_script(side)
    browser.execute_script("document.querySelector('#recall').parentElement.scrollLeft = 1e6")
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    assert "left" in browser.execute_script(side) and "right" not in browser.execute_script(side)
    view(browser, 1280)
    browser.get(page.as_uri())
    assert hint(browser, "table2") == "none"


def test_without_scripts_there_is_the_picture(page, browser):
    view(browser)
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(page.as_uri())
        picture = browser.find_element("css selector", "figure#accuracy_time img")
        assert picture.is_displayed() and picture.size["height"] > 100
        assert browser.find_elements("css selector", ".chart") == []
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_the_data_of_the_page_is_json(page):
    text = page.read_text(encoding="utf-8")
    block = text.partition('<script type="application/json" id="curves">')[2].partition("</script>")[0]
    found = json.loads(block)
    assert [axis["key"] for axis in found["axes"]] == ["seconds", "rounds", "megabytes"]
    assert found["series"][0]["curves"]["holdout"]["rounds"]["x"] == [1, 2, 3, 4]
    first = {"key": "holdout", "name": "hold-out", "target": 0.9, "base": 0.3, "least": 0.0, "most": 1.0}
    assert found["splits"][0] == first
