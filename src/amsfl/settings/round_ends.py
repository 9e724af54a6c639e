"""How a run's rounds end and what happens to clients on their way, if method, clock and cohort go with it."""

from collections.abc import Sequence
from pathlib import Path

from amsfl import clock, methods
from amsfl.clock import RoundEnd
from amsfl.core import UserError
from amsfl.core.records import JsonMapping
from amsfl.settings.definitions import RunConfig, ServeConfig, Training


def takes_older_work(end: RoundEnd) -> bool:
    """Whether a move may take results that were computed from an older model."""
    return end.overlap or (not end.waits_for_all and end.late == "stale")


def conditions_of(
    config: RunConfig, profile: clock.Profile, names: Sequence[str]
) -> clock.ClientConditions | None:
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
    if config.local_accuracy:
        raise UserError("Clients' own models are scored where all come in; leave --local-accuracy out.")
    return conditions


def whole_rounds(config: RunConfig, method: methods.Method) -> bool:
    """Whether all of a cohort come in every round, on the newest model: only then their own are scored."""
    quiet = config.model_copy(update={"local_accuracy": False})
    end = round_end_of(quiet, method, config.cohort or config.clients)
    calm = config.availability == "always" and not config.jitter and not config.failure
    if calm and config.profile.endswith(".csv"):
        columns = clock.read_sites(Path(config.profile)).columns
        calm = not {"jitter", "failure", "on_seconds"} & {*columns}
    return end.waits_for_all and calm


def check_everyone(method: methods.Method, end: RoundEnd, cohort: int, clients: int) -> None:
    """Some methods count on all clients, where those who come do not stand for the others."""
    if method.facts.all_clients and end.overlap and cohort < clients:
        raise UserError(
            f"{method.title} counts every upload by its share of all clients' data, so all of "
            f"them must be under way, and the cohort is {cohort} of {clients}; leave --cohort out."
        )


def chosen_round_end(
    config: Training, method: methods.Method, cohort: int, own: RoundEnd | None = None
) -> RoundEnd:
    """What the settings ask for, whether or not the rest of the run goes with it; `own`: a user's object.

    By the clock `sum` nobody is late, so a method's own round end is not used there; nor, with real clients,
    one that plans arrival groups. A remark says so.
    """
    if own is None and config.round_end == "auto":
        end = clock.round_end(method.facts.round_end, cohort)
        unplanned = end.join is not None and isinstance(config, ServeConfig)
        if config.clock != "makespan" or unplanned:
            end = clock.round_end("all")
        return end
    return own or clock.round_end(config.round_end, cohort)


def round_end_of(
    config: Training, method: methods.Method, cohort: int, own: RoundEnd | None = None
) -> RoundEnd:
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
    if end.join is not None and isinstance(config, ServeConfig):
        raise UserError(
            "Groups of clients that arrive together are planned in simulations only; with real clients use "
            "--round-end buffer:2, quorum:3 or deadline:60."
        )
    if config.clock != "makespan":
        raise UserError(
            f"Round end {end.name!r}: somebody is late only where clients work at once; add --clock makespan."
        )
    if method.facts.stale == "refused" and takes_older_work(end):
        raise UserError(
            f"{name} needs everyone's work on the newest model, and round end {end.name!r} brings older "
            "work; use --round-end all, or drop late work, as in --round-end quorum:3,drop."
        )
    if isinstance(config, RunConfig) and config.local_accuracy:
        raise UserError(f"Clients' own models are scored at the end of a whole round, not with {end.name!r}.")
    return end


def shared_round_end(
    configs: Sequence[Training], method: methods.Method, cohort: int, own: RoundEnd | None = None
) -> RoundEnd:
    """How the rounds of a batch end; by their clocks its trials may not all have the same one."""
    ends = [round_end_of(each, method, cohort, own) for each in configs]
    if len({end.name for end in ends}) > 1:
        raise UserError(
            f"By the clock 'sum' {method.title} waits for all, by 'makespan' it does not: run them in "
            "batches of their own."
        )
    return ends[0]


def round_end_on_record(settings: JsonMapping) -> RoundEnd:
    """How the rounds of a record ended; where its method is not known here, they waited for all."""
    try:
        method = methods.make(str(settings.get("method", "fedavg")), settings.get("options") or {})
        config = RunConfig.model_construct(**settings)
        return chosen_round_end(config, method, settings.get("cohort") or int(settings.get("clients", 1)))
    except UserError:
        return clock.round_end("all")
