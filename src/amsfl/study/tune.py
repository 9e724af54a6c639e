"""A fair chance for every method: a small search of learning rate and steps before the trials.

It never sees what the trials are judged by: candidates train on one part of the training pool, are scored on
the rest of it, and have a seed that no trial has. A method's own learning rate or planned steps are not
searched, and neither is what the user has fixed.
"""

from collections.abc import Callable, Collection, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from amsfl.core import UserError, nearest
from amsfl.core.records import Json, JsonMapping
from amsfl.data import Dataset
from amsfl.data.dataset import split
from amsfl.planning.planner import policy_of
from amsfl.record.sealed_text import checksum
from amsfl.simulation import Result, RunConfig, provenance, run_batch
from amsfl.simulation.components import method_of
from amsfl.study.settings import Study

APART = 1_000_003  # added to a study's seeds: the search's own partition, first model and sampling
KEPT_BACK = 0.2  # of the training pool, to score candidates by


class Search(NamedTuple):
    """Every candidate for `first` of a trial's length, then the best ones for `second` of it."""

    rates: tuple[float, ...]
    steps: tuple[int, ...]
    first: float
    finalists: int
    second: float


SEARCHES = {
    "quick": Search((0.05, 0.2, 0.8), (5, 20), 0.25, 2, 1.0),
    "full": Search((0.01, 0.05, 0.2, 0.5, 1.0), (2, 5, 10, 20, 50), 1.0, 3, 1.0),
}
LEVELS = ("none", *SEARCHES)
Watch = Callable[[str], None]


def tune_study(
    study: Study,
    dataset: Dataset,
    level: str = "quick",
    fixed: Collection[str] = (),
    recorded: JsonMapping | None = None,
    watch: Watch | None = None,
) -> Study:
    """The study with the learning rate and steps that did best, and with what was searched.

    `fixed` is what the user has chosen; `recorded` what an earlier search found, which is not done again.
    """
    if level not in LEVELS:
        raise UserError(f"Unknown search level {level!r}{nearest(level, LEVELS)}.")
    if level == "none":
        return study
    apart = _apart(dataset, study.seed)
    rows = provenance.of_data(apart)
    methods, searched = dict(study.methods), {}
    for entry in study.methods:
        keys = keys_to_search(study, entry, fixed)
        if not keys:
            continue
        config = study.config(entry)
        files = provenance.of_files(config)
        sign = checksum([level, keys, config.model_dump(exclude={"data_dir"}), rows | files])
        search = (recorded or {}).get(entry) or {}
        if search.get("of") != sign:
            if watch:
                watch(entry)
            best, tried = _searched(study, entry, apart, keys, _within(SEARCHES[level], study.trials, level))
            search = {"level": level, "seed": _seed(study), "found": best, "tried": tried, "of": sign}
        methods[entry] = methods[entry] | search["found"]
        searched[entry] = search
    return study._replace(methods=methods, searched=searched)


def keys_to_search(study: Study, entry: str, fixed: Collection[str] = ()) -> list[str]:
    """Which of lr and steps somebody must still choose for this method."""
    config, own = study.config(entry), study.own(entry)
    method = method_of(config, own)
    policy = policy_of(config, method, own.policy)
    plans = not policy.steps or policy.readings or policy.losses or policy.spends
    chosen = {"lr": method.facts.own_rate or "lr" in fixed, "steps": plans or "steps" in fixed}
    return [key for key, is_chosen in chosen.items() if not is_chosen]


def _within(search: Search, trials: int, level: str) -> Search:
    """Shorter where trials are few: a quick search costs less than twice the trials it serves."""
    if level == "full":
        return search
    most = trials / (1 + len(search.rates) * len(search.steps))
    return search._replace(first=min(search.first, most), second=min(search.second, 0.4 * trials))


def search_cost(study: Study, level: str, fixed: Collection[str] = ()) -> float:
    """How many trials' work the search is, at most."""
    if level not in SEARCHES:
        return 0.0
    search = _within(SEARCHES[level], study.trials, level)
    sizes = {"lr": len(search.rates), "steps": len(search.steps)}
    searched = filter(None, (keys_to_search(study, entry, fixed) for entry in study.methods))
    candidates = [1 + prod(sizes[key] for key in keys) for keys in searched]
    return sum(many * search.first + search.finalists * search.second for many in candidates)


def _seed(study: Study) -> int:
    return (study.seed + APART) % 2**32


def _apart(dataset: Dataset, seed: int) -> Dataset:
    """The training pool alone, a part of it in the hold-out's place."""
    train, test = split(dataset.y, KEPT_BACK, seed % 2**31 + 1, dataset.sites)
    return dataset._replace(
        x=dataset.x[train],
        y=dataset.y[train],
        evals={"holdout": (dataset.x[test], dataset.y[test])},
        sites=None if dataset.sites is None else dataset.sites[train],
    )


def _searched(
    study: Study, entry: str, apart: Dataset, keys: Sequence[str], search: Search
) -> tuple[Json, list[Json]]:
    """The best candidate and all that were tried, with their scores; what the file says is among them."""
    base = study.config(entry)
    grid = {"lr": search.rates, "steps": search.steps}
    candidates = [dict(zip(keys, values, strict=True)) for values in product(*(grid[key] for key in keys))]
    default = {key: getattr(base, key) for key in keys}
    candidates = [default, *(each for each in candidates if each != default)]
    tried: list[Json] = []
    for part, many in ((search.first, search.finalists), (search.second, 1)):
        results = run_batch(
            [_config(base, each, _seed(study), part) for each in candidates],
            study.own(entry)._replace(dataset=apart),
        )
        scores = [score(result, base.target, base.clock) for result in results]
        which = results[0].parts.score
        tried += [
            # a gain back to the score as people know it: errors are not negative
            {**each, "part": part, which.name: float(f"{which.gain(gain, 0.0):.4g}")}
            for each, (_, gain, _) in zip(candidates, scores, strict=True)
        ]
        order = sorted(range(len(candidates)), key=lambda place: scores[place], reverse=True)
        candidates = [candidates[place] for place in order[:many]]
    return candidates[0], tried


def _config(base: RunConfig, candidate: JsonMapping, seed: int, part: float) -> RunConfig:
    """A shorter trial: by seconds where the study ends by them, else by rounds."""
    end: Json = {"seconds": base.seconds and base.seconds * part}
    if base.rounds is not None:
        end["rounds"] = max(1, round(base.rounds * part))
    quiet = {"local_accuracy": False, "readings": False, "details": False, "seed": seed}
    return base.model_copy(update={**candidate, **end, **quiet})


def score(result: Result, target: float | None, clock: str) -> tuple[float, float, float]:
    """Sooner at the target, then better towards the end, then a smaller loss: larger is better."""
    scored = [(r.seconds[clock], r.metrics["holdout"]) for r in result.rounds if "holdout" in r.metrics]
    late = [scores for _, scores in scored[len(scored) // 2 :]]
    which = result.parts.score
    values = [value for scores in late if (value := which.of(scores)) is not None]
    if result.summary.status == "diverged" or not values:
        return -float("inf"), 0.0, -float("inf")
    gain = which.gain(sum(values) / len(values), 0.0)
    reached = [when for when, scores in scored if which.met(scores, target)]
    return -reached[0] if reached else -1e12, gain, -late[-1]["loss"]
