"""What a record says about its data and its clients, field by field; what it does not say has a default."""

from typing import Any, NamedTuple

from amsfl.record import Metrics
from amsfl.report.measure.read import Source

JUDGED, OWN = "holdout", "clients"  # the server's rows; of real clients without those, their own


class Data(NamedTuple):
    name: str
    synthetic: bool
    note: str
    classes: tuple[str, ...]
    eval_rows: dict[str, int]  # by split
    base: dict[str, dict[str, Any]]  # by split, what saying the commonest class or the mean would score


class Clients(NamedTuple):
    names: tuple[str, ...]  # of the data's sites
    step_seconds: tuple[float, ...]


def data(source: Source) -> Data:
    found = source.settings["data"]
    return Data(
        str(found["name"]),
        bool(found["synthetic"]),
        str(found.get("note") or ""),
        tuple(map(str, found.get("classes") or ())),
        dict(found.get("eval_rows") or {}),
        _base(found),
    )


def _base(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    rates = found.get("base_rate") or {}  # what records had when accuracy was all there was
    return dict(found.get("base") or {split: {"accuracy": rate} for split, rate in rates.items()})


def clients(source: Source) -> Clients:
    found = source.settings.get("clients") or {}
    return Clients(tuple(map(str, found.get("names") or ())), tuple(found.get("step_seconds") or ()))


def partition(source: Source) -> str:
    """Who holds which rows: what `auto` stands for depends on whether the data has sites."""
    named = str(source.settings["run"].get("partition", "auto"))
    if named != "auto":
        return named
    return "column" if clients(source).names else "dirichlet:0.5"


def judged(metrics: Metrics) -> Metrics:
    """Scores by split, those of the clients' own rows in the hold-out's place where a federation has none."""
    if JUDGED in metrics or OWN not in metrics:
        return metrics
    return {JUDGED: metrics[OWN]} | {split: scores for split, scores in metrics.items() if split != OWN}
