"""How readable the package is, in numbers: python tools/house.py [ANOTHER CHECKOUT].

Lines, files, class names that stand for several classes, annotations with Any, functions of seven or more
parameters, long files, and the files that one FedAvg round on the loop engine passes.
"""

import ast
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parents[1]
LONG, MANY = 250, 7
# run in a process of its own, so that another checkout's package can be measured: one round at rest, then one
# round watched; prints every file of the package that a function was called in
ROUND = """
import sys, importlib, pathlib
import amsfl
settings = dict(method="fedavg", data="digits", engine="loop", progress=False, seed=1)
amsfl.run(rounds=1, **settings)
files, watched = set(), []
def profile(frame, event, argument):
    if event == "call" and len(watched) == 1:
        files.add(frame.f_code.co_filename)
def watch(record):
    watched.append(record)
sys.setprofile(profile)
amsfl.run(rounds=3, watch=watch, **settings)
sys.setprofile(None)
home = str(pathlib.Path(amsfl.__file__).parent)
print("\\n".join(sorted(f[len(home) + 1:] for f in files if f.startswith(home))))
"""


def trees(package: Path) -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(package.rglob("*.py"))}


def repeated_classes(parsed: dict[Path, ast.Module]) -> dict[str, int]:
    """Class names that more than one class has, and how many."""
    nodes = [node for tree in parsed.values() for node in ast.walk(tree)]
    counts = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    return {name: count for name, count in counts.items() if count > 1}


def annotations(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns


def is_any(annotation: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(annotation))


def long_signatures(parsed: dict[Path, ast.Module]) -> list[str]:
    """Functions of seven or more parameters, `self` not counted."""
    names = []
    for path, tree in parsed.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                if sum(each.arg not in ("self", "cls") for each in arguments) >= MANY:
                    names.append(f"{path.name}:{node.name}")
    return names


def files_of_a_round(source: Path) -> list[str]:
    env = os.environ | {"PYTHONPATH": str(source)}
    return subprocess.run(
        [sys.executable, "-c", ROUND], env=env, check=True, capture_output=True, text=True
    ).stdout.split()


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    parsed = trees(root / "src" / "amsfl")
    lines = {path: len(path.read_text("utf-8").splitlines()) for path in parsed}
    every = [each for tree in parsed.values() for each in annotations(tree)]
    twins, signatures = repeated_classes(parsed), long_signatures(parsed)
    passed = files_of_a_round(root / "src")
    print(f"lines of src                     {sum(lines.values()):,}")
    print(f"files of src                     {len(parsed)}")
    print(f"class names of several classes   {len(twins)} {' '.join(twins)}")
    print(f"annotations with Any             {sum(map(is_any, every)) / len(every):.1%}")
    print(f"functions of {MANY}+ parameters      {len(signatures)}")
    print(f"files over {LONG} lines            {sum(count > LONG for count in lines.values())}")
    print(f"files that one round passes      {len(passed)}")
    print("\n".join(f"  {name}" for name in passed))


if __name__ == "__main__":
    main()
