"""From sources to the subject of a report: what they have in common, and what must be said about them."""

from amsfl.core import Score, UserError
from amsfl.core.scores import check_target, recorded
from amsfl.report.measure import about, comparable
from amsfl.report.measure.measures import Measured, measure
from amsfl.report.measure.notes import notes
from amsfl.report.measure.read import Series, Source
from amsfl.report.measure.subject import Study
from amsfl.report.measure.text import distinct, shown


def describe(sources: list[Source], target: float | None = None, score: str | None = None) -> Study:
    """What all the sources have in common, and their series; `target` and `score` in place of their own."""
    first, several = sources[0], len(sources) > 1
    series = [one for source in sources for one in source.series if one.trials]
    data = [about.data(source) for source in sources]
    told = recorded(score or series[0].trials[0].summary.score, data[0].classes)
    asked = target if target is None else _checked(told, target)
    own = series[0].settings.get("target") if told.name == series[0].trials[0].summary.score else None
    goal = asked if asked is not None else own
    names = list(dict.fromkeys(shown(entry.name) for entry in data))
    seconds = [one.settings.get("seconds") for one in series]
    found = _placed([measure(one, told, goal) for one in series], [source.reference for source in sources])
    unlike = comparable.differences(sources, target)
    study = Study(
        title=f"{len(sources)} records side by side" if several else shown(first.title),
        found=found,
        reference=next(one for one in found if one.place == 0),
        target=goal,
        clock=_clock(series),
        seconds=max(filter(None, seconds)) if all(seconds) else None,
        data=", ".join(names),
        synthetic=any(entry.synthetic for entry in data),
        banner=" ".join(dict.fromkeys(_banner(entry) for entry in data if entry.synthetic)),
        unlike=unlike,
        notes=[],
        classes=_classes(data, found),
        paper=first.kind == "reproduce" and not several,
        step_seconds=() if unlike else about.clients(first).step_seconds,
        names=[] if unlike else _names(first),
        base={} if unlike else _base(told, data[0]),
        score=told,
        own_rows=not any("holdout" in trial.summary.metrics for one in series for trial in one.trials),
    )
    return study._replace(notes=notes(study))


def _checked(score: Score, target: float) -> float:
    try:
        return check_target(score.name, target)
    except UserError as why:
        raise UserError(f"The target is {target:g}: {why}.") from None


def _base(score: Score, data: about.Data) -> dict[str, float]:
    found = {split: score.of(scores) for split, scores in data.base.items()}
    return {split: value for split, value in found.items() if value is not None}


def _clock(series: list[Series]) -> str:
    clocks = sorted({trial.summary.clock for one in series for trial in one.trials})
    if len(clocks) > 1:
        raise UserError(f"The runs have different clocks ({', '.join(clocks)}) and share no time axis.")
    return clocks[0]


def _placed(found: list[Measured], wanted: list[str]) -> list[Measured]:
    """Places for colours: the reference is 0, the others follow in their order."""
    keys = [one.series.key for one in found]
    first = next((keys.index(key) for key in wanted if key in keys), 0)
    order = sorted(range(len(found)), key=lambda place: (place != first, place))
    return [one._replace(place=order.index(place)) for place, one in enumerate(found)]


def _names(source: Source) -> list[str]:
    """Clients have the names of the data's sites where they are those sites."""
    return distinct(about.clients(source).names) if about.partition(source) in ("column", "site") else []


def _banner(data: about.Data) -> str:
    return shown(data.note or f"Synthetic data ({data.name}): generated, not measured.")


def _classes(data: list[about.Data], found: list[Measured]) -> list[str]:
    named: tuple[str, ...] = next((entry.classes for entry in data if entry.classes), ())
    count = sum(name.startswith("recall_holdout_") for name in found[0].values[0])
    return distinct(named) if len(named) == count else [f"class {i}" for i in range(count)]
