"""What is worth a line before a run begins: settings that were given and have no effect, bounds."""

from collections.abc import Iterator

from amsfl.clock import Profile, RoundEnd
from amsfl.methods import Method
from amsfl.planning import Policy
from amsfl.settings.definitions import ROUNDS_TO_TARGET, ServeConfig, Training


def remarks(
    config: Training,
    method: Method,
    policy: Policy,
    clients: int,
    end: RoundEnd,
    profile: Profile | None = None,
) -> Iterator[str]:
    """A sentence for each; what was given is what the user set, not what stands by default.

    `clients` is how many there are: data with a column of its own says so itself.
    """
    given = config.model_fields_set
    chosen = not policy.steps or (policy.spends and config.budget is not None)
    paced = method.private_rows and config.noise is None  # epsilon is spread by them
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
        name = method.title
        if isinstance(config, ServeConfig):
            yield f"{name} waits for all: its groups are planned in simulations only."
        else:
            yield (
                f"{name} waits for all: by the clock {config.clock!r} nobody is late. For rounds that end "
                f"with {method.facts.round_end} add --clock makespan."
            )
    unused = "" if profile is None else profile.unused(*(["epsilon"] if method.private_rows else []))
    if unused:
        yield unused
