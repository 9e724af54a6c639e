"""How fast our engine is: the jobs of benchmarks/, rounds only, best of three after a warm-up."""

import time
from typing import NamedTuple

import numpy as np

import amsfl
from amsfl.core import UserError, nearest
from amsfl.core.records import Json, JsonMapping
from amsfl.data import Dataset, load


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
    worth: bool = False  # a ledger of contributions, compared with the job without one


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
    if options.worth:
        outcome |= measure_ledger(job, data, options.repeat)
    return outcome | {"job": name, "data": data.name, "synthetic": data.synthetic}


def measure_ledger(job: BenchJob, data: Dataset, repeat: int) -> Json:
    """How many times as long a round takes with a ledger of contributions, and what its statement takes.

    Processor time: runs with and without take turns, the best of each counts. Nothing is scored but what the
    ledger looks at; the last round, which always is, is left out.
    """
    from amsfl.settings.custom import CustomParts
    from amsfl.simulation import contributions, make_config
    from amsfl.simulation.rounds import begin, models_of, rounds
    from amsfl.simulation.setup import assemble

    more = {"rounds": job.rounds, "lr": LR, "eval_every": 10**6, "cohort": None}
    configs = [make_config(_settings(job) | more | {"worth": ledger}) for ledger in (False, True)]
    setups = [assemble([config], CustomParts(data)) for config in configs]
    took: list[list[float]] = [[], []]
    statement = []
    for _ in range(repeat + 1):  # the first one warms up
        for setup, seconds in zip(setups, took, strict=True):
            state, trials = begin(setup)
            ends = [time.process_time()]
            for state, _records in rounds(setup, state, trials):  # noqa: B007, B020 (the state moves on)
                ends.append(time.process_time())
            seconds.append(ends[-2] - ends[0])
            ended = time.process_time()
            contributions.state(setup, trials[0], models_of(setup, state)[0])
            statement.append(time.process_time() - ended)
    plain, ledger = (min(seconds[1:]) for seconds in took)
    return {"ledger_times": ledger / plain, "statement_seconds": min(statement[3::2])}


def _settings(job: BenchJob) -> Json:
    return {
        "method": "fedavg",
        "clients": job.clients,
        "cohort": job.cohort,
        "partition": "dirichlet:0.5",
        "steps": job.steps,
        "batch": job.batch,
        "profile": "uniform",
        "model": job.model,
    }


def measure(
    job: BenchJob, data: Dataset, repeat: int, started: float | None = None, more: JsonMapping | None = None
) -> Json:
    """Client steps a second over the rounds, and whether it really trained; with `more` settings."""
    from amsfl.engines import Orders, metrics  # before jax, which it sets up
    from amsfl.settings.custom import CustomParts
    from amsfl.simulation import make_config
    from amsfl.simulation.setup import assemble
    from amsfl.simulation.summary import peak_mb

    import jax  # isort: skip

    config = make_config(_settings(job) | dict(more or {}))
    parts = assemble([config], CustomParts(data))
    rng = np.random.default_rng(0)
    steps, lr = np.full((1, job.cohort), job.steps), np.array([LR])
    engine, weights = parts.engine, parts.task.shards.weights
    everyone = Orders(np.arange(job.clients)[None], steps, lr, weights)

    def order() -> Orders:
        if job.cohort == job.clients:
            return everyone
        cohort = np.sort(rng.choice(job.clients, job.cohort, replace=False))[None]
        return Orders(cohort, steps, lr, weights[:, cohort[0]])

    startup, rates = None, []
    for _ in range(repeat + 1):  # the first one warms up
        state = jax.block_until_ready(engine.start())
        begun = time.perf_counter()
        for number in range(0, job.rounds, engine.max_span):
            orders = [order() for _ in range(min(engine.max_span, job.rounds - number))]
            if engine.max_span == 1:
                state = engine.round(state, orders[0], number)[0]
            else:
                state = engine.at(engine.span(state, orders, number)[0], len(orders) - 1)
            if startup is None:
                jax.block_until_ready(state)
                startup = time.time() - started if started else None
        jax.block_until_ready(state)
        rates.append(job.rounds * job.cohort * job.steps / (time.perf_counter() - begun))
    accuracy = metrics(engine.evaluate(state.anchor, "holdout"))[0]["accuracy"]
    return {
        "client_steps_per_second": max(rates[1:]),
        "each": rates[1:],
        "accuracy": accuracy,
        "startup_seconds": startup,
        "peak_mb": peak_mb(),
        "version": amsfl.__version__,
        "jax": jax.__version__,
        "device": str(jax.devices()[0].device_kind),
        "devices": len(jax.devices()),
        "rounds": job.rounds,
    }
