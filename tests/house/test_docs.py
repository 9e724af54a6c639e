"""Docs that cannot rot: commands run or at least have their flags, errors have entries, names have words."""

import inspect
import re
import shlex
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from blocks import blocks, commands, pages
from command_line import invoke

from amsfl.cli.app import NAMES, parameters
from amsfl.settings.definitions import RunConfig

ROOT = Path(__file__).parents[2]
API = re.compile(r"<!-- generated: api (\S+) ?(.*?) -->")


@cache
def flags_of(name: str) -> set[str]:
    return {flag for flags, _, _ in parameters(name) for flag in flags} | {"--help", "--help-all"}


def wrong_with(command: str) -> str:
    """'' if there is such a command and it has these flags."""
    name, *words = shlex.split(command)[1:] or ["--help"]
    if name.startswith("-") or name.isupper() or name == "supernode":  # it hands its words on to Flower's own
        return ""
    if name not in NAMES:
        return f"no command {name!r}"
    flags = [word.partition("=")[0].rstrip(".,") for word in words if re.match(r"--[a-z]", word)]
    return next((f"{name} has no {flag}" for flag in flags if flag not in flags_of(name)), "")


def test_commands_in_docs_are_there_with_their_flags() -> None:
    texts = {page: commands(page) for page in pages()}
    said = {
        f"{page.relative_to(ROOT)}: {command}: {wrong}"
        for page, found in texts.items()
        for command in found
        if command.count("'") % 2 == 0 and (wrong := wrong_with(command))
    }
    assert not said, "\n".join(sorted(said))
    assert sum(map(len, texts.values())) > 100


MARKED = [
    pytest.param(page, marks=pytest.mark.slow) if page.stem in ("table", "researcher") else page
    for page in pages()
    if any(block.word for block in blocks(page))
]


@pytest.mark.parametrize("page", MARKED, ids=lambda page: page.stem)
def test_marked_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, in one folder, as a reader would do it; a table is read as the page says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as Python itself does
    names: dict[str, Any] = {}
    for block in blocks(page):
        if block.word == "file":
            Path(block.name).write_text(block.text, encoding="utf-8")
        elif block.word == "run" and block.language == "python":
            exec(compile(block.text, str(page), "exec"), names)
        elif block.word == "run":
            for line in re.sub(r"\\\n\s*", " ", block.text).splitlines():
                command = shlex.split(line.removeprefix("$ "), comments=True)
                if command[:1] == ["amsfl"]:
                    result = invoke(*command[1:])
                    assert result.exit_code == 0, (line, result.output)
        elif block.language == "text" and "columns become" in block.text:
            assert set(block.text.splitlines()) <= {*result.output.splitlines(), "..."}


@pytest.mark.parametrize("page", sorted((ROOT / "docs/api").glob("*.md")), ids=lambda page: page.stem)
def test_public_functions_say_what_they_take_and_give(page: Path) -> None:
    """On the API's pages each argument has its line under Args, and what comes back is told."""
    if page.stem == "flower":
        pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")
    wanting = []
    for module, only in API.findall(page.read_text(encoding="utf-8")):
        here = import_module(module)
        for name in only.split() or here.__all__:
            thing = getattr(here, name)
            if inspect.isfunction(thing) and (missing := undocumented(thing)):
                wanting.append(f"{module}.{name}: {', '.join(missing)}")
    assert not wanting, "\n".join(wanting)


def undocumented(thing: Any) -> list[str]:
    """Parameters without a line of their own, and 'Returns' where a value comes back untold."""
    said = inspect.getdoc(thing) or ""
    args = re.split(r"^(?:Returns|Yields):$", said.partition("Args:\n")[2], flags=re.M)[0]
    told = set(re.findall(r"^ +\**(\w+): ", args, re.M))
    told |= set(RunConfig.model_fields) if "settings" in told else set()  # docs/settings.md has each of them
    signature = inspect.signature(thing)
    missing = [key for key in signature.parameters if key not in told | {"self", "cls"}]
    gives = signature.return_annotation not in (None, "None")
    return missing + (["Returns"] if gives and not re.search("^(Returns|Yields):", said, re.M) else [])
