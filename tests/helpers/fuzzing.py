"""Inputs that nobody should type, from a seed: values, command lines, files that are not what they say."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from amsfl.settings.definitions import Serving, Simulation, Training


def words(text: str) -> list[str]:
    return re.findall(r"\S+", text)


TEXTS = words(
    """
    ² ١٢ é Ångström [/b] [red]x :smile: %s%n {0} ../x / . null None true [] {} - -- 0x10 1_000 1,5 NaN
    mlp:² mlp:0 mlp:- mlp:64- mlp:999999999 mlp:64-32 mlp:100000-100000 mlp:١٢ softmax softmax: cnn cnn:3
    lognormal: lognormal:nan,1 lognormal:1e-300,0 lognormal:1e308,10 lognormal:0.02,0.8 lognormal:0.02,9e9
    lognormal:1,2,3 mild wild far.csv dirichlet:1e308 dirichlet:1e-308 dirichlet:-1 dirichlet:0.5 dirichlet:
    shards:1e30 shards:2 shards:0.5 quantity:1e-9 quantity:1 column site iid iid:3 auto digits nslkdd-synth
    fedavg fedprox amsfl amsfl-paper scaffold fedcsda fedavg,amsfl fedavg,,x os:system amsfl.methods:amsfl
    a:b:c price greedy exact printed fixed fill wang adacomm decaying speed sum makespan jax loop float64
    topk:0.1 topk:-1,q8 q8 median linear geometric reproduce compare same-lr A B 1,2,4 1,,2 0,1 1e9,nan
    """
)
TEXTS += ["", " ", "\t", "\x1b[31mred", "a" * 300, "x" * 5000, "mlp:" + "8-" * 60 + "8", "é" * 200]
NUMBERS = words(
    """
    0 1 2 -1 0.5 -0.0 1e-300 1e300 1e308 1e309 nan inf -inf 95 1.0 3.7 70000 1000000000000 1e6 1e12 1e15
    9223372036854775807 9223372036854775808 -9223372036854775809 4294967295 4294967296 007 +5 5. .5 ٣ 1e
    0x1f five
    """
)
NUMBERS += ["", " 7 ", "9" * 400]
PAIRS = words(
    """
    steps initial loss loss0 lr rho beta delta left alpha most least limit_s previous gamma round phi mu
    polyak cap momentum balance closing temperature memory rows x =
    """
)
GROUPS: dict[str, tuple[Any, ...]] = {
    "run": (Training, Simulation),
    "compare": (Training, Simulation),
    "reproduce": (Training,),
    "deploy": (Training, Serving),
    "plan": (Training,),
}
OWN = {  # flags that are no settings
    "run": "--config --out --force --json",
    "compare": "--methods --trials --config --out --tune --force --quiet",
    "reproduce": "--methods --trials --config --out --quiet --seed --data --seconds",
    "deploy": "--slowdowns --step-seconds --tls --out --resume --json",
    "plan": "--curve --t-max --json --kind --set --set --budget --policy --clock",
    "resume": "--json --anyway --rounds --seconds --target --data-dir --checkpoint-every",
    "predict": "--out --which",
    "export": "--to --out --which",
    "report": "--out --target",
}
BARE = ("--force", "--anyway", "--json", "--quiet", "--tls", "--resume")


def command_line(rng: Random, files: list[Path]) -> list[str]:
    """One command with a few flags, right and wrong."""
    name = rng.choice([*GROUPS, "plan", *OWN, rng.choice(["methods", "data", *TEXTS])])
    line = [name]
    if name in ("plan", "resume", "report", "predict", "export"):
        right = [str(path) for path in files if path.name == "clients.csv"]
        line.append(right[0] if right and name == "plan" and rng.random() < 0.8 else _text(rng, files))
    if name == "predict":
        line.append(_text(rng, files))
    fields = [(key, field) for group in GROUPS.get(name, ()) for key, field in group.model_fields.items()]
    for _ in range(rng.choice([0, 1, 1, 2, 3, 5])):
        if fields and name not in ("plan", "reproduce") and rng.random() < 0.75:
            line += _flag(rng, *rng.choice(fields), files)
        elif name in OWN:
            line += _own(rng, rng.choice(words(OWN[name])), files)
        else:
            line.append(rng.choice(["--help", "--nothing", _text(rng, files)]))
    return line


def _flag(rng: Random, key: str, field: Any, files: list[Path]) -> list[str]:
    kind = str(field.annotation)
    flag = "--" + key.removesuffix("s" if key.endswith("options") else "").replace("_", "-")
    if "bool" in kind:
        return [rng.choice([flag, "--no-" + flag[2:]])]
    if "dict" in kind:
        return [flag, f"{rng.choice(PAIRS)}={rng.choice(NUMBERS)}"]
    if field.default is not None and rng.random() < 0.4:
        return [flag, str(field.default)]
    return [flag, _text(rng, files) if "str" in kind or rng.random() < 0.1 else rng.choice(NUMBERS)]


def _own(rng: Random, flag: str, files: list[Path]) -> list[str]:
    if flag in BARE:
        return [flag]
    if flag == "--set":
        return [flag, f"{rng.choice(PAIRS)}={rng.choice(NUMBERS)}"]
    return [flag, rng.choice([rng.choice(NUMBERS), _text(rng, files), _text(rng, files)])]


def _text(rng: Random, files: list[Path]) -> str:
    return str(rng.choice(files)) if files and rng.random() < 0.4 else rng.choice(TEXTS)


def mutated(rng: Random, content: bytes) -> bytes:
    """Some bytes changed, a piece cut out or doubled, strange text put in, or the end missing."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        start = rng.randrange(len(data) + 1)
        end = start + rng.choice([1, 1, 4, 40])
        strange = rng.choice([*TEXTS, *NUMBERS, "\n", ",", '"', "[", "]", "=", "\0", "\r\n", "[[[[" * 400])
        data[start:end] = rng.choice(
            [
                bytes([rng.randrange(256)]),
                b"",
                data[start:end] * rng.choice([2, 50]),
                strange.encode(),
                strange.encode() + data[start:end],
            ]
        )
    return bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.1 else data)


def settings_file(rng: Random) -> bytes:
    """A TOML file of settings with a few wild values."""
    lines = ['method = "fedavg"', "rounds = 3", 'data = "digits"']
    for _ in range(rng.choice([1, 2, 4])):
        group: Any = rng.choice([Training, Training, Simulation, Serving])
        value = rng.choice([*NUMBERS, "true", "[1]", "{a=1}", "1979-05-27", *(f'"{text}"' for text in TEXTS)])
        lines.append(f"{rng.choice(list(group.model_fields))} = {value}")
    return "\n".join(dict.fromkeys(lines)).encode()


def files(rng: Random, folder: Path, seeds: dict[str, bytes], count: int) -> Iterator[Path]:
    """Damaged copies of good files, under names that say what they should be."""
    for number in range(count):
        name, content = rng.choice(list(seeds.items()))
        path = folder / f"{number}-{name}"
        if rng.random() < 0.04:
            path.mkdir()
        elif name.endswith(".gz"):
            whole = gzip.compress(mutated(rng, content) if rng.random() < 0.5 else content, mtime=0)
            path.write_bytes(mutated(rng, whole) if rng.random() < 0.5 else whole)
        elif name == "run.toml" and rng.random() < 0.7:
            path.write_bytes(settings_file(rng))
        else:
            path.write_bytes(mutated(rng, content) if rng.random() < 0.85 else content)
        yield path
