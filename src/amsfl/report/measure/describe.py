"""From sources to the subject of a report: what they have in common, and how they differ."""

from amsfl.core import UserError
from amsfl.core.records import JsonMapping
from amsfl.core.score_names import check_target
from amsfl.core.scores import recorded_score
from amsfl.report.measure.measures import MeasuredSeries, measure
from amsfl.report.measure.notes import notes
from amsfl.report.measure.read import DataFacts, ReportSource, Series
from amsfl.report.measure.subject import Subject
from amsfl.report.measure.text import differing, distinct, shown

# settings that make results incomparable: no method wins across them
PROTOCOL = {
    "label": "label column",
    "client_column": "client column",
    "task": "task",
    "binary": "classes",
    "clients": "number of clients",
    "profile": "client speeds",
}


def describe(sources: list[ReportSource], target: float | None = None, score: str | None = None) -> Subject:
    """The subject of all the sources; `target` and `score` in place of their own."""
    first, data = sources[0], [source.data for source in sources]
    series = [one for source in sources for one in source.series if one.trials]
    own_score = series[0].trials[0].summary.score
    judge = recorded_score(score or own_score, data[0].classes)
    own_target = series[0].settings.get("target") if judge.name == own_score else None
    try:
        goal = own_target if target is None else check_target(judge.name, target)
    except UserError as why:
        raise UserError(f"The target is {target:g}: {why}.") from None
    clocks = sorted({trial.summary.clock for one in series for trial in one.trials})
    if len(clocks) > 1:
        raise UserError(f"The runs have different clocks ({', '.join(clocks)}) and share no time axis.")
    clients_are_sites = first.partition in ("column", "site")
    budgets = [one.settings.get("seconds") for one in series]
    methods = _placed([measure(one, judge, goal) for one in series], [source.reference for source in sources])
    if score and not any(one.numbers(judge.measure("holdout")) for one in methods):
        raise UserError(f"No {judge.title} is on record here; ask for a score that is, as in --target 0.9.")
    differences = _differences(sources, series, target)
    banners = [
        shown(facts.note or f"Synthetic data ({facts.name}): generated, not measured.")
        for facts in data
        if facts.synthetic
    ]
    base = {split: value for split, row in data[0].base.items() if (value := judge.of(row)) is not None}
    subject = Subject(
        title=f"{len(sources)} records side by side" if len(sources) > 1 else shown(first.title),
        methods=methods,
        reference=next(one for one in methods if one.place == 0),
        target=goal,
        clock=clocks[0],
        seconds=max(filter(None, budgets)) if all(budgets) else None,
        data=", ".join(dict.fromkeys(shown(facts.name) for facts in data)),
        synthetic=bool(banners),
        banner=" ".join(dict.fromkeys(banners)),
        differences=differences,
        notes=[],
        classes=_classes(data, methods),
        paper=first.kind == "reproduce" and len(sources) == 1,
        step_seconds=() if differences else first.step_seconds,
        names=distinct(first.client_names) if clients_are_sites and not differences else [],
        base={} if differences else base,
        score=judge,
        own_rows=not any("holdout" in trial.summary.metrics for one in series for trial in one.trials),
        rows=data[0].eval_rows.get("holdout", 0),
    )
    return subject._replace(notes=notes(subject))


def _placed(methods: list[MeasuredSeries], references: list[str]) -> list[MeasuredSeries]:
    """Places for colours: the reference is 0, the others follow in their order."""
    keys = [one.series.key for one in methods]
    first = next((keys.index(key) for key in references if key in keys), 0)
    order = sorted(range(len(methods)), key=lambda place: (place != first, place))
    return [one._replace(place=order.index(place)) for place, one in enumerate(methods)]


def _classes(data: list[DataFacts], methods: list[MeasuredSeries]) -> list[str]:
    named: tuple[str, ...] = next((facts.classes for facts in data if facts.classes), ())
    count = sum(name.startswith("recall_holdout_") for name in methods[0].values[0])
    return distinct(named) if len(named) == count else [f"class {i}" for i in range(count)]


def _differences(sources: list[ReportSource], series: list[Series], target: float | None) -> list[str]:
    """What makes the records no comparison, as in `data: digits; nslkdd`; empty where they are one.

    `target` is one for all: their own targets do not matter then.
    """
    data = [source.data for source in sources]
    columns: list[tuple[str, list[object]]] = [
        ("data", [facts.name for facts in data]),
        ("rows judged on", [", ".join(f"{split} {n}" for split, n in f.eval_rows.items()) for f in data]),
        ("classes", [", ".join(facts.classes) for facts in data]),
        ("target", [one.settings.get("target") if target is None else None for one in series]),
        ("score", [one.trials[0].summary.score for one in series]),
        *((title, [one.settings.get(key) for one in series]) for key, title in PROTOCOL.items()),
        ("when they end", [_end(one.settings) for one in series]),
        ("partition", [source.partition for source in sources]),
    ]
    texts = [text for title, values in columns for text in differing(title, values)]
    if not set.intersection(*({trial.seed for trial in one.trials} for one in series)):
        texts.append("seeds: no trial of one has the partition and first model of a trial of every other")
    return texts


def _end(settings: JsonMapping) -> str:
    """As in `after 100 virtual seconds or at 89%`."""
    seconds, rounds, target = (settings.get(key) for key in ("seconds", "rounds", "target"))
    ends = [f"after {seconds:g} virtual seconds"] if seconds else []
    ends += [f"after {rounds} rounds"] if rounds else []
    score = settings.get("score") or "accuracy"
    goal = f"{100 * target:g}%" if target and score == "accuracy" else f"{score} {target}"
    ends += [f"at {goal}"] if target and settings.get("stop_at_target") else []
    return " or ".join(ends) or "as it is"
