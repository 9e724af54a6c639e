"""The audit: models trained with canaries, and what of the claimed epsilon an attacker can prove.

A canary is the worst row that there can be: a column of its own, which no other row has anything in, so that
its weights move by nothing but this row and noise. All canaries are in the largest site's rows, each by the
toss of a coin, and the attacker asks the last model about each.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from amsfl import data
from amsfl.data import Dataset
from amsfl.privacy.audit import Guesses, guess, lower_bound
from amsfl.record import dumps
from amsfl.simulation import CustomParts, RunConfig, make_config, run_batch

LOUD = 5.0  # what a canary has in its column: its gradient is then cut to the clipping norm at first
COMMON = {"model": "softmax", "clients": 5, "batch": 32, "steps": 10, "lr": 0.5, "partition": "column"}
CONTESTANTS: dict[str, dict[str, Any]] = {
    "FedAvg": {"method": "fedavg"},
    "AMSFL, epsilon planned": {"method": "amsfl"},
    "FedAvg, its noise left out": {"method": "fedavg", "privacy": "none"},
}


class Planted(NamedTuple):
    """A training pool with canaries in it."""

    dataset: Dataset
    rows: Any  # of the canaries, all of them
    labels: Any
    inside: Any  # bool, whether each is in


class Row(NamedTuple):
    """One audited run."""

    name: str
    seed: int
    claimed: float  # epsilon of the site with the canaries
    canaries: int
    made: int
    right: int
    bound: float  # what is proved, at 95%

    @property
    def holds(self) -> bool:
        return self.bound <= self.claimed


def planted(pool: Dataset, canaries: int, sites: int, partition: str, seed: int) -> Planted:
    """The pool in sites, and canaries in the largest one's, each by a coin."""
    rng = np.random.default_rng([seed, 0xCA])
    parts = data.partition(partition, pool.y, sites, seed)
    order = sorted(parts, key=len, reverse=True)
    owner = np.zeros(len(pool.y), np.int32)
    for site, rows in enumerate(order):
        owner[rows] = site
    inside = rng.random(canaries) < 0.5
    labels = rng.integers(0, len(pool.classes), canaries)
    columns = pool.x.shape[1]

    def wide(x: Any) -> Any:
        return np.concatenate([x, np.zeros((len(x), canaries), np.float32)], 1)

    rows = np.zeros((canaries, columns + canaries), np.float32)
    rows[np.arange(canaries), columns + np.arange(canaries)] = LOUD
    dataset = pool._replace(
        name=f"{pool.name} with canaries",
        x=np.concatenate([wide(pool.x), rows[inside]]),
        y=np.concatenate([pool.y, labels[inside].astype(pool.y.dtype)]),
        evals={"holdout": (wide(pool.evals["holdout"][0]), pool.evals["holdout"][1])},
        features=(*pool.features, *(f"canary {number}" for number in range(canaries))),
        sites=np.concatenate([owner, np.zeros(inside.sum(), np.int32)]),
        site_names=tuple(map(str, range(sites))),
        recipe=None,
    )
    return Planted(dataset, rows, labels, inside)


def scores(planted: Planted, logits: Callable[[Any], Any]) -> Any:
    """How much more the model says a canary's label of the canary than of a row of nothing."""
    own = np.asarray(logits(planted.rows), float) - np.asarray(logits(0 * planted.rows), float)
    return own[np.arange(len(own)), planted.labels] - own.mean(1)


def audit(
    name: str, how: dict[str, Any], pool: Dataset, seed: int, epsilon: float, rounds: int, canaries: int
) -> Row:
    """One run, attacked. What runs without noise claims the epsilon that it would have with it."""
    found = planted(pool, canaries, COMMON["clients"], "quantity:1", seed)  # type: ignore[arg-type]
    told = COMMON | how | {"seed": seed, "rounds": rounds, "eval_every": rounds, "details": False}
    config: RunConfig = make_config(told if "privacy" in how else told | {"epsilon": epsilon})
    (result,) = run_batch([config], CustomParts(found.dataset))
    task = result.parts.task
    params = task.unravel(result.params)  # type: ignore[arg-type]  # a numpy vector does as well
    guesses: Guesses = guess(scores(found, lambda rows: task.model.apply(params, rows)), found.inside)
    claimed = result.summary.epsilon.get("0", epsilon)
    return Row(name, seed, claimed, canaries, *guesses, lower_bound(canaries, guesses, config.delta))


def audits(
    pool: Dataset, epsilons: Sequence[float], seeds: Sequence[int], rounds: int, canaries: int
) -> Iterator[Callable[[], Row]]:
    for epsilon in epsilons:
        for name, how in CONTESTANTS.items():
            for seed in seeds:
                yield partial(audit, name, how, pool, seed, epsilon, rounds, canaries)


def as_markdown(rows: Sequence[Row]) -> str:
    lines = [
        "| run | seed | claimed epsilon | guesses right | proved at 95%, at least | the claim |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        said = "stands" if row.holds else "is false"
        right = f"{row.right} of {row.made}"
        lines.append(f"| {row.name} | {row.seed} | {row.claimed:.2f} | {right} | {row.bound:.2f} | {said} |")
    return "\n".join(lines) + "\n"


def write(rows: Sequence[Row], folder: Path) -> str:
    text = as_markdown(rows)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "audit.md").write_text(text, encoding="utf-8")
    every = [row._asdict() | {"holds": row.holds} for row in rows]
    (folder / "audit.json").write_text(dumps(every, indent=1), encoding="utf-8")
    return text
