"""Whether settings go together, with their method, clock, clients and data; and what is worth a line first.

How rounds end, what happens to clients on their way, privacy; settings that were given and have no effect.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from amsfl import clock
from amsfl.clock import Profile, RoundEnd
from amsfl.core import UserError, listed, nearest
from amsfl.core.records import Array
from amsfl.methods import Federation, Method
from amsfl.planning import Policy
from amsfl.privacy import MECHANISMS, RECORD_LEVEL, Ledger, Mechanism
from amsfl.settings.definitions import ROUNDS_TO_TARGET, RunConfig, Training


def conditions_of(config: RunConfig, profile: Profile, names: Sequence[str]) -> clock.ClientConditions | None:
    """What happens to clients on their way, if the clock can tell; None: nothing."""
    conditions = clock.client_conditions(
        profile, config.seed, config.availability, config.jitter, config.failure, names
    )
    if conditions is None:
        return None
    if conditions.window is not None and config.clock != "makespan":
        raise UserError(
            "Clients that come and go work side by side, not one after another; add --clock makespan."
        )
    if "models" in config.details:
        raise UserError("Clients' own models are scored where all come in; leave models out of --details.")
    return conditions


def whole_rounds(config: RunConfig, method: Method) -> bool:
    """Whether all come in every round, on the newest model, not in private: then their own are scored."""
    quiet = config.model_copy(update={"details": ""})
    end = round_end_of(quiet, method, config.cohort or config.clients)
    calm = config.availability == "always" and not config.jitter and not config.failure
    if calm and config.profile.endswith(".csv"):
        columns = clock.read_sites(Path(config.profile)).columns
        calm = not {"jitter", "failure", "on_seconds", "epsilon"} & {*columns}
    return end.waits_for_all and calm and mechanism_of(config) is None


def check_everyone(method: Method, end: RoundEnd, cohort: int, clients: int) -> None:
    """Some methods count on all clients, where those who come do not stand for the others."""
    if method.facts.all_clients and end.overlap and cohort < clients:
        raise UserError(
            f"{method.title} counts every upload by its share of all clients' data, so all of "
            f"them must be under way, and the cohort is {cohort} of {clients}; leave --cohort out."
        )


def chosen_round_end(config: RunConfig, method: Method, cohort: int, own: RoundEnd | None = None) -> RoundEnd:
    """What the settings ask for, whether or not the rest of the run goes with it; `own`: a user's object.

    By the clock `sum` nobody is late, so a method's own round end is not used there. A remark says so.
    """
    usual = method.facts.round_end if config.clock == "makespan" else "all"
    return own or clock.round_end(usual if config.round_end == "auto" else config.round_end, cohort)


def round_end_of(config: RunConfig, method: Method, cohort: int, own: RoundEnd | None = None) -> RoundEnd:
    """How this run's rounds end, if its method, clock and cohort can do that."""
    end, name = chosen_round_end(config, method, cohort, own), method.title
    newest, older = float(end.weight(0)), float(end.weight(1))
    if newest != 1 or not 0 <= older < float("inf"):
        raise UserError(
            f"Round end {end.name!r} counts new work {newest:g} times and work of one move ago {older:g} "
            "times; weight(age) is 1 for age 0, and 0 or more for older work."
        )
    if end.waits_for_all:
        return end
    if config.clock != "makespan":
        raise UserError(
            f"Round end {end.name!r}: somebody is late only where clients work at once; add --clock makespan."
        )
    if method.facts.stale == "refused" and (end.overlap or end.late == "stale"):
        raise UserError(
            f"{name} needs everyone's work on the newest model, and round end {end.name!r} brings older "
            "work; use --round-end all, or drop late work, as in --round-end quorum:3,drop."
        )
    if "models" in config.details:
        raise UserError(f"Clients' own models are scored at the end of a whole round, not with {end.name!r}.")
    return end


def shared_round_end(
    configs: Sequence[RunConfig], method: Method, cohort: int, own: RoundEnd | None = None
) -> RoundEnd:
    """How the rounds of a batch end; by their clocks its trials may not all have the same one."""
    ends = [round_end_of(each, method, cohort, own) for each in configs]
    if len({end.name for end in ends}) > 1:
        raise UserError(
            f"By the clock 'sum' {method.title} waits for all, by 'makespan' it does not: run them in "
            "batches of their own."
        )
    return ends[0]


def mechanism_of(config: Training, profile: Profile | None = None) -> Mechanism | None:
    """The mechanism that is named, or implied by a budget of epsilon; None: no privacy."""
    if config.privacy == "none" and config.epsilon is not None:
        raise UserError("An epsilon is set, and privacy 'none': leave one of them out.")
    budget = config.epsilon is not None or (profile is not None and _column(profile) is not None)
    known: dict[str, Mechanism | None] = {
        "none": None,
        "auto": RECORD_LEVEL if budget else None,
        **MECHANISMS,
    }
    if config.privacy not in known:
        raise UserError(f"Unknown privacy mechanism {config.privacy!r}{nearest(config.privacy, known)}.")
    mechanism = known[config.privacy]
    if mechanism is not None and config.epochs is not None:
        raise UserError(
            "Under privacy epsilon is spread over steps, and every row is in a minibatch by a chance of its "
            "own: give --steps in place of --epochs."
        )
    return mechanism


def check_public(config: Training, data: str) -> None:
    """What is fitted to a table's rows leaves without noise: its owner must say that it is public."""
    if data.startswith(("csv:", "table:")) and not config.public_columns:
        raise UserError(
            "The words, ranges, medians and class names of this table are taken from its rows and leave "
            "without noise: a rare word or an outlier tells of one row. If they are public, say so with "
            "--public-columns; else drop such columns (--drop), or pass a Dataset that is encoded already."
        )


def budgets_of(config: Training, profile: Profile, clients: int) -> Sequence[float] | None:
    """Every client's epsilon at most: the table's, or one for all; None where nobody set any."""
    column = _column(profile)
    if column is not None:
        return [float(each) for each in column]
    return None if config.epsilon is None else [config.epsilon] * clients


def _column(profile: Profile) -> Array | None:
    return None if profile.sites is None else profile.sites.columns.get("epsilon")


def no_claim(ledger: Ledger, stopped_by_data: bool) -> str:
    """A sentence where a private run can claim no epsilon."""
    if not (stopped_by_data and ledger.exposures and not ledger.budgets):
        return ""
    return "Scores decided when this run ended, and no epsilon was set: no epsilon can be claimed for it."


def privacy_remarks(
    config: Training, mechanism: Mechanism | None, method: Method, ledger: Ledger, rows: Array
) -> Iterator[str]:
    """Settings of privacy that have no effect, and a delta that is too large."""
    server = mechanism is not None and not mechanism.rows
    if mechanism is None:
        for name in sorted({"delta", "noise", "clip"} & config.model_fields_set):
            yield f"Setting {name!r} has no effect: nothing is private without epsilon, or privacy 'record'."
        return
    if server:
        if config.delta * len(rows) >= 1:
            yield f"A delta of {config.delta:g} is not below 1/{len(rows)}, one over all clients; lower it."
        return
    if method.facts.private_options:
        off = ", ".join(name for name, _ in method.facts.private_options if name not in config.options)
        yield f"Under privacy {config.method} does without {off}; lr is the length of its steps."
    if config.delta * rows.min() >= 1:
        yield (
            f"A delta of {config.delta:g} is not below 1/{rows.min()}, one over a client's rows: by chance "
            "alone a row might be disclosed; lower --delta."
        )
    none = np.flatnonzero(ledger.limits == 0)
    if ledger.budgets and none.size:
        who = listed(map(str, none), 10)
        yield f"No step of these clients fits their epsilon, and they take no part: {who}."


def remarks(
    config: Training,
    federation: Federation,
    policy: Policy,
    clients: int,
    end: RoundEnd,
    profile: Profile | None = None,
) -> Iterator[str]:
    """A sentence for each setting that was given and has no effect, and for a bound.

    `clients` is how many there are: data with a column of its own says so itself.
    """
    given, method, private = config.model_fields_set, federation.method, federation.private_rows
    chosen = not policy.steps or (policy.spends and config.budget is not None)
    paced = private and config.noise is None  # epsilon is spread by them
    asked = "steps" if config.epochs is None else "epochs"
    if asked in given and chosen and not paced:
        yield f"Setting {asked!r} has no effect: the policy {policy.name} chooses them."
    if config.budget is not None and not policy.limited:
        yield f"Setting 'budget' has no effect: the policy {policy.name} does not look at it."
    if "clients" in given and clients != config.clients:
        yield f"Setting 'clients' has no effect: the data's own column names {clients}."
    if "stop_at_target" in given and config.target is None:
        yield "Setting 'stop_at_target' has no effect: there is no target."
    if config.target is not None and config.rounds is None and config.last_round == ROUNDS_TO_TARGET:
        yield f"Without rounds or seconds this ends at the target, or after {ROUNDS_TO_TARGET:,} rounds."
    if config.round_end == "auto" and end.waits_for_all and method.facts.round_end != "all":
        yield (
            f"{method.title} waits for all: by the clock {config.clock!r} nobody is late. For rounds that "
            f"end with {method.facts.round_end} add --clock makespan."
        )
