"""Pictures of pages for the docs, taken in a real Chromium at 1280 and 390 pixels, light and dark.

    amsfl data --example && amsfl compare --data visits.csv --label readmitted
    mkdocs build --strict
    python tools/screenshots.py report=results/compare/report.html docs=site/index.html

NAME=PAGE is a file. Needs selenium, chromium
and chromedriver, as the tests of pages do.
"""

import argparse
import io
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from PIL import Image
from selenium import webdriver

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/helpers"))
from browser import FLAGS, view

OUT = Path(__file__).parents[1] / "docs/figures/screens"
WIDTHS, MODES = (1280, 390), ("light", "dark")
COLOURS = 128  # a page has few; a palette makes a picture a third as large
SETTLED = 1.0  # seconds, for fonts and scripts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="+", metavar="NAME=PAGE")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--at", default="", help="scroll to this CSS selector first")
    parser.add_argument("--whole", action="store_true", help="the whole page, not just the first screen")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        chrome = opened(profile)
        try:
            for page in given.pages:
                name, _, where = page.partition("=")
                address = where if "://" in where else Path(where).resolve().as_uri()
                for width in WIDTHS:
                    for mode in MODES:
                        path = given.out / f"{name}-{width}-{mode}.png"
                        path.write_bytes(taken(chrome, address, width, mode, given.at, given.whole))
                        print(path, f"{path.stat().st_size:,} bytes")
        finally:
            chrome.quit()


def opened(profile: str) -> Any:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for flag in [*FLAGS.split(), f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def taken(chrome: Any, address: str, width: int, mode: str, at: str, whole: bool) -> bytes:
    """A PNG with a palette."""
    view(chrome, width, mode)
    chrome.get(address)
    chrome.execute_script("localStorage.clear()")  # a page may remember the last choice of light or dark
    chrome.refresh()
    time.sleep(SETTLED)
    if whole:
        height = chrome.execute_script("return document.documentElement.scrollHeight")
        size = {"width": width, "height": min(height, 8000), "deviceScaleFactor": 1, "mobile": width < 500}
        chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        time.sleep(SETTLED)
    elif at:
        chrome.execute_script("document.querySelector(arguments[0]).scrollIntoView()", at)
        time.sleep(SETTLED)
    picture = Image.open(io.BytesIO(chrome.get_screenshot_as_png())).convert("RGB")
    small = io.BytesIO()
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()


if __name__ == "__main__":
    main()
