"""How fast our engine is: the jobs of benchmarks/, rounds only, best of three after a warm-up."""

import resource
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

import amsfl
from amsfl.core import UserError, nearest
from amsfl.data import Dataset, load


class Job(NamedTuple):
    clients: int
    cohort: int
    steps: int
    batch: int
    rounds: int
    data: str = "nslkdd"
    model: str = "mlp"


JOBS = {
    "A": Job(5, 5, 20, 64, 50),
    "B": Job(1000, 50, 10, 32, 20),
    "C": Job(100, 10, 10, 32, 5, "images-synth", "cnn"),
    "D": Job(100, 10, 10, 32, 2, "texts-synth", "transformer"),
    "E": Job(5, 5, 20, 64, 20, model="mlp:256-128"),
    "F": Job(5, 5, 20, 64, 5, model="mlp:1024-512"),
}
LR = 0.05


def bench(
    name: str,
    data_dir: str | None = None,
    repeat: int = 3,
    started: float | None = None,
    rounds: int | None = None,
    robust: str = "",
    private: bool = False,
) -> dict[str, Any]:
    """One job on this machine. `started` is when the process began, for the start-up time.

    With a rule, or with private steps, the job without them is measured in the same process, before it:
    `times` as long it takes.
    """
    if name not in JOBS:
        raise UserError(f"Unknown job {name!r}{nearest(name, JOBS)}.")
    job = JOBS[name]._replace(rounds=rounds or JOBS[name].rounds)
    data = load(job.data, data_dir=data_dir)
    found = measure(job, data, repeat, started)
    more: dict[str, Any] = {"robust": robust} if robust else {}
    more |= {"privacy": "record", "noise": 1.0} if private else {}
    if more:
        plain = found["client_steps_per_second"]
        found = measure(job, data, repeat, None, more)
        found |= {**more, "times": plain / found["client_steps_per_second"]}
    return found | {"job": name, "data": data.name, "synthetic": data.synthetic}


def _further(engine: Any, state: Any, orders: list[Any], number: int) -> Any:
    """The rounds that were ordered, in one piece where the engine takes more than one at once."""
    if engine.ahead == 1:
        return engine.round(state, orders[0], number)[0]
    return engine.at(engine.span(state, orders, number)[0], len(orders) - 1)


def measure(
    job: Job,
    data: Dataset,
    repeat: int,
    started: float | None = None,
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Client steps a second over the rounds, and whether it really trained; with `more` settings."""
    from amsfl.engines import Orders, metrics  # before jax, which it sets up
    from amsfl.settings.custom import CustomParts
    from amsfl.simulation import make_config
    from amsfl.simulation.setup import prepare

    import jax  # isort: skip

    config = make_config(
        {
            "method": "fedavg",
            "clients": job.clients,
            "cohort": job.cohort,
            "partition": "dirichlet:0.5",
            "steps": job.steps,
            "batch": job.batch,
            "profile": "uniform",
            "model": job.model,
            **(more or {}),
        }
    )
    parts = prepare(config, [0], CustomParts(data))
    rng = np.random.default_rng(0)
    steps, lr = np.full((1, job.cohort), job.steps), np.array([LR])
    weights = parts.task.shards.weights

    everyone = Orders(np.arange(job.clients)[None], steps, lr, weights)

    def order() -> Orders:
        if job.cohort == job.clients:
            return everyone
        cohort = np.sort(rng.choice(job.clients, job.cohort, replace=False))[None]
        return Orders(cohort, steps, lr, weights[:, cohort[0]])

    startup, rates = None, []
    for _ in range(repeat + 1):  # the first one warms up
        state = jax.block_until_ready(parts.engine.start())
        begun = time.perf_counter()
        for number in range(0, job.rounds, parts.engine.ahead):
            state = _further(
                parts.engine,
                state,
                [order() for _ in range(min(parts.engine.ahead, job.rounds - number))],
                number,
            )
            if startup is None:
                jax.block_until_ready(state)
                startup = time.time() - started if started else None
        jax.block_until_ready(state)
        rates.append(job.rounds * job.cohort * job.steps / (time.perf_counter() - begun))
    accuracy = metrics(parts.engine.evaluate(state.anchor, "holdout"))[0]["accuracy"]
    return {
        "client_steps_per_second": max(rates[1:]),
        "each": rates[1:],
        "accuracy": accuracy,
        "startup_seconds": startup,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "version": amsfl.__version__,
        "jax": jax.__version__,
        "device": str(jax.devices()[0].device_kind),
        "devices": len(jax.devices()),
        "rounds": job.rounds,
    }
