"""The round, its record, and `run`."""

from amsfl.engines import devices  # noqa: F401 (first: it sets jax up before anything imports jax)
from amsfl.federation.api import Result, resume, run, run_batch, run_trials
from amsfl.federation.config import RunConfig, make_config, read_toml
from amsfl.federation.setup import Own

__all__ = [
    "Own",
    "Result",
    "RunConfig",
    "make_config",
    "read_toml",
    "resume",
    "run",
    "run_batch",
    "run_trials",
]
