"""How a run's rounds end and what happens to clients on their way, if method, clock and cohort go with it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from amsfl import clock, methods
from amsfl.core import UserError
from amsfl.settings.definitions import RunConfig, ServeConfig, Training


def in_flight(config: Training, method: methods.Method, end: clock.RoundEnd) -> methods.Method:
    """The method with the server that it has where work on older models comes in."""
    older = end.asynchronous or (end.kind != "all" and config.late == "stale")
    return method.adapted(methods.Variant(stale=True)) if older else method


def weather_of(config: RunConfig, profile: clock.Profile, names: Sequence[str]) -> clock.Weather:
    """What happens to clients on their way, if the clock can tell."""
    found = clock.weather(profile, config.seed, config.availability, config.jitter, config.failure, names)
    if found.window is not None and config.clock != "makespan":
        raise UserError(
            "Clients that come and go work side by side, not one after another; add --clock makespan."
        )
    if not found.calm and config.local_accuracy:
        raise UserError("Clients' own models are scored where all come in; leave --local-accuracy out.")
    return found


def whole_rounds(config: RunConfig, method: methods.Method) -> bool:
    """Whether all of a cohort come in every round, on the newest model: only then their own are scored."""
    quiet = config.model_copy(update={"local_accuracy": False})
    end = round_end_of(quiet, method, config.cohort or config.clients)
    calm = config.availability == "always" and not config.jitter and not config.failure
    if calm and config.profile.endswith(".csv"):
        columns = clock.read_sites(Path(config.profile)).columns
        calm = not {"jitter", "failure", "on_seconds"} & {*columns}
    return end.kind == "all" and calm


def check_everyone(method: methods.Method, end: clock.RoundEnd, cohort: int, clients: int) -> None:
    """Some methods count on all clients, where those who come do not stand for the others."""
    if method.facts.all_clients and end.asynchronous and cohort < clients:
        raise UserError(
            f"{method.title} counts every upload by its share of all clients' data, so all of "
            f"them must be under way, and the cohort is {cohort} of {clients}; leave --cohort out."
        )


def round_end_of(config: Training, method: methods.Method, cohort: int) -> clock.RoundEnd:
    """How this run's rounds end, if its method, clock and cohort can do that."""
    text = method.facts.round_end if config.round_end == "auto" else config.round_end
    if config.round_end == "auto" and config.clock != "makespan":  # where nobody is late; a remark says so
        return clock.RoundEnd()
    end, name = clock.round_end(text), method.title
    if end.kind == "groups":  # so many at most wait to be taken along
        end = end._replace(enough=cohort)
    elif config.round_end == "auto":  # a method's number is for many clients
        end = end._replace(enough=min(end.enough, max(cohort // 2, 1)))
    if end.kind == "groups" and isinstance(config, ServeConfig):
        return _no_groups(config)
    if end.kind == "all":
        return end
    if config.clock != "makespan":
        raise UserError(
            f"Round end {text!r}: somebody is late only where clients work at once; add --clock makespan."
        )
    if end.enough > cohort:
        raise UserError(
            f"Round end {text!r} waits for {end.enough} clients, and {cohort} are under way at a time; lower "
            "it, or raise --cohort."
        )
    if method.facts.stale == "refused" and (end.asynchronous or config.late == "stale"):
        raise UserError(
            f"{name} needs everyone's work on the newest model, and round end {text!r} brings older work; "
            "use --round-end all, or a deadline or quorum with --late drop."
        )
    if isinstance(config, ServeConfig):
        _one_rule(config, end)
    if isinstance(config, RunConfig) and config.local_accuracy:
        raise UserError(f"Clients' own models are scored at the end of a whole round, not with {text!r}.")
    return end


def _no_groups(config: ServeConfig) -> clock.RoundEnd:
    """Real clients are not planned to arrive together: a method made for that waits for all."""
    if config.round_end == "auto":
        return clock.RoundEnd()
    raise UserError(
        "Groups of clients that arrive together are planned in simulations only; with real clients use "
        "--round-end buffer:2, quorum:3 or deadline:60."
    )


def _one_rule(config: ServeConfig, end: clock.RoundEnd) -> None:
    """A server's older settings say when a round that waits for all gives up; they are no second rule."""
    if config.quorum < 1:
        raise UserError(
            f"Rounds end with {end.kind}, and --quorum {config.quorum:g} ends those that wait for all; leave "
            "one of them out."
        )
    if end.kind == "deadline" and (config.deadline is not None or config.deadlines):
        raise UserError(
            f"Rounds end after {end.seconds:g} s, and --deadline says when a round that waits for all gives "
            "up; leave it out."
        )


def round_end_on_record(settings: Mapping[str, Any]) -> clock.RoundEnd:
    """How the rounds of a record ended; of a method that is not known here, those that wait for all."""
    text, clients = str(settings.get("round_end", "all")), int(settings.get("clients", 1))
    if text != "auto":
        return clock.round_end(text)
    try:
        method = methods.make(str(settings["method"]), settings.get("options") or {})
    except UserError:
        return clock.RoundEnd()
    config = RunConfig.model_construct(**{**settings, "local_accuracy": False})
    return round_end_of(config, method, settings.get("cohort") or clients)
