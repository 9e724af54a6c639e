"""Short runs whose outcome is kept: python tests/golden/make.py [NAME ...] writes golden.json anew.

What a run computes may change only on purpose; then its numbers are renewed in a commit that says why.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import amsfl
from amsfl.data.dataset import Dataset, LabelScale

NUMBERS = Path(__file__).with_name("golden.json")
SOFTMAX: dict[str, Any] = {"data": "digits", "model": "softmax", "batch": 16, "lr": 0.5, "rounds": 5}
SOFTMAX |= {"steps": 4, "profile": "mild", "clock": "makespan", "seed": 3, "engine": "loop"}
ONE = LabelScale(0.0, 1.0)
MLP = SOFTMAX | {"model": "mlp:24", "lr": 0.2, "rounds": 8}
JAX = MLP | {"engine": "jax"}
AMSFL = {key: value for key, value in MLP.items() if key not in ("lr", "steps")} | {"method": "amsfl"}
LATE = SOFTMAX | {"profile": "wild", "rounds": 10}

RUNS: dict[str, dict[str, Any]] = {
    "fedavg": MLP | {"method": "fedavg"},
    "fedavg, jax": JAX | {"method": "fedavg"},
    "fedavg, generated nslkdd": MLP | {"method": "fedavg", "data": "nslkdd-synth", "clock": "sum"},
    "fedavg, epochs, a part of the clients": SOFTMAX
    | {"method": "fedavg", "steps": None, "epochs": 0.5, "clients": 8, "cohort": 3},
    "fedprox": MLP | {"method": "fedprox", "options": {"mu": 0.1}},
    "fednova, planned speeds": MLP | {"method": "fednova", "policy": "speed"},
    "scaffold": MLP | {"method": "scaffold"},
    "scaffold, a part of the clients, jax": JAX | {"method": "scaffold", "clients": 8, "cohort": 3},
    "feddyn": MLP | {"method": "feddyn", "lr": 0.1},
    "fedcsda": MLP | {"method": "fedcsda"},
    "fedcsda, jax": JAX | {"method": "fedcsda"},
    "fedexp": MLP | {"method": "fedavg", "extrapolation": 4},
    "server adam, clients with momentum and decay": MLP
    | {"method": "fedavg", "server_optimizer": "adam:0.03", "lr": 0.05}
    | {"client_optimizer": "momentum:0.9,decay:1e-3"},
    "fedbuff": LATE | {"method": "fedbuff", "round_end": "buffer:2"},
    "fedbuff, jax": LATE | {"method": "fedbuff", "round_end": "buffer:2", "engine": "jax"},
    "fedasync": LATE | {"method": "fedasync"},
    "fedcompass": LATE | {"method": "fedcompass"},
    "deadline": LATE | {"method": "fedavg", "round_end": "deadline:0.2"},
    "deadline, late work dropped, fedprox": LATE | {"method": "fedprox", "round_end": "deadline:0.3,drop"},
    "quorum": LATE | {"method": "fedavg", "round_end": "quorum:3"},
    "quorum, late work dropped, scaffold, jax": LATE
    | {"method": "scaffold", "round_end": "quorum:0.6,drop", "engine": "jax"},
    "clients that come, go and fail": LATE
    | {"method": "fedavg", "availability": "chain:6,3", "failure": 0.2, "jitter": 0.3},
    "median against two attackers": SOFTMAX
    | {"method": "fedavg", "clients": 8, "robust": "median", "attack": "signflip:2"},
    "the recommended chain against two attackers": SOFTMAX
    | {"method": "fedavg", "clients": 8, "robust": "cap:0.2,clip,voices,trust:2", "attack": "signflip:2"},
    "q8": MLP | {"method": "fedavg", "transmit": "q8"},
    "top-k": MLP | {"method": "fedavg", "transmit": "topk:0.1"},
    "private rows": SOFTMAX | {"method": "fedavg", "epsilon": 8.0, "rounds": 8},
    "private clients": SOFTMAX | {"method": "fedavg", "clients": 20, "privacy": "client", "noise": 0.5},
    "regression": MLP | {"method": "fedavg", "data": "line", "lr": 0.05},
    "amsfl-steps": AMSFL | {"method": "amsfl-steps", "lr": 0.2},
    "amsfl-paper": AMSFL | {"method": "amsfl-paper", "lr": 0.2, "clock": "sum"},
    "amsfl": AMSFL,
    "amsfl, jax": AMSFL | {"engine": "jax"},
    "amsfl, quorum": AMSFL | {"round_end": "quorum:3", "profile": "wild"},
    "amsfl, a part of the clients, q8": AMSFL | {"clients": 8, "cohort": 4, "transmit": "q8"},
}
FLOWER: dict[str, dict[str, Any]] = {
    "fedavg, flower in process": {"method": "fedavg", "steps": 4, "lr": 0.5},
    "scaffold, flower in process": {"method": "scaffold", "steps": 4, "lr": 0.5},
}


def line() -> Dataset:
    """Numbers on a line, with noise: 240 rows, six features."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6)).astype(np.float32)
    y = (x @ np.arange(1, 7) / 5 + 0.3 * rng.normal(size=300)).astype(np.float32)
    names = tuple("abcdef")
    return Dataset(
        "line", x[:240], y[:240], {"holdout": (x[240:], y[240:])}, (), names, amount=LabelScale(0.0, 1.0)
    )


def outcome(name: str) -> dict[str, float]:
    """What a run comes to: scores of the hold-out, virtual seconds, steps of all clients, bytes both ways."""
    if name in FLOWER:
        return in_process(FLOWER[name])
    settings = {key: value for key, value in RUNS[name].items() if value is not None}
    if settings["data"] == "line":
        settings["dataset"] = line()
        del settings["data"]
    summary = amsfl.run(**settings, details="", progress=False).summary
    scores = summary.metrics["holdout"]
    return {
        "score": scores["r2"] if summary.accuracy is None else summary.accuracy,
        "loss": scores["loss"],
        "seconds": summary.virtual_seconds,
        "steps": sum(summary.steps.values()),
        "bytes": summary.bytes_up + summary.bytes_down,
    }


def in_process(settings: dict[str, Any]) -> dict[str, float]:
    """Three real clients and a real server in one process; its seconds are the machine's."""
    from flwr.app import MetricRecord

    from amsfl import data
    from amsfl.flower import InProcessGrid, Shard, jax_client, serve
    from amsfl.flower.jax_trainer import NAME, program
    from amsfl.portable import network

    digits = data.load("digits")
    parts = data.partition("dirichlet:0.5", digits.y, 3, 0)
    softmax = program("softmax", 64, 10)

    def shard(context: Any) -> Shard:
        rows = parts[int(context.node_config["partition-id"])]
        return Shard(digits.x[rows], digits.y[rows], 10, "softmax")

    def score(number: int, arrays: Any) -> MetricRecord:
        x, y = digits.evals["holdout"]
        logits = network.logits(softmax.layers, softmax.tensors(arrays[NAME].numpy()), x).astype(np.float64)
        top = logits.max(1, keepdims=True)
        likely = logits - top - np.log(np.exp(logits - top).sum(1, keepdims=True))
        loss, hits = -likely[np.arange(len(y)), y].mean(), (logits.argmax(1) == y).mean()
        return MetricRecord({"loss": float(loss), "accuracy": float(hits)})

    grid = InProcessGrid(jax_client(shard), [{"partition-id": place} for place in range(3)])
    run = {"clients": 3, "rounds": 5, "batch": 16, "seed": 3} | settings
    rounds: list[Any] = []
    result = serve(grid, run, softmax.start(3), evaluate=score, watch=rounds.append)
    scores = result.evaluate_metrics_serverapp[5]
    return {
        "score": scores["accuracy"],
        "loss": scores["loss"],
        "steps": sum(sum(each.steps) for each in rounds),
        "bytes": sum(each.bytes_up + each.bytes_down for each in rounds),
    }


def main() -> None:
    known = json.loads(NUMBERS.read_text("utf-8")) if NUMBERS.exists() else {}
    asked = sys.argv[1:] or [*RUNS, *FLOWER]
    rows = known | {name: outcome(name) for name in asked}
    short = {name: {key: float(f"{value:.8g}") for key, value in row.items()} for name, row in rows.items()}
    text = ",\n".join(f"  {json.dumps(name)}: {json.dumps(short[name])}" for name in [*RUNS, *FLOWER])
    NUMBERS.write_text("{\n" + text + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
