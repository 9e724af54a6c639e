"""What privacy costs, and whether the claim is true.

    python studies/privacy.py --data digits --epsilons 1,2,4,8    accuracy against epsilon
    python studies/privacy.py --audit 2000 --epsilons 8           an attack on so many runs

Accuracy: five sites of very unequal size, each with the same epsilon; every contestant has the same rounds
and, on average, the same steps, and the learning rate (and, where all sites share one noise, the noise)
that was best for it with hindsight.

Audit: half of the runs have a canary, the worst row that there can be: a feature of its own, which only
this row and noise move. Every row is in every step, so nothing hides it, and the attacker reads the weights
that it moves. With the noise that the claim needs nothing above it is proved; with a third of that noise
the claim falls.
"""

import argparse
from itertools import product

import numpy as np
from scipy import optimize, stats

from amsfl.core.records import Json
from amsfl.data import Dataset, load
from amsfl.privacy import Exposure, noise_for
from amsfl.simulation import CustomParts, make_config, run_batch

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
CONTESTANTS: dict[str, Json] = {
    "FedAvg, equal steps, one noise": {"method": "fedavg", "noise": (2.0, 4.0, 8.0)},
    "FedAvg, equal steps": {"method": "fedavg"},
    "AMSFL, equal steps": {"method": "amsfl", "policy": "fixed"},
    "AMSFL, epsilon planned": {"method": "amsfl"},
}
RATES, ROUNDS = (0.25, 0.5, 1.0), 30
SITES = {"clients": 5, "batch": 32, "steps": 10, "details": "", "model": "softmax", "partition": "quantity:1"}
LOUD = 5.0  # the canary's value in its own feature: its gradient is then cut to the clipping norm at first
CANARY = {"model": "softmax", "clients": 1, "batch": 32, "lr": 0.5, "partition": "column", "method": "fedavg"}
CANARY |= {"privacy": "record", "delta": 1e-5, "steps": 2, "rounds": 3, "eval_every": 3, "details": ""}


def best(data: Dataset, epsilon: float, own: Json, seeds: range) -> tuple[float, Floats]:
    """The learning rate with the highest mean accuracy, of its best noise, and its accuracies by seed."""
    tried = {}
    for lr, noise in product(RATES, own.get("noise", (None,))):
        told = SITES | own | {"epsilon": epsilon, "lr": lr, "noise": noise}
        told |= {"rounds": ROUNDS, "eval_every": ROUNDS}
        configs = [make_config(told | {"seed": seed}) for seed in seeds]
        results = run_batch(configs, CustomParts(dataset=data))
        tried[lr, noise] = np.array([result.accuracy for result in results])
    chosen = max(tried, key=lambda each: tried[each].mean())
    return chosen[0], tried[chosen]


def show_accuracy(data: Dataset, epsilons: list[float], seeds: range) -> None:
    print("| epsilon | contestant | accuracy | learning rate |\n| --- | --- | --- | --- |")
    for epsilon, (name, own) in product(epsilons, CONTESTANTS.items()):
        lr, accuracy = best(data, epsilon, own, seeds)
        error = 2 * accuracy.std(ddof=1) / len(accuracy) ** 0.5
        print(f"| {epsilon:g} | {name} | {accuracy.mean():.3f} ± {error:.3f} | {lr:g} |", flush=True)


def one_site(inside: bool, rows: int = 16) -> Dataset:
    """A site of a few rows; the first is the canary, or empty."""
    x = np.random.default_rng(0xCA).normal(size=(rows, 3)).astype(np.float32)
    x[:, 2] = 0
    x[0] = 0, 0, LOUD * inside
    y = (x[:, 0] > 0).astype(np.int32)
    y[0] = 1
    data = Dataset("canary", x, y, {"holdout": (x[1:], y[1:])}, ("no", "yes"), ("a", "b", "canary"))
    return data._replace(sites=np.zeros(rows, np.int32), site_names=("0",))


def seen(noise: float, inside: bool, runs: int) -> Floats:
    """How much more of the canary's class each run's model sees in the canary than in an empty row."""
    configs = [make_config(CANARY | {"noise": noise, "seed": seed}) for seed in range(runs)]
    results = run_batch(configs, CustomParts(dataset=one_site(inside)))
    rows = np.array([[0, 0, LOUD], [0, 0, 0]], np.float32)
    outputs = np.array([result.logits(rows) for result in results], float)
    moved = outputs[:, 0] - outputs[:, 1]
    return moved[:, 1] - moved.mean(1)


def proved(inside: Floats, outside: Floats, delta: float, confidence: float = 0.95) -> float:
    """The largest epsilon that the runs disprove; 0: none.

    What leaves is Gaussian noise around a sum, so the trade-off of an attacker's two errors is that of two
    normal distributions mu apart. A threshold is chosen by the first half of the scores; the errors on the
    second half, at most as large as Clopper and Pearson say, prove a mu, and that an epsilon (Nasr et al.
    2023, arXiv 2302.07956).
    """
    first, second = [(part[: len(part) // 2], part[len(part) // 2 :]) for part in (inside, outside)]
    edges = np.quantile(np.concatenate([first[0], second[0]]), np.linspace(0.02, 0.98, 49))
    edge = min(edges, key=lambda edge: (first[0] < edge).mean() + (second[0] >= edge).mean())

    def most(wrong: np.ndarray) -> float:
        count, made = int(wrong.sum()), len(wrong)
        return float(stats.beta.ppf((1 + confidence) / 2, count + 1, made - count)) if count < made else 1.0

    missed, alarmed = most(first[1] < edge), most(second[1] >= edge)
    mu = float(stats.norm.ppf(1 - alarmed) - stats.norm.ppf(missed))

    def gap(epsilon: float) -> float:
        inner = stats.norm.logcdf(-epsilon / mu - mu / 2) + epsilon
        return float(stats.norm.cdf(-epsilon / mu + mu / 2) - np.exp(inner) - delta)

    return 0.0 if not mu > 0 or gap(0.0) <= 0 else float(optimize.brentq(gap, 0.0, 10 + 10 * mu * mu))


def show_audit(epsilons: list[float], runs: int) -> None:
    print("| claimed epsilon | noise | proved at 95%, at least | the claim |\n| --- | --- | --- | --- |")
    for epsilon, (part, name) in product(epsilons, ((1.0, "all of it"), (1 / 3, "a third"))):
        steps = CANARY["steps"] * CANARY["rounds"]
        noise = part * noise_for(Exposure(1.0, 1.0, CANARY["delta"]), epsilon, steps)
        bound = proved(seen(noise, True, runs // 2), seen(noise, False, runs // 2), CANARY["delta"])
        says = "stands" if bound <= epsilon else "is false"
        print(f"| {epsilon:g} | {name} | {bound:.2f} | {says} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", default="digits", help="one that `amsfl data` lists")
    parser.add_argument("--epsilons", default="1,2,4,8")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--audit", type=int, default=0, metavar="RUNS", help="attack so many runs instead")
    given = parser.parse_args()
    epsilons = [float(part) for part in given.epsilons.split(",")]
    if given.audit:
        return show_audit(epsilons, given.audit)
    return show_accuracy(load(given.data), epsilons, range(100, 100 + given.seeds))


if __name__ == "__main__":
    main()
