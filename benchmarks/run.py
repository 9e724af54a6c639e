"""One job on ours and on every peer, each in a virtual environment of its own, one after another.

    python benchmarks/run.py --job A --job B
    python benchmarks/run.py --peers ours,before --before ../checkout-of-an-earlier-commit --passes 5

Prints a Markdown table with ratios measured in this run. Nothing else should run on the machine meanwhile.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
from ours import JOBS, LR, rows_of

from amsfl.data import partition
from amsfl.engines import models
from amsfl.portable.network import LayerSpec, logits

import jax  # isort: skip  # after amsfl, which sets it up

HERE = Path(__file__).resolve().parent
# PyTorch goes first and alone, and is named again with each peer: an unpinned one pulls CUDA.
TORCH = "torch==2.13.0"
PACE = "client_steps_per_second"  # of every repetition


class Peer(NamedTuple):
    title: str
    script: str  # of ours.py's folder, or under peers/
    install: tuple[tuple[str, ...], ...]  # one call of pip each
    launch: tuple[str, ...] = ()  # between the interpreter and the script
    more: tuple[str, ...] = ()  # after the script's own arguments
    source: Path = HERE.parent  # of our own sides


OURS = (("--editable", str(HERE.parent)),)
PLAIN = ((TORCH, "numpy", "safetensors"),)
PFL = ((TORCH,), (TORCH, "pfl[pytorch]==0.6.0", "safetensors"))
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2")
PEERS = {
    "ours": Peer("amsfl", "ours.py", OURS),
    "pytorch": Peer("plain PyTorch", "plain_pytorch.py", PLAIN),
    "pytorch-two": Peer("plain PyTorch, two processes", "plain_pytorch.py", PLAIN, more=("--processes", "2")),
    "pfl": Peer("pfl-research", "pfl_research.py", PFL),
    "pfl-two": Peer("pfl-research, two processes", "pfl_research.py", PFL, TORCHRUN),
    "fedjax": Peer("FedJAX", "fed_jax.py", (("fedjax==0.0.17", "jax==0.10.2"),)),
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--job", action="append", choices=[*JOBS], help="default: all")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--before", type=Path, help="a checkout of an earlier amsfl; the peer `before`")
    parser.add_argument("--venvs", type=Path, default=HERE / ".bench-venvs", help="where environments are")
    parser.add_argument(
        "--here", action="store_true", help="all in this environment, which has what they need"
    )
    parser.add_argument("--repeat", type=int, default=3, help="repetitions; the best one counts")
    parser.add_argument("--passes", type=int, default=1, help="turns of everybody; the best counts")
    parser.add_argument("--timeout", type=float, default=600, help="seconds a peer may take on a job")
    given = parser.parse_args()
    if given.before:
        PEERS["before"] = PEERS["ours"]._replace(title="amsfl before", source=given.before.resolve())
    return given


def python_of(peer: Peer, folder: Path) -> str:
    """The interpreter of the peer's environment, which is made if it is not there."""
    home = (folder / "-".join(peer.install[-1]).replace("/", "-").replace("=", "")).resolve()
    if not (home / "installed").exists():
        print(f"installing {peer.title} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        for packages in peer.install:
            subprocess.run([str(home / "bin" / "pip"), "install", "-q", *packages], check=True)
        (home / "installed").touch()
    return str(home / "bin" / "python")


def run(peer: Peer, given: argparse.Namespace, job: str, exported: Path) -> dict[str, Any]:
    """The peer's JSON line with its accuracy, or `error`."""
    model = exported.with_name("model.npz")
    model.unlink(missing_ok=True)
    ours = peer.script == "ours.py"
    if ours:
        words = [str(HERE / peer.script), "--job", job]
    else:
        words = [str(HERE / "peers" / peer.script), str(exported), str(model), *peer.more]
    try:
        python = sys.executable if given.here else python_of(peer, given.venvs)
    except subprocess.CalledProcessError as problem:
        return {"error": str(problem)}
    env = os.environ | {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    env |= {"PYTHONPATH": str(peer.source / "src")} if ours else {}
    child = subprocess.Popen(
        [python, *peer.launch, *words, "--repeat", str(given.repeat)],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        said, wrong = child.communicate(timeout=given.timeout)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        return {"error": f"did not finish within {given.timeout:g} s"}
    lines = [line for line in said.splitlines() if line.startswith('{"') and PACE in line]
    if child.returncode or not lines:
        return {"error": (wrong or said).strip().splitlines()[-1][:200]}
    result: dict[str, Any] = json.loads(lines[-1])
    return result if ours else result | {"accuracy": accuracy(exported, model)}


def export(job: str, path: Path) -> None:
    """Rows in client order with offsets, the hold-out, the network, its initial weights, the settings.

    Weights are w0, b0, w1, ... with axes the other way round from torch's: a dense one [inputs, outputs].
    """
    own = JOBS[job]
    data = rows_of(own.data)
    parts = partition("dirichlet:0.5", data.y, own.clients, 0)
    order = np.concatenate(parts)
    x, y = data.evals["holdout"]
    model = models.make(own.model, data.x.shape[1], len(data.classes))
    begin = jax.jit(model.init)(jax.random.key(0))  # as ours does
    tensors = [part.T for part in models.tensors(model, begin).values()]
    layers = [part._asdict() for part in model.layers]
    np.savez(
        path,
        x=data.x[order].astype(np.float32),
        y=data.y[order].astype(np.int64),
        offsets=np.cumsum([0, *(len(p) for p in parts)]),
        x_holdout=x,
        y_holdout=y,
        settings=json.dumps(own._asdict() | {"lr": LR, "parts": layers}),
        **{f"{'wb'[place % 2]}{place // 2}": part for place, part in enumerate(tensors)},
    )


def accuracy(export_path: Path, model_path: Path) -> float:
    """Share of hold-out rows that the saved model classifies correctly."""
    with np.load(export_path) as data, np.load(model_path) as model:
        x, labels = data["x_holdout"], data["y_holdout"]
        parts = tuple(LayerSpec(**part) for part in json.loads(str(data["settings"]))["parts"])
        named = [part.name for part in parts if part.name]
        tensors = {
            f"{name}.{kind}": model[f"{kind[0]}{place}"].T
            for place, name in enumerate(named)
            for kind in ("weight", "bias")
        }
        blocks = [logits(parts, tensors, x[at : at + 1000]) for at in range(0, len(x), 1000)]
    return float((np.concatenate(blocks).argmax(1) == labels).mean())


def measured(given: argparse.Namespace, job: str, exported: Path) -> dict[str, dict[str, Any]]:
    """By peer, all turns together: a machine that others share changes its pace within minutes."""
    found: dict[str, dict[str, Any]] = {}
    for name in given.peers.split(",") * given.passes:
        before = found.get(name, {})
        result = run(PEERS[name], given, job, exported)
        found[name] = result | {PACE: before.get(PACE, []) + result.get(PACE, [])}
        print(f"{job} {name}: {result.get('error') or max(result[PACE])}", file=sys.stderr, flush=True)
    return found


def table(results: dict[str, dict[str, Any]]) -> str:
    """Fastest first, each by its best repetition."""
    ours = results.get("ours", {}).get(PACE)
    lines = ["| | client steps/s | ours is faster by | accuracy |", "| --- " * 4 + "|"]
    for name, result in sorted(results.items(), key=lambda item: -max(item[1][PACE], default=0)):
        title, each = PEERS[name].title, result[PACE]
        if not each:
            lines.append(f"| {title} | does not run: {result['error']} | | |")
            continue
        more = f"{max(ours) / max(each):.3g}" if ours and name != "ours" else ""
        lines.append(f"| {title} | {max(each):,.0f} | {more} | {result['accuracy']:.3f} |")
    return "\n".join(lines)


def machine() -> str:
    """What the figures were measured on, without naming the host."""
    info = Path("/proc/cpuinfo")
    models = [line for line in info.read_text().splitlines() if "model name" in line] if info.exists() else []
    kind = models[0].partition(":")[2].strip() if models else platform.machine()
    return f"{os.cpu_count()} cores of {kind}, load {os.getloadavg()[0]:.1f} before the start"


def main() -> None:
    given = arguments()
    text = [f"{time.strftime('%Y-%m-%d')}, {machine()}, {given.passes} passes"]
    with tempfile.TemporaryDirectory() as folder:
        for job in given.job or [*JOBS]:
            exported = Path(folder) / f"job-{job}.npz"
            export(job, exported)
            text.append(f"**Job {job}**\n\n{table(measured(given, job, exported))}")
    print("\n\n".join(text))


if __name__ == "__main__":
    main()
