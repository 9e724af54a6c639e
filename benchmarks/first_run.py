"""What a newcomer waits for: processor seconds of first commands, and of a plain script that does the same.

    python benchmarks/first_run.py                    the cheap ones
    python benchmarks/first_run.py --only digits,csv  some
    python benchmarks/first_run.py --only reproduce   minutes

Every command is started twice, with empty caches of programs and with full ones: `compiling` is what they
differ by. `imports` is a process that imports the same modules, `rest` what is left of the second time.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
# FedAvg of 5 clients, 20 steps of 64 rows a round, 30 rounds, 64-32 hidden units: what a run does
TORCH = """
import sys, numpy as np, torch
torch.set_num_threads(1)
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
if sys.argv[1].endswith(".csv"):
    import pandas
    table = pandas.read_csv(sys.argv[1])
    x = table.drop(columns="label").to_numpy("float32")
    y = table["label"].astype("category").cat.codes.to_numpy()
else:
    import sklearn.datasets
    x, y = getattr(sklearn.datasets, sys.argv[1])(return_X_y=True)
x, held, y, answers = train_test_split(x, y, test_size=0.2, random_state=0)
scaler = StandardScaler().fit(x)
x, held = (torch.tensor(scaler.transform(part), dtype=torch.float32) for part in (x, held))
y, answers = (torch.tensor(part, dtype=torch.int64) for part in (y, answers))
width, kinds = x.shape[1], int(y.max()) + 1
layers = [torch.nn.Linear(*shape) for shape in ((width, 64), (64, 32), (32, kinds))]
net = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
optimizer, parts = torch.optim.SGD(net.parameters(), lr=0.1), np.array_split(np.arange(len(y)), 5)
anchor = torch.nn.utils.parameters_to_vector(net.parameters()).detach()
for number in range(30):
    total = torch.zeros_like(anchor)
    for part in parts:
        torch.nn.utils.vector_to_parameters(anchor.clone(), net.parameters())
        for step in range(20):
            rows = torch.as_tensor(np.random.choice(part, 64))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
        total += torch.nn.utils.parameters_to_vector(net.parameters()).detach() * len(part) / len(y)
    anchor = total
    torch.nn.utils.vector_to_parameters(anchor.clone(), net.parameters())
    score = (net(held).argmax(1) == answers).float().mean()
print(float(score))
"""
TABLE = """
import sys, pandas
from sklearn.preprocessing import StandardScaler
table = pandas.read_csv(sys.argv[1])
print(table["label"].value_counts(), StandardScaler().fit_transform(table.drop(columns="label")).shape)
"""
ESTIMATOR = """
from sklearn.datasets import load_breast_cancer
from amsfl import FederatedClassifier
print(FederatedClassifier(rounds=30).fit(*load_breast_cancer(return_X_y=True)))
"""
IMPORTS = """
import importlib
for name in {}:
    try:
        importlib.import_module(name)
    except Exception:
        continue
"""
RUN = ["-m", "amsfl", "run", "--rounds", "30", "--force", "--out"]


class Case(NamedTuple):
    ours: list[str]  # after the interpreter
    plain: tuple[str, ...] = ()  # a script and its arguments; none: there is nothing to compare with


CASES = {
    "import": Case(["-c", "import amsfl"], ("-c", "pass")),
    "help": Case(["-m", "amsfl", "--help"], ("-m", "pip", "--help")),
    "digits": Case([*RUN, "run-digits", "--data", "digits"], ("-c", TORCH, "load_digits")),
    "fedavg": Case(
        [*RUN, "run-fedavg", "--data", "digits", "--method", "fedavg"], ("-c", TORCH, "load_digits")
    ),
    "csv": Case([*RUN, "small", "--data", "small.csv"], ("-c", TORCH, "small.csv")),
    "estimator": Case(["-c", ESTIMATOR], ("-c", TORCH, "load_breast_cancer")),
    "data": Case(["-m", "amsfl", "data", "large.csv"], ("-c", TABLE, "large.csv")),
    "predict": Case(["-m", "amsfl", "predict", "small", "small.csv"], ("-c", TABLE, "small.csv")),
    "export": Case(["-m", "amsfl", "export", "small", "--to", "sklearn", "--out", "exported"]),
    "reproduce": Case(["-m", "amsfl", "reproduce"]),
    "compare": Case(["-m", "amsfl", "compare", "visits.csv", "--label", "readmitted"]),
}
CHEAP = [*CASES][:-2]


def make_tables(folder: Path) -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    for name, rows in (("small", 400), ("large", 20_000)):
        x = rng.normal(size=(rows, 12))
        label = np.where(x @ np.arange(12) + 6 * rng.normal(size=rows) > 0, "yes", "no")
        lines = [
            ",".join([*(f"{value:.4f}" for value in row), word]) for row, word in zip(x, label, strict=True)
        ]
        head = ",".join([*(f"column{place}" for place in range(12)), "label"])
        (folder / f"{name}.csv").write_text("\n".join([head, *lines]) + "\n", "utf-8")
    subprocess.run([sys.executable, "-m", "amsfl", "data", "--example"], cwd=folder, capture_output=True)
    subprocess.run([sys.executable, *CASES["csv"].ours], cwd=folder, check=True, capture_output=True)


def processor_seconds(words: Sequence[str], folder: Path, cache: Path, *flags: str) -> tuple[float, str]:
    """Of a process and all that it starts, and what it said to stderr; nan if it failed."""
    env = os.environ | {"XDG_CACHE_HOME": str(cache), "JAX_PLATFORMS": "cpu"}
    env.pop("JAX_COMPILATION_CACHE_DIR", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *flags, *words], cwd=folder, env=env, capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (spent if done.returncode == 0 else float("nan")), done.stderr


def modules(stderr: str) -> list[str]:
    """Those that a process imported, by what -X importtime says."""
    lines = [line.split("|") for line in stderr.splitlines() if line.startswith("import time:")]
    return [parts[-1].strip() for parts in lines if len(parts) == 3]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default=",".join(CHEAP), help=f"of {', '.join(CASES)}")
    given = parser.parse_args()
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled, as where they are installed
    print("| | empty cache | full | compiling | imports | rest | plain script | times as long |")
    print("| --- " * 8 + "|")
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        make_tables(folder)
        for name in given.only.split(","):
            case, cache = CASES[name], folder / f"cache-{name}"
            empty, _ = processor_seconds(case.ours, folder, cache)
            shutil.rmtree(folder / "results", ignore_errors=True)  # finished trials are not trained again
            full, said = processor_seconds(case.ours, folder, cache, "-X", "importtime")
            again = IMPORTS.format(modules(said))
            imports, _ = processor_seconds(["-c", again], folder, cache)
            numbers = [empty, full, empty - full, imports, full - imports]
            if case.plain:
                plain, _ = processor_seconds(case.plain, folder, cache)
                numbers += [plain, empty / plain]
            print(f"| {name} | {' | '.join(f'{number:.1f}' for number in numbers)} |", flush=True)


if __name__ == "__main__":
    main()
