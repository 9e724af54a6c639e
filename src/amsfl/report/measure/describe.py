"""From sources to the subject of a report: what they have in common, and what must be said about them."""

from typing import Any

from amsfl.core import UserError
from amsfl.report.measure import curves
from amsfl.report.measure.measures import Measured, measure
from amsfl.report.measure.read import Series, Source
from amsfl.report.measure.subject import Study

EQUAL_STEPS = "With equal steps for all clients, as here, FedNova is FedAvg up to rounding."


def describe(sources: list[Source], target: float | None = None) -> Study:
    """What all the sources have in common, and their series."""
    first = sources[0]
    shown = [series for source in sources for series in source.series if series.trials]
    settings = shown[0].settings
    goal = target if target is not None else settings.get("target")
    found = [measure(series, goal) for series in shown]
    clocks = {series.settings["clock"] for series in shown}
    if len(clocks) > 1:
        raise UserError(
            f"The runs have different clocks ({', '.join(sorted(clocks))}) and share no time axis."
        )
    data = [source.settings["data"] for source in sources]
    names = list(dict.fromkeys(entry["name"] for entry in data))
    seconds = [series.settings.get("seconds") for series in shown]
    several = len(sources) > 1
    return Study(
        title=f"{len(sources)} records side by side" if several else first.title,
        found=found,
        reference=_reference(found, [source.reference for source in sources]),
        target=goal,
        clock=clocks.pop(),
        seconds=max(filter(None, seconds)) if all(seconds) else None,
        data=names[0] if len(names) == 1 else ", ".join(names),
        synthetic=any(entry["synthetic"] for entry in data),
        banner=" ".join(dict.fromkeys(_banner(entry) for entry in data if entry["synthetic"])),
        notes=_notes(shown),
        classes=_classes(data, found),
        paper=first.kind == "reproduce" and not several,
        step_seconds=first.settings.get("clients", {}).get("step_seconds", []),
    )


def _reference(found: list[Measured], wanted: list[str]) -> Measured:
    keys = {one.series.key: one for one in found}
    return next((keys[key] for key in wanted if key in keys), found[0])


def _banner(data: dict[str, Any]) -> str:
    return data["note"] or f"Synthetic data ({data['name']}): generated, not measured."


def _notes(shown: list[Series]) -> list[str]:
    """What a reader of the comparison must know; notes of single methods are their own."""
    equal = [s for s in shown if s.method == "fednova" and not curves.plans(s)]
    fedavg = any(series.method == "fedavg" for series in shown)
    return [*_diverged(shown), *([EQUAL_STEPS] if equal and fedavg else []), *_rates(shown)]


def _diverged(shown: list[Series]) -> list[str]:
    lost = [f"{s.label} in {s.diverged} of {len(s.trials)} trials" for s in shown if s.diverged]
    return [f"Diverged, the model no longer finite: {', '.join(lost)}."] if lost else []


def _rates(shown: list[Series]) -> list[str]:
    """Learning rates decide as much as steps do: say who chose them, and what the others had."""
    spans = {series.label: (min(rates), max(rates)) for series in shown if (rates := _lr(series))}
    free = {label: span for label, span in spans.items() if span[0] != span[1]}
    if not free:
        return []
    chosen = "; ".join(f"{label} between {low:.2g} and {high:.2g}" for label, (low, high) in free.items())
    kept = sorted({low for label, (low, _) in spans.items() if label not in free})
    others = f" The others keep theirs: {', '.join(f'{rate:g}' for rate in kept)}." if kept else ""
    return [f"Learning rates are part of what is compared. Chosen from round to round: {chosen}.{others}"]


def _lr(series: Series) -> list[float]:
    # 0 stands for "not known yet": each client caps its first round by its own first minibatch
    return [record["lr"] for trial in series.trials for record in trial.rounds if record["lr"]]


def _classes(data: list[dict[str, Any]], found: list[Measured]) -> list[str]:
    named = next((entry["classes"] for entry in data if entry.get("classes")), None)
    scores = found[0].series.trials[0].summary["metrics"]["holdout"]["recall"]
    return list(named) if named and len(named) == len(scores) else [f"class {i}" for i in range(len(scores))]
