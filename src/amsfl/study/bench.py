"""How fast our engine is: the jobs of benchmarks/, rounds only, best of three after a warm-up."""

import resource
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import amsfl
from amsfl.core import UserError, nearest
from amsfl.core.records import Json, JsonMapping
from amsfl.data import Dataset, load

if TYPE_CHECKING:
    from amsfl.engines import Engine, Orders, State


class BenchJob(NamedTuple):
    clients: int
    cohort: int
    steps: int
    batch: int
    rounds: int
    data: str = "nslkdd"
    model: str = "mlp"


JOBS = {
    "A": BenchJob(5, 5, 20, 64, 50),
    "B": BenchJob(1000, 50, 10, 32, 20),
    "C": BenchJob(100, 10, 10, 32, 5, "images-synth", "cnn"),
    "D": BenchJob(100, 10, 10, 32, 2, "texts-synth", "transformer"),
    "E": BenchJob(5, 5, 20, 64, 20, model="mlp:256-128"),
    "F": BenchJob(5, 5, 20, 64, 5, model="mlp:1024-512"),
}
LR = 0.05


class BenchOptions(NamedTuple):
    """How a job is measured."""

    data_dir: str | None = None
    repeat: int = 3  # the best of so many counts
    started: float | None = None  # when the process began, for the start-up time
    rounds: int | None = None  # in place of the job's
    robust: str = ""  # a rule, compared with the job without it
    private: bool = False  # private steps, compared with plain ones


def bench(name: str, options: BenchOptions) -> Json:
    """One job on this machine.

    With a rule, or with private steps, the job without them is measured in the same process, before it:
    it takes `times` as long.
    """
    if name not in JOBS:
        raise UserError(f"Unknown job {name!r}{nearest(name, JOBS)}.")
    job = JOBS[name]._replace(rounds=options.rounds or JOBS[name].rounds)
    data = load(job.data, data_dir=options.data_dir)
    outcome = measure(job, data, options.repeat, options.started)
    more: Json = {"robust": options.robust} if options.robust else {}
    more |= {"privacy": "record", "noise": 1.0} if options.private else {}
    if more:
        plain = outcome["client_steps_per_second"]
        outcome = measure(job, data, options.repeat, None, more)
        outcome |= {**more, "times": plain / outcome["client_steps_per_second"]}
    return outcome | {"job": name, "data": data.name, "synthetic": data.synthetic}


def _further(engine: "Engine", state: "State", orders: "list[Orders]", number: int) -> "State":
    """The rounds that were ordered, in one piece where the engine takes more than one at once."""
    if engine.max_span == 1:
        return engine.round(state, orders[0], number)[0]
    return engine.at(engine.span(state, orders, number)[0], len(orders) - 1)


def measure(
    job: BenchJob,
    data: Dataset,
    repeat: int,
    started: float | None = None,
    more: JsonMapping | None = None,
) -> Json:
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
        for number in range(0, job.rounds, parts.engine.max_span):
            state = _further(
                parts.engine,
                state,
                [order() for _ in range(min(parts.engine.max_span, job.rounds - number))],
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
