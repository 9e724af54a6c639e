"""Every dotted name of amsfl in the documentation exists after `import amsfl` alone."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
NAME = re.compile(r"(?<![\w./\[@'-])amsfl(?:\.[A-Za-z_]\w*)+")
GROUPS = {f"amsfl.{name}" for name in ("combines", "policies", "round_ends", "trackers", "transmits")}
FILES = (".py", ".toml", ".md", ".json", ".invalid", ".csv")
TRY = """
import sys, amsfl
for name in sys.argv[1:]:
    value = amsfl
    for part in name.split(".")[1:]:
        value = getattr(value, part)
"""


def documented() -> list[str]:
    found = {name for page in PAGES for name in NAME.findall(page.read_text(encoding="utf-8"))}
    names = {name for name in found if not name.endswith(FILES) and ".flower" not in name}
    return sorted(names - GROUPS)  # entry points are called like that


def test_documented_names_exist() -> None:
    names = documented()
    assert {"amsfl.portable.load", "amsfl.data.load_table", "amsfl.record.read_run"} <= set(names)
    done = subprocess.run([sys.executable, "-c", TRY, *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-300:]
