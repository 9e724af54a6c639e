"""With optional packages hidden: modules import or name what they need, commands say a sentence."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from federation_small import python

from amsfl.core.errors import EXTRAS
from amsfl.track import TRACKERS

OTHERS = ("IPython", "equinox", "flax", "onnxruntime", "optax", "selenium")  # of tests and examples
HIDE = f"""
import sys

HIDDEN = {(*EXTRAS, *OTHERS)!r}

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hide())
"""
IMPORTS = """
import json, pkgutil, amsfl
from importlib import import_module

for name in sys.argv[1:]:
    value = amsfl
    for part in name.split(".")[1:]:
        value = getattr(value, part)

missing = {}
for module in pkgutil.walk_packages(amsfl.__path__, "amsfl."):
    try:
        import_module(module.name)
    except ModuleNotFoundError as error:
        missing[module.name] = (error.name or "").partition(".")[0]
print(json.dumps(missing))
"""
COMMANDS = """
import json

sys.path.append(sys.argv[2])  # of tests/helpers
from command_line import invoke

outcomes = []
for words in json.loads(sys.argv[1]):
    result = invoke(*words)
    wrong = result.exception if not isinstance(result.exception, (SystemExit, type(None))) else ""
    outcomes.append([words, result.exit_code, result.stderr, repr(wrong) if wrong else ""])
print(json.dumps(outcomes))
"""


ROOT = Path(__file__).parents[2]
NAME = re.compile(r"(?<![\w./\[@'-])amsfl(?:\.[A-Za-z_]\w*)+")
GROUPS = {f"amsfl.{name}" for name in ("combines", "policies", "round_ends", "trackers", "transmits")}
FILES = (".py", ".toml", ".md", ".json", ".invalid", ".csv")


def documented():
    """Every dotted name of amsfl in the documentation, less Flower's and entry points, called like that."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    found = {name for page in pages for name in NAME.findall(page.read_text(encoding="utf-8"))}
    return sorted({name for name in found if not name.endswith(FILES) and ".flower" not in name} - GROUPS)


def test_documented_names_exist_and_modules_import_or_need_an_extra(tmp_path):
    """The names after `import amsfl` alone; then every module."""
    names = documented()
    assert {"amsfl.portable.load", "amsfl.data.load", "amsfl.record.read_run"} <= set(names)
    done = python("-c", HIDE + IMPORTS, *names, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    missing = json.loads(done.stdout)
    assert set(missing.values()) <= set(EXTRAS)
    rooms = {name.split(".")[1] for name in missing}
    assert rooms <= {"flower", "portable"}, "only rooms that are about another library may need it"


NEEDS = [  # what a user types, and the extra that it needs
    (["deploy"], "flower"),
    (["supernode", "--superlink", "127.0.0.1:9"], "flower"),
    *((["run", "--data", "digits", "--track", name, "--rounds", "1"], name) for name in TRACKERS),
    (["run", "--data", "rows.xlsx"], "excel"),
    (["run", "--data", "digits", "--epsilon", "2", "--method", "fedavg", "--rounds", "1"], "privacy"),
    (["export", "run", "--to", "onnx"], "export"),
]
REFUSED = [  # mistakes that need no extra: each command's error path
    ["run", "--method", "fedavgg"],
    ["compare", "--methods", "fedavgg"],
    ["compare", "--tune", "slow", "--data", "digits"],
    ["sweep", "lr"],
    ["reproduce", "--config", "none.toml"],
    ["report", "nowhere"],
    ["resume", "nowhere"],
    ["predict", "nowhere", "rows.csv"],
    ["explain", "nowhere", "rows.csv"],
    ["export", "nowhere", "--to", "sklearn"],
    ["plan", "none.csv"],
    ["calibrate", "nowhere"],
    ["forecast", "none.csv", "--target", "0.9"],
    ["data", "none.csv"],
]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """All of them in one process, which has to start jax once."""
    folder = tmp_path_factory.mktemp("hidden")
    (folder / "rows.xlsx").write_bytes(b"PK")
    train = "import amsfl; amsfl.run(data='digits', model='softmax', rounds=1, engine='loop', out='run')"
    assert python("-c", train, cwd=folder).returncode == 0
    words = json.dumps([*(words for words, _ in NEEDS), *REFUSED])
    done = python("-c", HIDE + COMMANDS, words, str(ROOT / "tests" / "helpers"), cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_commands_say_which_extra_they_need(outcomes):
    for (words, code, said, wrong), (_, extra) in zip(outcomes, NEEDS, strict=False):
        assert not wrong and code == 2, (words, wrong, said)
        assert f"pip install 'amsfl[{extra}]'" in said, (words, said)


@pytest.mark.slow
def test_other_mistakes_are_sentences_without_extras(outcomes):
    for words, code, said, wrong in outcomes[len(NEEDS) :]:
        assert not wrong and code in (1, 2) and said.startswith("amsfl: "), (words, code, said, wrong)


def test_extras_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    for package, extra in EXTRAS.items():
        assert any(line.startswith(package.replace("_", "-")) for line in extras[extra]), package


def test_every_command_has_a_mistake_here():
    from amsfl.cli.app import NAMES

    tried = {words[0] for words in (*(words for words, _ in NEEDS), *REFUSED)}
    assert {*NAMES} - tried == {"methods"}  # a list takes nothing
