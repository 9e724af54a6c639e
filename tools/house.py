"""How large and how readable the project is, in numbers: python tools/house.py [ANOTHER CHECKOUT].

--budget: fail where a number is above its limit in tools/budget.toml; --lower: bring limits down to what is.
--seconds S: besides, that the README's test command took S processor seconds in all.
"""

import argparse
import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parents[1]
BUDGET = HERE / "tools" / "budget.toml"
TESTS = "processor seconds of the README's test command"
BESIDE = ("studies", "benchmarks", "tools", "examples")
RECORDS = ("NamedTuple", "BaseModel", "TypedDict")
# In a process of its own, so that another checkout can be measured: a run that compiles, then one whose first
# round from the third on in which jax traces nothing is watched (how a client steps is traced once, not
# passed in every round). Prints every function of the package that was called in it, and its file.
ROUND = """
import pathlib, sys, threading
import amsfl, jax
method, engine = sys.argv[1:]
settings = dict(method=method, data="digits", engine=engine, seed=1, progress=False, rounds=12)
amsfl.run(**settings)
called, traced, rounds = set(), [], []
def profile(frame, event, argument):
    if event == "call":
        called.add((frame.f_code.co_filename, frame.f_code.co_qualname))
def watch(record):
    rounds.append(set() if traced else set(called))
    called.clear(), traced.clear()
def note(name, *_, **__):
    if "trace" in name:
        traced.append(name)
jax.monitoring.register_event_duration_secs_listener(note)
threading.setprofile(profile)
sys.setprofile(profile)
amsfl.run(watch=watch, **settings)
sys.setprofile(None)
home = str(pathlib.Path(amsfl.__file__).parent)
calls = next(filter(None, rounds[2:]))
print("\\n".join(f"{file[len(home) + 1:]} {name}" for file, name in sorted(calls) if file.startswith(home)))
"""


def python_lines(*folders: Path) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for top in folders for path in top.rglob("*.py"))


def parse(package: Path) -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(package.rglob("*.py"))}


def classes(parsed: dict[Path, ast.Module]) -> Iterator[ast.ClassDef]:
    for tree in parsed.values():
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def twins(parsed: dict[Path, ast.Module]) -> list[str]:
    """Names that several classes have."""
    return [name for name, count in Counter(each.name for each in classes(parsed)).items() if count > 1]


def records(parsed: dict[Path, ast.Module]) -> int:
    """Classes that are fields above all: named tuples, dataclasses, pydantic's models, and their heirs."""
    every = list(classes(parsed))
    known = set(RECORDS)
    while new := {
        each.name
        for each in every
        if each.name not in known
        and (
            any(ast.unparse(base).split("[")[0].split(".")[-1] in known for base in each.bases)
            or any("dataclass" in ast.unparse(line) for line in each.decorator_list)
        )
    }:
        known |= new
    return sum(each.name in known for each in every)


def settings(parsed: dict[Path, ast.Module]) -> int:
    """Names that a `setting` describes, in amsfl.settings."""
    fields = (
        line
        for each in classes({path: tree for path, tree in parsed.items() if path.parent.name == "settings"})
        for line in each.body
        if isinstance(line, ast.AnnAssign) and line.value is not None and "setting(" in ast.unparse(line)
    )
    return len({ast.unparse(line.target) for line in fields})


def output(root: Path, *arguments: str) -> str:
    env = os.environ | {"PYTHONPATH": str(root / "src"), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, *arguments], env=env, check=True, capture_output=True, text=True
    ).stdout


def words(paths: Iterator[Path]) -> int:
    return sum(len(path.read_text("utf-8").split()) for path in paths)


def round_of(root: Path, method: str, engine: str) -> tuple[list[str], int]:
    """The files that one round passes, and how many functions."""
    lines = output(root, "-c", ROUND, method, engine).splitlines()
    return sorted({line.split()[0] for line in lines}), len(lines)


def measured(root: Path, parsed: dict[Path, ast.Module]) -> dict[str, int]:
    """What has a limit."""
    fedavg, fedavg_functions = round_of(root, "fedavg", "loop")
    default, default_functions = round_of(root, "amsfl", "jax")
    print("a FedAvg round passes", *fedavg, "\na default round passes", *default, "\n")
    return {
        "lines of src": python_lines(root / "src"),
        "files of src": len(parsed),
        "records in src": records(parsed),
        "settings": settings(parsed),
        "commands": len(re.findall(r"^│ +[a-z][a-z-]+ {2,}\S", output(root, "-m", "amsfl", "--help"), re.M)),
        "lines of tests": python_lines(root / "tests"),
        "lines of studies, benchmarks, tools, examples": python_lines(*(root / each for each in BESIDE)),
        "words of docs": words((root / "docs").rglob("*.md")),
        "words of README": words(iter([root / "README.md"])),
        "files of a FedAvg round, loop": len(fedavg),
        "functions of a FedAvg round, loop": fedavg_functions,
        "files of a default round, jax": len(default),
        "functions of a default round, jax": default_functions,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("root", nargs="?", type=Path, default=HERE)
    parser.add_argument("--budget", action="store_true")
    parser.add_argument("--lower", action="store_true")
    parser.add_argument("--seconds", type=float)
    asked = parser.parse_args()
    parsed = parse(asked.root / "src")
    numbers = measured(asked.root, parsed)
    if asked.seconds is not None:
        numbers[TESTS] = round(asked.seconds)
    limits = tomllib.loads(BUDGET.read_text("utf-8")) if BUDGET.exists() else {}
    for name, number in numbers.items():
        print(f"{number:>8,} {name}" + (f" (at most {limits[name]:,})" if name in limits else ""))
    if asked.lower:
        limits |= {name: min(number, limits.get(name, number)) for name, number in numbers.items()}
        lines = "".join(f'"{name}" = {limit}\n' for name, limit in limits.items())
        BUDGET.write_text("# no number may rise: python tools/house.py --lower brings limits down\n" + lines)
    over = [
        f"{name} is {numbers[name]:,}, at most {limits[name]:,}"
        for name in numbers
        if numbers[name] > limits.get(name, 10**9)
    ]
    if asked.budget and over:
        sys.exit(f"Too large: {'; '.join(over)}. Make it smaller, or make another number fall and say why.")


if __name__ == "__main__":
    main()
