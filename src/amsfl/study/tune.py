"""A fair chance for every method: a small search of learning rate and steps before the trials.

It never sees what the trials are judged by: candidates train on one part of the training pool, are scored on
the rest of it, and have a seed that no trial has. A method's own learning rate or planned steps are not
searched, and neither is what the user has fixed.
"""

from collections.abc import Callable, Collection, Sequence
from itertools import product

from amsfl.core import UserError, nearest
from amsfl.core.records import Json, JsonMapping
from amsfl.data import Dataset
from amsfl.data.dataset import split
from amsfl.planning.planner import policy_of
from amsfl.record import RoundRecord
from amsfl.record.disk import checksum
from amsfl.simulation import CustomParts, provenance
from amsfl.simulation.api import begun, train_all, update_status
from amsfl.simulation.components import federation_of
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.trial import TrialState
from amsfl.study.settings import Study

LEVELS = ("none", "quick")
GRID = {"lr": (0.05, 0.2, 0.8), "steps": (5, 20)}
# After these parts of a trial's length so many candidates go on; the last two are told apart after a whole
# one, or a half where there is one trial to come. Of seven candidates that is 23/8 lengths, or 15/8: under
# twice the trials that it serves.
HALVINGS = ((0.125, 4), (0.25, 2))
APART = 1_000_003  # added to a study's seeds: the search's own partition, first model and sampling
LOOK_EVERY = 4  # rounds: scores of each would take longer than the training
KEPT_BACK = 0.2  # of the training pool, to score candidates by


def tune_study(
    study: Study,
    dataset: Dataset,
    level: str = "quick",
    fixed: Collection[str] = (),
    recorded: JsonMapping | None = None,
    watch: Callable[[str], None] | None = None,
) -> Study:
    """The study with the learning rate and steps that did best, and with what was searched.

    `fixed` is what the user has chosen; `recorded` what an earlier search found, which is not done again.
    """
    if level not in LEVELS:
        raise UserError(f"Unknown search level {level!r}{nearest(level, LEVELS)}; --tune is none or quick.")
    apart, seed = _apart(dataset, study.seed), (study.seed + APART) % 2**32
    rows = provenance.of_data(apart)
    methods, searched = dict(study.methods), {}
    for entry in study.methods if level == "quick" else ():
        keys = keys_to_search(study, entry, fixed)
        if not keys:
            continue
        config = study.config(entry)
        made_from = [keys, config.model_dump(), rows | provenance.of_files(config)]
        search = (recorded or {}).get(entry) or {}
        if search.get("of") != checksum(made_from):
            if watch:
                watch(entry)
            best, tried = _search(study, entry, apart, keys, seed)
            search = {"level": level, "seed": seed, "found": best, "tried": tried, "of": checksum(made_from)}
        methods[entry] = methods[entry] | search["found"]
        searched[entry] = search
    return study._replace(methods=methods, searched=searched)


def keys_to_search(study: Study, entry: str, fixed: Collection[str] = ()) -> list[str]:
    """Which of lr and steps somebody must still choose for this method."""
    config = study.config(entry)
    method = federation_of(config, CustomParts()).method
    policy = policy_of(config, method)
    plans = not policy.steps or policy.readings or policy.spends
    chosen = {"lr": method.judges or "lr" in fixed, "steps": plans or "steps" in fixed}
    return [key for key, is_chosen in chosen.items() if not is_chosen]


def _apart(dataset: Dataset, seed: int) -> Dataset:
    """The training pool alone, a part of it in the hold-out's place."""
    train, test = split(dataset.y, KEPT_BACK, seed % 2**31 + 1, dataset.sites)
    return dataset._replace(
        x=dataset.x[train],
        y=dataset.y[train],
        evals={"holdout": (dataset.x[test], dataset.y[test])},
        sites=None if dataset.sites is None else dataset.sites[train],
    )


def _search(
    study: Study, entry: str, apart: Dataset, keys: Sequence[str], seed: int
) -> tuple[Json, list[Json]]:
    """The best candidate and all that were tried, with their scores."""
    base, tried = study.config(entry), list[Json]()
    own = base.model_copy(update={"lr": base.lr or federation_of(base, CustomParts()).method.facts.lr})
    default = {key: getattr(own, key) for key in keys}  # what the study's file says goes first, then the grid
    grid = (dict(zip(keys, values, strict=True)) for values in product(*(GRID[key] for key in keys)))
    candidates = [default, *(each for each in grid if each != default)]
    quiet = {"details": "", "seed": seed, "eval_every": LOOK_EVERY * base.eval_every}
    configs = [base.model_copy(update=candidate | quiet) for candidate in candidates]
    records: list[list[RoundRecord]] = [[] for _ in candidates]
    with begun(configs, CustomParts(dataset=apart)) as (setup, left):
        for part, stay in (*HALVINGS, (min(1.0, 0.5 * study.trials), 1)):
            limits = [{what: part * most for what, most in each.items()} for each in setup.limits]
            here = setup._replace(limits=limits)
            for trial in left:  # goes on from where it was
                update_status(here, trial)
            train_all(here, left, records)
            ranks = {trial.index: _rank(setup, trial, records[trial.index]) for trial in left}
            for place, (_, gain, _) in ranks.items():
                score = setup.score.gain(gain, 0.0)  # as people know it: errors are not negative
                tried.append({**candidates[place], "part": part, setup.score.name: float(f"{score:.4g}")})
            left = sorted(left, key=lambda trial: ranks[trial.index], reverse=True)[:stay]
    return candidates[left[0].index], tried


def _rank(setup: RunSetup, trial: TrialState, records: list[RoundRecord]) -> tuple[float, float, float]:
    """Sooner at the target, then better towards the end, then a smaller loss: larger is better."""
    config, which = setup.config, setup.score
    scored = [(r.seconds[config.clock], r.metrics["holdout"]) for r in records if "holdout" in r.metrics]
    late = [scores for _, scores in scored[len(scored) // 2 :]]
    values = [value for scores in late if (value := which.of(scores)) is not None]
    if trial.status == "diverged" or not values:
        return -float("inf"), 0.0, -float("inf")
    gain = which.gain(sum(values) / len(values), 0.0)
    reached = [when for when, scores in scored if which.met(scores, config.target)]
    return -reached[0] if reached else -1e12, gain, -late[-1]["loss"]
