"""Pictures of a terminal for the docs' first page: the commands that it names, run for real in a new folder.

    python tools/terminals.py [NAME...]

Each picture is an SVG of text: what was typed and what was printed, wrapped to fit; the names are those of
the steps, and by default all of them.
"""

import html
import os
import shlex
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

OUT = Path(__file__).parents[1] / "docs/figures/screens"
COLUMNS, LINES = 104, 26
LETTER, LINE, EDGE = 7.83, 18, 14  # pixels of a monospaced font of size 13
STORY = {  # in the order of docs/index.md
    "example": "amsfl data --example",
    "data": "amsfl data visits.csv --label readmitted",
    "run": "amsfl run visits.csv --label readmitted",
    "predict": "amsfl predict runs/visits-amsfl-0 new-visits.csv --keep visit_id && head -6 predictions.csv",
    "deploy": "amsfl deploy --data visits.csv --label readmitted --rounds 8",
}


def main() -> None:
    names = sys.argv[1:] or list(STORY)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            lines = printed(STORY[name], Path(folder))
            (OUT / f"terminal-{name}.svg").write_text(picture(STORY[name], lines), encoding="utf-8")
            print(f"$ {STORY[name]}", *lines, sep="\n")


def printed(command: str, folder: Path) -> list[str]:
    """What it prints; how far it is (standard error) is for who waits."""
    python = f"{shlex.quote(sys.executable)} -W ignore -m amsfl "
    env = os.environ | {"COLUMNS": str(COLUMNS), "NO_COLOR": "1"}
    done = subprocess.run(
        command.replace("amsfl ", python, 1), shell=True, cwd=folder, env=env, text=True, check=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    lines = [
        part
        for line in done.stdout.replace(str(folder), "~").splitlines()
        for part in textwrap.wrap(line, COLUMNS, subsequent_indent="    ") or [""]
    ]
    return lines if len(lines) <= LINES else [*lines[: LINES - 1], "..."]


def picture(command: str, lines: list[str]) -> str:
    rows = [f"$ {command}", *lines]
    width = 2 * EDGE + COLUMNS * LETTER
    height = 2 * EDGE + len(rows) * LINE
    text = "".join(
        f'<text x="{EDGE}" y="{EDGE + 13 + place * LINE}" fill="{"#e6e6e6" if place else "#7cc4ff"}">'
        f"{html.escape(row)}</text>"
        for place, row in enumerate(rows)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'width="{width:.0f}" height="{height}" font-family="monospace" font-size="13" '
        f'xml:space="preserve"><rect width="100%" height="100%" rx="6" fill="#1d2127"/>{text}</svg>\n'
    )


if __name__ == "__main__":
    main()
