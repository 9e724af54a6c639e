"""One job on ours and on every peer, each in its own virtual environment, one after another.

    python benchmarks/run.py --job A --job B --peers all --data-dir nslkdd --out results.json

Prints a Markdown table with ratios measured in this run and writes it next to the JSON. Nothing else
should run on the machine meanwhile.
"""

import argparse
import json
import sys
import tempfile
import time
from math import ceil
from pathlib import Path
from typing import Any

from jobs import JOBS, accuracy, client_steps, export, settings_of
from roster import HERE, PEERS, command
from sandbox import prepare, run
from table import document, machine


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Client steps per second, ours and the peers'.")
    parser.add_argument("--job", action="append", choices=[*JOBS], help="default: all")
    parser.add_argument("--peers", default="all", help=f"all, or some of {','.join(PEERS)} (comma-separated)")
    parser.add_argument(
        "--venvs", type=Path, default=HERE / ".bench-venvs", help="where environments are kept"
    )
    parser.add_argument("--data-dir", default="", help="folder with the NSL-KDD files")
    parser.add_argument("--out", type=Path, help="JSON to write; the table goes to the same name with .md")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions; the best one counts")
    parser.add_argument(
        "--passes", type=int, default=1, help="times that all take their turn; the best counts"
    )
    parser.add_argument(
        "--seconds", type=float, default=5, help="from the second pass on, repeat for this long at least"
    )
    parser.add_argument("--timeout", type=float, default=600, help="seconds a peer may take on a job")
    parser.add_argument("--gpu", action="store_true", help="on a GPU, whoever can")
    parser.add_argument(
        "--here", action="store_true", help="all in this environment, which has whatever they need"
    )
    parser.add_argument("--install-only", action="store_true", help="make the environments and stop")
    given = parser.parse_args()
    able = [name for name, peer in PEERS.items() if peer.gpu or not given.gpu]
    given.names = able if given.peers == "all" else given.peers.split(",")
    unknown = [name for name in given.names if name not in PEERS]
    if unknown:
        parser.error(f"no peer called {', '.join(unknown)}; there are {', '.join(PEERS)}")
    given.data_dir = str(Path(given.data_dir).resolve()) if given.data_dir else ""
    given.venvs = given.venvs.resolve()
    return given


def environments(names: list[str], folder: Path) -> dict[str, Any]:
    """Peer -> interpreter, or the error that kept it from being installed."""
    made: dict[str, Any] = {}
    for venv in dict.fromkeys(PEERS[name].venv for name in names):
        try:
            made[venv] = prepare(venv, folder)
        except Exception as problem:  # a peer that cannot be installed is a result, not a reason to stop
            made[venv] = str(problem)
    return {name: made[PEERS[name].venv] for name in names}


def measure(
    name: str, python: Any, job: str, exported: Path, given: argparse.Namespace, before: dict[str, Any]
) -> dict[str, Any]:
    if isinstance(python, str):
        return {"error": python}
    model = exported.with_name(f"{name}-{job}.npz")
    # a fast one's three repetitions are over within a second, in which a shared machine has one pace
    repeat = max(given.repeat, ceil(given.seconds * pace(before) / client_steps(job)))
    started = command(name, python, job, exported, model, given.data_dir, repeat)
    result = run(started, given.timeout, given.gpu, PEERS[name].env)
    if "error" not in result and model.exists():
        result["accuracy"] = accuracy(exported, model) if result.get("trained", True) else None
    return result


def pace(result: dict[str, Any]) -> float:
    return float(result.get("client_steps_per_second", 0))


def better(before: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The turn with the best repetition, and the repetitions of both."""
    each = before.get("each", []) + found.get("each", [])
    return max(found, before, key=pace) | ({"each": each} if each else {})


def main() -> None:
    given = arguments()
    here = dict.fromkeys(given.names, Path(sys.executable))
    pythons = here if given.here else environments(given.names, given.venvs)
    if given.install_only:
        broken = {name: python for name, python in pythons.items() if isinstance(python, str)}
        sys.exit(f"not installed: {broken}" if broken else 0)
    outcome: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "repeat": given.repeat,
        "passes": given.passes,
        "seconds": given.seconds,
        "jobs": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        for job in given.job or [*JOBS]:
            exported = Path(folder) / f"job-{job}.npz"
            export(job, given.data_dir, exported)
            results: dict[str, Any] = {}
            outcome["jobs"][job] = {"settings": settings_of(job), "results": results}
            # a machine that others share changes its pace within minutes: another pass for all
            for name in [name for name in given.names if job in PEERS[name].jobs] * given.passes:
                before = results.get(name, {})
                found = measure(name, pythons[name], job, exported, given, before)
                results[name] = better(before, found)
                print(
                    f"{job} {name}: {found.get('error') or f'{pace(found):,.0f} client steps/s'}", flush=True
                )
    text = document(outcome)
    print("\n" + text)
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(outcome, indent=1) + "\n")
        given.out.with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
