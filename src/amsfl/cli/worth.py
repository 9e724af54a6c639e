"""`amsfl worth`: what each client brought to a run and what it cost; what would be without it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from amsfl.cli.output import AsJson, print_json, print_table, say, screen
from amsfl.core import UserError
from amsfl.record import read_run

if TYPE_CHECKING:
    from amsfl.study.what_if import WhatIf
    from amsfl.worth.costs import ClientCost

HEAD = ("client", "adds", "90% interval", "missed", "own", "joining", "seconds", "kind")
LEFT = ("client", "kind")  # columns of words
EXPLAINED = (
    "adds, missed: points of the hold-out's score; own: the score of its own rows, joining: what it "
    "gains there; seconds: those that it alone causes ({clock} clock). --json has steps, bytes, joules, "
    "money and epsilon."
)
COSTS_ALONE = (
    "seconds: those that a client alone causes ({clock} clock). There is no ledger of what clients add: a "
    "run has one with --worth and without privacy."
)


def worth(
    folder: Annotated[
        Path, typer.Argument(help="the folder of a run; one with --worth also says what clients add")
    ],
    without: Annotated[
        list[str] | None, typer.Option(help="what would have changed without this client", metavar="NAME")
    ] = None,
    with_speed: Annotated[
        list[str] | None,
        typer.Option(help="what would have changed at another speed, as in Graz=2x", metavar="NAME=TIMES"),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0, help="what would have been reached within so many seconds")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what each client added to the model and what it cost; with a flag, what would have changed."""
    from amsfl.study.what_if import what_if
    from amsfl.worth.costs import ClientCost, client_costs
    from amsfl.worth.statement import WorthStatement, losers, sentence, worst_tenth

    if without and len(without) > 1:
        raise UserError("--without takes one client; ask again for each of the others.")
    gone = without[0] if without else None
    speeds = dict(map(_speed, with_speed or []))
    if gone in speeds:
        raise UserError(
            f"--without and --with-speed both name {gone}, which has no speed where it is left out; keep one."
        )
    run = read_run(folder)
    if run.summary is None:
        raise UserError(f"The run in {str(folder)!r} has not ended; go on with 'amsfl resume {folder}'.")
    clock = run.summary.clock
    costs = client_costs(run.rounds, len(run.summary.steps), clock)
    if gone or with_speed or budget is not None:
        answer = what_if(folder, gone, speeds)
        if as_json:
            return print_json(_facts(answer, budget))
        who = f"Without {gone}" if gone else "With these speeds" if with_speed else "As it was"
        return say(describe(answer, who, budget))
    if as_json:
        named = {name: cost._asdict() for name, cost in zip(run.summary.steps, costs, strict=True)}
        return print_json(run.summary.worth | {"costs": named})
    if not run.summary.worth:
        print_table(("client", *ClientCost._fields), map(_cost_cells, run.summary.steps, costs), LEFT, gap=1)
        return screen().print(COSTS_ALONE.format(clock=clock), soft_wrap=True)
    statement = WorthStatement.read(run.summary.worth)
    pairs = list(zip(statement.clients, costs, strict=True))
    print_table(HEAD, [_cells(each, cost) for each, cost in pairs], LEFT, gap=1)
    screen().print(EXPLAINED.format(clock=clock), soft_wrap=True)
    whole = sum(each.round_seconds.get(clock, 0.0) for each in run.rounds)
    for each, cost in pairs:
        end = _difference(what_if(folder, each.name)) if len(run.rounds) > 2 else ""
        say(sentence(each, cost, whole, end and f"without it {end}"))
    if (worst := worst_tenth(statement)) is not None:
        lose = losers(statement)
        say(
            f"On the rows of the tenth of clients that are worst off the score is {worst:.3g}; "
            + (f"joining costs {', '.join(lose)}." if lose else "nobody certainly loses by joining.")
        )


def _cells(each: Any, cost: Any) -> list[str]:
    def hundredths(value: Any) -> str:
        return "" if value is None else f"{100 * value.mean:+.1f}"

    return [
        *(each.name, hundredths(each.adds), f"{100 * each.adds.low:+.1f} to {100 * each.adds.high:+.1f}"),
        *(hundredths(each.missed), "" if each.own is None else f"{each.own:.3f}"),
        *(hundredths(each.joining), f"{cost.seconds:.4g}", each.kind),
    ]


def _cost_cells(name: str, cost: "ClientCost") -> list[str]:
    return [name, *("" if value is None else f"{value:.4g}" for value in cost)]


def _difference(answer: "WhatIf") -> str:
    """What would be different, in half a sentence."""
    was, would = answer.was, answer.would
    change = 100 * (would.scores[-1] - was.scores[-1])
    said = f"the run ends {abs(change):.1f} points {'higher' if change > 0 else 'lower'}"
    if answer.target is not None and (before := was.reached(answer.target)) is not None:
        after = would.reached(answer.target)
        if after is None:
            return f"{answer.target:g} is not reached and {said}"
        return f"{answer.target:g} is reached {_sooner(before - after)} and {said}"
    return f"{said} and {_sooner(was.ends[-1] - would.ends[-1])}"


def _sooner(seconds: float) -> str:
    return f"{abs(seconds):.3g} s {'sooner' if seconds >= 0 else 'later'}"


def describe(answer: "WhatIf", who: str, budget: float | None) -> str:
    """The answer in sentences, with the replay's own error."""
    would = answer.would
    text = f"{who} {_difference(answer)}." if who != "As it was" else ""
    if budget is not None:
        within = would.within(budget)
        reached = "nothing was scored yet" if within is None else f"the score is {within:.4f}"
        text += f" {who}, within {budget:g} s {reached}."
    return (
        f"{text.strip()} All rounds take {would.ends[-1]:.4g} s instead of {answer.was.ends[-1]:.4g} s. The "
        f"replay of the run as it was is {100 * answer.error:+z.1f}% off."
    )


def _facts(answer: "WhatIf", budget: float | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"replay_error": answer.error, "target": answer.target}
    for name, course in (("was", answer.was), ("would", answer.would)):
        facts[name] = {
            "seconds": course.ends[-1],
            "score": course.scores[-1],
            "seconds_to_target": None if answer.target is None else course.reached(answer.target),
            "score_within_budget": None if budget is None else course.within(budget),
        }
    return facts


def _speed(text: str) -> tuple[str, float]:
    name, _, times = text.rpartition("=")
    try:
        number = float(times.removesuffix("x"))
        if not name or not 0 < number < 1e6:
            raise ValueError
    except ValueError:
        raise UserError(f"--with-speed {text!r} is not NAME=TIMES, as in Graz=2x.") from None
    return name, number
