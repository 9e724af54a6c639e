"""Is a ledger of contributions right? Against training every coalition, and against really leaving one out.

    python studies/worth.py --out results/worth

Five sites of a table: a large one, a small one, a copy of the small one, one whose labels are all moved to
the next class, and one whose rows are empty (features all 0, labels at random). Exact Shapley values are of
FedAvg and AMSFL trained by each of the 31 coalitions, scored on 2,000 rows of the hold-out; all coalitions
are one batch, in which those who are not members count nothing, to the server and to the planner (a run of
three sites alone ended with the same score). The ledger has one run. What leaving one out would bring is
foretold from records of four runs and held against four runs without that site; those five sites are all
honest.
"""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from amsfl.data import Dataset, load
from amsfl.engines import metrics
from amsfl.simulation import CustomParts, Result, make_config, run, run_batch
from amsfl.simulation.components import precision
from amsfl.simulation.rounds import begin, rounds
from amsfl.simulation.setup import assemble
from amsfl.study.what_if import what_if
from amsfl.worth.shapley import all_coalitions, weights_of
from amsfl.worth.statement import WorthStatement

from common import Row, StudySettings, Table, grouped, main, option, present
from suite.data import plain_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SITES = ("large", "small", "copy", "mislabelled", "empty")
HONEST = ("Oslo", "Lyon", "Graz", "Porto", "Turku")  # the last one is slow
TRUE_KINDS = dict(zip(SITES, ("useful", "duplicate", "duplicate", "harmful", "useless"), strict=True))
SHARES = (0.4, 0.2, 0.2, 0.2)  # of the pool: large, small (and its copy), mislabelled, empty
TABLES = {  # rows of the pool at most, and how FedAvg trains on them
    "digits": (1_200, {"steps": 10, "lr": 0.1, "batch": 32, "rounds": 40}),
    "nslkdd": (4_000, {"steps": 10, "lr": 0.1, "batch": 32, "rounds": 40}),
    "cancer": (380, {"steps": 5, "lr": 0.05, "batch": 16, "rounds": 30}),
    "satimage": (1_500, {"steps": 10, "lr": 0.1, "batch": 32, "rounds": 40}),
}
METHODS = ("fedavg", "amsfl")
HOLDOUT = 2_000  # rows at most
REPEATS = 4  # records of all and runs without a site: seconds and scores differ from seed to seed
PROFILE = "step_seconds,latency\n0.02,0.1\n0.01,0.1\n0.03,0.1\n0.01,0.2\n0.08,0.1\n"
MEMBERS = all_coalitions(len(SITES))


@dataclass(frozen=True, kw_only=True)
class Settings(StudySettings):
    tables: tuple[str, ...] = option(
        ("digits", "nslkdd", "cancer"),
        "which of digits, nslkdd, cancer (scikit-learn's), satimage (the suite's)",
    )
    methods: tuple[str, ...] = option(METHODS, "which of fedavg and amsfl")
    values: bool = option(True, "hold the ledger against exact values")
    leave_out: bool = option(True, "leave every site out, foretold and run, with the first seed")
    out: Path = option(Path("results/worth"), "folder of the results")


def study(settings: Settings) -> None:
    values, absences = list[Row](), list[Row]()
    for name in settings.tables:
        rows, training = TABLES[name]
        source = load_table(name, settings.data_dir)
        holdout = tuple(part[:HOLDOUT] for part in source.evals["holdout"])
        source = source._replace(evals={"holdout": holdout})
        for seed in settings.every_seed():
            for method in settings.methods:
                print(f"{name}, {method}, seed {seed}", file=sys.stderr)
                own = {key: training[key] for key in ("rounds", "batch")} if method == "amsfl" else training
                same = own | {"method": method, "partition": "column", "seed": seed, "clock": "makespan"}
                if settings.values:
                    values += compare_values(name, five_sites(source, rows, seed), same)
                if settings.leave_out and seed == settings.first_seed:
                    absences += compare_absences(name, honest_sites(source, rows, seed), same)
    tables = [value_table(values), site_table(values), absence_table(absences)]
    present(settings.out, [table for table in tables if table.rows], draw, values)


def load_table(name: str, data_dir: str | None) -> Dataset:
    if name == "cancer":
        return cancer()
    return plain_table(name, data_dir)() if name == "satimage" else load(name, data_dir=data_dir)


def cancer() -> Dataset:
    """Breast cancer, 569 rows of 30 numbers; a third is the hold-out."""
    from sklearn.datasets import load_breast_cancer

    table = load_breast_cancer()
    order = np.random.default_rng(0).permutation(len(table.target))
    x = ((table.data - table.data.mean(0)) / table.data.std(0))[order].astype(np.float32)
    y, kept = table.target[order].astype(np.int32), 2 * len(order) // 3
    names = tuple(map(str, table.feature_names))
    return Dataset("cancer", x[:kept], y[:kept], {"holdout": (x[kept:], y[kept:])}, ("bad", "good"), names)


def five_sites(data: Dataset, rows: int, seed: int) -> Dataset:
    """The pool dealt to the five sites; the hold-out stays as it is."""
    pool = np.random.default_rng(seed).permutation(len(data.y))[:rows]
    large, small, wrong, empty = np.split(pool, (np.cumsum(SHARES[:3]) * len(pool)).astype(int))
    classes, parts = len(data.classes), [large, small, small, wrong, empty]
    x = np.concatenate([data.x[part] for part in parts])
    y = np.concatenate([data.y[part] for part in parts])
    site = np.repeat(np.arange(len(SITES)), [len(part) for part in parts]).astype(np.int32)
    x[site == SITES.index("empty")] = 0
    y = np.where(site == SITES.index("mislabelled"), (y + 1) % classes, y)
    chance = np.random.default_rng(seed).integers(classes, size=len(y))
    y = np.where(site == SITES.index("empty"), chance, y).astype(np.int32)
    return data._replace(x=x, y=y, sites=site, site_names=SITES, evals={"holdout": data.evals["holdout"]})


def honest_sites(data: Dataset, rows: int, seed: int) -> Dataset:
    """The pool dealt to five sites of other sizes, all of them good."""
    pool = np.random.default_rng(seed).permutation(len(data.y))[:rows]
    ends = (np.cumsum((0.35, 0.25, 0.2, 0.12)) * len(pool)).astype(int)
    site = np.searchsorted(ends, np.arange(len(pool)), side="right").astype(np.int32)
    holdout = {"holdout": data.evals["holdout"]}
    return data._replace(x=data.x[pool], y=data.y[pool], sites=site, site_names=HONEST, evals=holdout)


def compare_values(name: str, data: Dataset, settings: dict[str, Any]) -> list[Row]:
    same = settings | {"profile": "uniform"}
    exact = weights_of(len(SITES)) @ coalition_scores(data, same)
    result = run(worth=True, dataset=data, progress=False, **same)
    clients = WorthStatement.read(result.summary.worth).clients
    labels = {"table": name, "method": same["method"], "seed": same["seed"]}
    return [
        labels
        | {"site": each.name, "exact": float(value), "ledger": each.adds.mean}
        | {"low": each.adds.low, "high": each.adds.high, "kind": each.kind}
        for each, value in zip(clients, exact, strict=True)
    ]


def coalition_scores(data: Dataset, settings: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The accuracy of the models that coalitions train; nobody's is the first model's."""
    config = make_config(settings | {"eval_every": 10**6, "details": False})
    with precision(config):
        setup = assemble([config] * (len(MEMBERS) - 1), CustomParts(dataset=data))
        members = setup.weights * MEMBERS[1:]
        weights = members / members.sum(1, keepdims=True)
        contexts = [each._replace(weights=own) for each, own in zip(setup.contexts, weights, strict=True)]
        setup = setup._replace(weights=weights, contexts=contexts)
        state, trials = begin(setup)
        first = setup.engine.evaluate(setup.engine.models(state), "holdout", [0])
        for state, _ in rounds(setup, state, trials):  # noqa: B007, B020 (the state moves on)
            pass
        scores = [first, setup.engine.evaluate(setup.engine.models(state), "holdout")]
    return np.array([each["accuracy"] for some in scores for each in metrics(some)])


def compare_absences(name: str, data: Dataset, settings: dict[str, Any]) -> list[Row]:
    """A site left out: foretold from REPEATS records of all, and run as often without it."""
    lines, absences = PROFILE.splitlines(), list[Row]()
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "sites.csv"
        profile.write_text(PROFILE)
        same = settings | {"profile": str(profile)}
        trials = [same | {"seed": settings["seed"] + place} for place in range(REPEATS)]
        records = [Path(folder) / f"run-{place}" for place in range(REPEATS)]
        for each, where in zip(trials, records, strict=True):
            run(**each, dataset=data, worth=True, out=where, progress=False)
        for gone, site in enumerate(HONEST):
            profile.write_text("\n".join(lines[: gone + 1] + lines[gone + 2 :]) + "\n")
            real = run_batch([make_config(each) for each in trials], CustomParts(without(data, gone)))
            answers = [what_if(where, site) for where in records]
            absences.append(_absence(name, settings["method"], site, answers, real))
    return absences


def without(data: Dataset, gone: int) -> Dataset:
    kept = data.sites != gone
    assert data.sites is not None
    sites = data.sites[kept] - (data.sites[kept] > gone)
    names = HONEST[:gone] + HONEST[gone + 1 :]
    return data._replace(x=data.x[kept], y=data.y[kept], sites=sites, site_names=names)


def _absence(name: str, method: str, site: str, answers: Sequence[Any], real: Sequence[Result]) -> Row:
    foretold = np.array([(each.would.ends[-1], each.would.scores[-1]) for each in answers])
    seconds = np.array([each.summary.virtual_seconds for each in real])
    scores = np.array([each.accuracy for each in real])
    return {
        **{"table": name, "method": method, "site": site},
        **dict(zip(("seconds", "score"), foretold.mean(0), strict=True)),
        **dict(zip(("told_seconds_apart", "told_scores_apart"), foretold.std(0), strict=True)),
        **{"real_seconds": seconds.mean(), "seconds_apart": seconds.std()},
        **{"real_score": scores.mean(), "scores_apart": scores.std()},
    }


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Of ranks; values that are equal to three digits share theirs."""

    def ranks(values: Sequence[float]) -> np.ndarray[Any, Any]:
        rounded = np.round(values, 3)
        return np.array([(rounded < each).sum() + ((rounded == each).sum() - 1) / 2 for each in rounded])

    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def value_table(values: Sequence[Row]) -> Table:
    lines = []
    for some in grouped(values, "table", "method", "seed").values():
        exact, ledger = ([row[key] for row in some] for key in ("exact", "ledger"))
        error = float(np.mean(np.abs(np.subtract(exact, ledger)))) / (max(exact) - min(exact))
        named = sum(row["kind"] == TRUE_KINDS[row["site"]] for row in some)
        lines.append(some[0] | {"rank": spearman(exact, ledger), "error": error, "named": named})
    columns = {"table": "{table}", "method": "{method}", "seed": "{seed}", "rank correlation": "{rank:.2f}"}
    columns |= {"mean error / range": "{error:.3f}", "sites named right": "{named} of 5"}
    return Table(columns, lines, "The ledger against exact Shapley values")


def site_table(values: Sequence[Row]) -> Table:
    columns = {"table": "{table}", "method": "{method}", "seed": "{seed}", "site": "{site}"}
    columns |= {
        "exact": "{exact:+.3f}",
        "ledger": "{ledger:+.3f}",
        "interval": "{low:+.3f} to {high:+.3f}",
        "named": "{kind}",
    }
    return Table(columns, values, "Site by site")


def absence_table(absences: Sequence[Row]) -> Table:
    columns = {"table": "{table}", "method": "{method}", "left out": "{site}"}
    columns |= {
        "seconds foretold": "{seconds:.2f} ± {told_seconds_apart:.2f}",
        "run": "{real_seconds:.2f} ± {seconds_apart:.2f}",
    }
    columns |= {
        "score foretold": "{score:.4f} ± {told_scores_apart:.4f}",
        "score run": "{real_score:.4f} ± {scores_apart:.4f}",
    }
    return Table(columns, absences, "A site left out, foretold and run")


def draw(values: Sequence[Row]) -> "Figure":
    from matplotlib.figure import Figure

    from amsfl.report.draw import style

    figure = Figure(figsize=(style.WIDTH, 3.6), layout="constrained")
    axes = figure.subplots()
    for place, site in enumerate(SITES):
        mine = [row for row in values if row["site"] == site]
        look = style.look(place)
        axes.plot(
            [100 * row["exact"] for row in mine],
            [100 * row["ledger"] for row in mine],
            look.marker.code,
            color=look.colour,
            label=site,
        )
    ends = [100 * row[key] for row in values for key in ("exact", "ledger")]
    axes.plot([min(ends), max(ends)], [min(ends), max(ends)], color=style.INK, linewidth=0.8)
    axes.set_xlabel("points by training all coalitions")
    axes.set_ylabel("points by the ledger of one run")
    figure.legend(loc="outside upper center", ncols=len(SITES))
    return figure


if __name__ == "__main__":
    main(Settings, study)
