"""The subject of a report: its methods, the data frames of their trials, and what must be known of them."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from amsfl.core import Score, UserError
from amsfl.core.records import Json
from amsfl.core.scores import NUMBERS, check_target, recorded_score
from amsfl.record import StudyRecord
from amsfl.report import read
from amsfl.report.read import ReportedMethod, differing, listed, plural, shown
from amsfl.report.statistics import (
    SURE,
    Interval,
    chance_margin,
    constant_score,
    holm,
    interval,
    p_value,
    ratio,
)

NEAR = 0.95  # of the way from the base rate to the best end: what times are to where nobody set a target
SPLITS = {"holdout": "hold-out", "test": "test split"}
SHARES = ("accuracy", "macro_", "ece", *read.BY_CLASS)
# settings that make results incomparable
PROTOCOL = {
    "target": "target",
    "label": "label column",
    "client_column": "client column",
    "task": "task",
    "clients": "number of clients",
    "profile": "client speeds",
    "seconds": "virtual seconds",
    "rounds": "rounds",
    "stop_at_target": "whether they stop at the target",
}


class Comparison(NamedTuple):
    title: str
    methods: dict[str, ReportedMethod]  # by key, in the study's order; the reference has the first colour
    reference: str  # the key of the method that the others are compared with
    trials: pd.DataFrame
    rounds: pd.DataFrame
    work: pd.DataFrame
    tests: pd.DataFrame  # by key: the reference against each other method
    score: Score  # of every sentence, curve, table and target
    target: float | None
    in_hindsight: bool  # whether the target was not set but made of the results
    clock: str
    budget: float | None  # virtual seconds that every trial ran; None where rounds ended some before
    data: str
    banner: str  # for synthetic data
    differences: list[str]  # between records where they are no comparison; then no method is best
    splits: dict[str, str]  # evaluation splits and their titles
    classes: list[str]
    client_names: list[str]  # where the data has them
    step_seconds: tuple[float, ...]  # of every client
    base: dict[str, float]  # by split: the score of always predicting the commonest class, or the mean
    margin: float  # above the base rate, what chance explains
    paper: bool  # the paper's numbers belong beside these

    def label(self, key: str) -> str:
        return self.methods[key].label

    def place(self, key: str) -> int:
        """Of its colour and marker; the reference's is 0."""
        return [self.reference, *(each for each in self.methods if each != self.reference)].index(key)

    def numbers(self, key: str, name: str) -> "pd.Series[float]":
        """A measure's values, of the trials that have it, by seed."""
        if name not in self.trials:
            return pd.Series(dtype=float)
        # numpy's, since pandas takes a millisecond to choose rows, and a report asks a thousand times
        of, values, seeds = (self.trials[column].to_numpy() for column in ("method", name, "seed"))
        mine = pd.Series(values[of == key].astype(float), seeds[of == key])
        return mine[mine.notna().to_numpy()]

    def mean(self, key: str, name: str) -> float:
        return float(self.numbers(key, name).mean())

    def interval(self, key: str, name: str) -> Interval:
        """Shares lie between 0 and 1, R² below 1; errors, times and counts have no upper end."""
        share, r2 = name.startswith(SHARES), name.startswith("r2")
        values = self.numbers(key, name).tolist()
        return interval(values, -math.inf if r2 else 0.0, 1.0 if share or r2 else math.inf)

    def reached(self, key: str) -> bool:
        """Whether every trial did reach the target."""
        return bool(self.numbers(key, "reached").all())

    def diverged(self, key: str) -> int:
        """Trials whose model stopped being finite."""
        return sum(trial.summary.status == "diverged" for trial in self.methods[key].trials)

    def sure(self, key: str, measure: str) -> int:
        """1 where the reference is surely better than this method by a measure of the tests, -1 where it is
        surely worse, else 0."""
        if f"{measure}_p" not in self.tests or not self.tests.loc[key, f"{measure}_p"] < SURE:
            return 0
        return 1 if self.tests.loc[key, measure] > (1 if measure == "speedup" else 0) else -1

    def client(self, number: int) -> str:
        """A client's name, from 0 up."""
        return self.client_names[number] if number < len(self.client_names) else f"C{number + 1}"

    @property
    def final(self) -> str:
        """The measure that methods are judged by at the end."""
        return self.score.measure("holdout")

    @property
    def goal(self) -> str:
        target = self.target or 0
        return f"{100 * target:g}%" if self.score.name == "accuracy" else f"{self.score.short} {target:g}"

    @property
    def is_regression(self) -> bool:
        return self.score.name in NUMBERS

    @property
    def base_name(self) -> str:
        """What the base predicts every time."""
        return "the mean" if self.is_regression else "the commonest class"

    @property
    def able(self) -> list[str]:
        """Methods that end better than the base rate by more than chance, and not always in nothing."""
        ends = {key: self.mean(key, self.final) for key in self.methods}
        base = self.base.get("holdout")
        return [
            key
            for key, end in ends.items()
            if self.diverged(key) < len(self.methods[key].trials)
            and not math.isnan(end)
            and (base is None or self.score.gain(end, base) > self.margin)
        ]


def compare(sources: list[StudyRecord], target: float | None = None, score: str | None = None) -> Comparison:
    """What all the sources come to; `target` and `score` in place of their own."""
    methods = {one.key: one for one in read.methods(sources)}
    each = list(methods.values())
    clocks = sorted({trial.summary.clock for one in each for trial in one.trials})
    if len(clocks) > 1:
        raise UserError(f"The runs have different clocks ({', '.join(clocks)}) and share no time axis.")
    settings, own = sources[0].settings, each[0]
    data, ended = settings["data"], own.trials[0].summary
    judge = recorded_score(score or ended.score, data.get("classes") or ())
    trials = pd.DataFrame(row for one in each for row in read.trial_rows(one, judge))
    if score and (judge.measure("holdout") not in trials or trials[judge.measure("holdout")].isna().all()):
        raise UserError(f"No {judge.title} is on record here; ask for a score that is, as in --target 0.9.")
    reference = settings["reference"] + (f"@{sources[0].folder}" if len(sources) > 1 else "")
    nslkdd = data["name"] == "nslkdd"
    base = {split: constant_score(judge, data, split) for split in SPLITS}
    clients = settings.get("clients") or {}
    about = shown(str(data.get("note") or f"Synthetic data ({data['name']}): generated, not measured."))
    c = Comparison(
        title="",
        methods=methods,
        reference=reference if reference in methods else own.key,
        trials=trials,
        rounds=pd.DataFrame(row for one in each for row in read.round_rows(one, judge, SPLITS)),
        work=pd.DataFrame((row for one in each for row in read.client_rows(one)), columns=[*read.WORK]),
        tests=pd.DataFrame(),
        score=judge,
        target=own.settings.get("target") if judge.name == ended.score else None,
        in_hindsight=False,
        clock=ended.clock,
        budget=_budget(each, trials, ended.clock),
        data="NSL-KDD" if nslkdd else shown(str(data["name"])),
        banner=about if data["synthetic"] else "",
        differences=_differences(sources, each, target),
        splits=_splits(trials, judge, nslkdd, "holdout" in ended.metrics),
        classes=_classes(data.get("classes") or (), trials),
        client_names=[*map(shown, clients.get("names") or ())]
        if _partition(settings) in ("column", "site")
        else [],
        step_seconds=tuple(clients.get("step_seconds") or ()),
        base={split: value for split, value in base.items() if value is not None},
        margin=chance_margin(
            judge,
            base.get("holdout") or 0.0,
            (data.get("eval_rows") or {}).get("holdout", 0),
            own.trials[0].summary.details,
        ),
        paper=settings["kind"] == "reproduce" and len(sources) == 1 and nslkdd,
    )
    c = c._replace(title=_title(c, sources))
    if target is not None:
        c = c._replace(target=_checked(judge, target))
    elif c.target is None and not c.differences:
        c = c._replace(target=_near_best(c), in_hindsight=True)
    c = c._replace(trials=pd.concat([trials, _to_target(c)], axis=1))
    return c if c.differences else c._replace(tests=_tests(c))


def _differences(
    sources: list[StudyRecord], methods: Iterable[ReportedMethod], target: float | None
) -> list[str]:
    """What makes the records no comparison, as in `data: digits; nslkdd`; empty where they are one.

    With one `target` for all, their own do not matter.
    """
    own, data = [one.settings for one in methods], [source.settings["data"] for source in sources]
    columns: list[tuple[str, list[object]]] = [
        ("data", [each["name"] for each in data]),
        ("rows judged on", [each.get("eval_rows") for each in data]),
        ("classes", [each.get("classes") for each in data]),
        ("score", [one.trials[0].summary.score for one in methods]),
        ("partition", [_partition(source.settings) for source in sources]),
        *((title, [each.get(key) or "none" for each in own]) for key, title in PROTOCOL.items()),
    ]
    columns = [column for column in columns if column[0] != "target" or target is None]
    texts = [text for title, values in columns for text in differing(title, values)]
    if not set.intersection(*({trial.seed for trial in one.trials} for one in methods)):
        texts.append("seeds: no trial of one has the partition and first model of a trial of every other")
    return texts


def _partition(settings: Json) -> str:
    """How rows were dealt to clients; `auto` depends on whether the data has sites."""
    named = str(settings["run"].get("partition", "auto"))
    sites = (settings.get("clients") or {}).get("names")
    return named if named != "auto" else "column" if sites else "dirichlet:0.5"


def _budget(methods: Iterable[ReportedMethod], trials: pd.DataFrame, clock: str) -> float | None:
    asked = [one.settings.get("seconds") or math.inf for one in methods]
    ran = (trials[f"seconds_{clock}"] >= max(asked)) | (trials["status"] == "diverged")
    return float(max(asked)) if ran.all() else None


def _splits(trials: pd.DataFrame, score: Score, nslkdd: bool, held: bool) -> dict[str, str]:
    splits = {"holdout": SPLITS["holdout"] if held else "clients' own rows"}
    if score.measure("test") in trials and trials[score.measure("test")].notna().any():
        splits["test"] = "KDDTest+" if nslkdd else SPLITS["test"]
    return splits


def _classes(named: Sequence[str], trials: pd.DataFrame) -> list[str]:
    count = sum(str(name).startswith("recall_holdout_") for name in trials)
    return [*map(shown, named)] if len(named) == count else [f"class {place}" for place in range(count)]


def _title(c: Comparison, sources: list[StudyRecord]) -> str:
    """The study's own, or what it has: methods and data."""
    settings = sources[0].settings
    if len(sources) == 1 and settings.get("title"):
        return shown(settings["title"])
    if settings["kind"] == "reproduce":
        return f"The paper's comparison on {c.data}"
    labels = [one.label for one in c.methods.values()]
    return f"{listed(labels) if len(labels) < 5 else plural(len(labels), 'method').capitalize()} on {c.data}"


def _checked(score: Score, target: float) -> float:
    try:
        return check_target(score.name, target)
    except UserError as why:
        raise UserError(f"The target is {target:g}: {why}.") from None


def _near_best(c: Comparison) -> float | None:
    """Most of the way to the best end, rounded towards the base rate."""
    ends = [end for key in c.methods if not math.isnan(end := c.mean(key, c.final))]
    base = c.base.get("holdout", 0.0 if c.score.larger else math.nan)
    best = max(ends, key=lambda end: c.score.gain(end, 0.0), default=math.nan)
    if not c.score.gain(best, base) > 0:
        return None
    level = base + NEAR * (best - base)
    unit = 1e-3 if c.score.most == 1 else 10.0 ** (math.floor(math.log10(level)) - 2)
    return float(f"{(math.floor if c.score.larger else math.ceil)(level / unit) * unit:.6g}")


def _to_target(c: Comparison) -> pd.DataFrame:
    """By trial: when it reached the target; `least_*` has what was spent where it did not.

    A trial that diverged ended early, and counts with the time and rounds that it was given.
    """
    if c.target is None:
        return pd.DataFrame(index=c.trials.index)
    rows, by_trial = list[Json](), dict(tuple(c.rounds.groupby(["method", "trial"])))
    for method, trial, status in c.trials[["method", "trial", "status"]].itertuples(index=False):
        ran = by_trial[method, trial]
        hits = ran[c.score.gain(ran["holdout"].astype(float), c.target) >= 0]
        at, given = (hits.iloc[0], 1.0) if len(hits) else (ran.iloc[-1], 1.0)
        if status == "diverged" and not len(hits):
            settings, used = c.methods[method].settings, (at[c.clock], at["round"])
            ends = zip((settings.get("seconds"), settings.get("rounds")), used, strict=True)
            given = max(1.0, min((end / ran_for for end, ran_for in ends if end and ran_for), default=1.0))
        rows.append(
            {
                "reached": bool(len(hits)),
                "least_seconds": at[c.clock] * given,
                "least_rounds": at["round"] * given,
                "least_joules": at["joules"],
                "round_seconds_to": at[c.clock] / at["round"] if len(hits) else math.nan,
            }
        )
    return pd.DataFrame(rows, index=c.trials.index)


def _tests(c: Comparison) -> pd.DataFrame:
    """By other method: its time to the target over the reference's, and points by which it ends lower.

    Trials are paired by seed: the same partition, first model and sampling. p is Holm's, over all others.
    """
    others = [key for key in c.methods if key != c.reference]
    table = pd.DataFrame(index=pd.Index(others, name="method"))
    if others and c.target is not None:
        times = [_paired_times(c, key) for key in others]
        logs = [[math.log(b / a) for a, b in zip(*two, strict=True)] for two in times]
        _add(table, "speedup", [ratio(b, a) for a, b in times], logs)
        table["least"] = [c.reached(c.reference) and not c.reached(key) for key in others]
    for split in c.splits if others else ():
        pairs = [_pairs(c, key, c.score.measure(split)) for key in others]
        unit = 100 if c.score.most == 1 else 1
        gains = [[unit * c.score.gain(a, b) for a, b in two.itertuples(index=False)] for two in pairs]
        _add(table, "gain" if split == "holdout" else f"gain_{split}", list(map(interval, gains)), gains)
    return table


def _add(table: pd.DataFrame, name: str, means: list[Interval], samples: list[list[float]]) -> None:
    table[[name, f"{name}_low", f"{name}_high"]] = means
    table[f"{name}_p"] = holm([p_value(each) for each in samples])


def _pairs(c: Comparison, other: str, name: str) -> pd.DataFrame:
    """The reference's values and the other's, of the seeds that both have."""
    return pd.DataFrame({"a": c.numbers(c.reference, name), "b": c.numbers(other, name)}).dropna()


def _paired_times(c: Comparison, other: str) -> tuple[list[float], list[float]]:
    """Of pairs in which somebody reached the target. Who missed it took at least as long as it ran, and
    nothing says that it was sooner than the other: it counts with the longer time."""
    hits = _pairs(c, other, "reached").astype(bool)
    times = _pairs(c, other, "least_seconds")[hits["a"] | hits["b"]]
    counted = times.where(hits, times.max(axis=1), axis=0)
    return counted["a"].tolist(), counted["b"].tolist()
