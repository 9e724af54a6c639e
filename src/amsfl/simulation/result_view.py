"""A result for people: its clients, its rounds as a table, its curve."""

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from amsfl.clock.costs import MEGABYTE
from amsfl.core import Score, UserError, nearest
from amsfl.core.records import Json
from amsfl.record import RoundRecord, flatten
from amsfl.worth import seconds_alone

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from amsfl.simulation.result import Result

AXES = {"seconds": "virtual seconds ({clock} clock)", "round": "rounds", "megabytes": "megabytes, both ways"}
AXES |= {"joules": "joules of all clients", "cost": "cost of what was sent"}
SUMMED = ("megabytes", "joules", "cost")  # a round has its own share of them


class Client(NamedTuple):
    """What one client did in a run; `pandas.DataFrame(result.clients)` is a table of them."""

    name: str
    rows: int  # that it trained on
    steps: int  # local ones, over all rounds
    seconds: float  # virtual ones of its own, over all rounds
    joules: float | None = None  # over all rounds; None where the profile does not say


def clients(result: "Result") -> list[Client]:
    seconds, joules = (_by_client(result.rounds, key) for key in ("client_seconds", "client_joules"))
    rows, known = result.parts.task.shards.rows[result.place], result.summary.joules is not None
    return [
        Client(name, int(rows[who]), steps, seconds.get(who, 0.0), joules.get(who, 0.0) if known else None)
        for who, (name, steps) in enumerate(result.summary.steps.items())
    ]


def _by_client(rounds: list[RoundRecord], key: str) -> dict[int, float]:
    totals: dict[int, float] = {}
    for record in rounds:
        for who, each in zip(record.cohort, record.plan.get(key, ()), strict=False):
            totals[who] = totals.get(who, 0.0) + each
    return totals


def row(record: RoundRecord, clock: str, main: Score) -> Json:
    """A round as a table's row: when it ended, its scores, what it cost."""
    scores = {key.replace("/", "_"): value for key, value in record.scores.items()}
    if main.listed:
        scores |= {
            f"{split}_{main.name}": value
            for split, metrics in record.metrics.items()
            if (value := main.of(metrics)) is not None
        }
    return {
        "round": record.round,
        "seconds": record.seconds[clock],
        **scores,
        "lr": record.lr,
        "steps": sum(record.steps),
        "clients": len(record.cohort),
        "megabytes": (record.bytes_up + record.bytes_down) / MEGABYTE,
        **({} if record.joules is None else {"joules": record.joules}),
        **({} if record.cost is None else {"cost": record.cost}),
        "wall_seconds": record.wall.get("seconds"),
    }


def frame(result: "Result") -> "pandas.DataFrame":
    import pandas

    table = pandas.DataFrame([row(each, result.summary.clock, result.parts.score) for each in result.rounds])
    return table.set_index("round") if len(table) else table


def worth(result: "Result") -> "pandas.DataFrame":
    import pandas

    clients = result.summary.worth.get("clients")
    if not clients:
        raise UserError("This run has no ledger of contributions; run it with worth=True.")
    rows = [
        {
            "client": each["name"],
            "kind": each["kind"],
            **dict(zip(("adds", "low", "high"), each["adds"], strict=True)),
            "missed": each["missed"][0],
            "own": each["own"],
            "joining": each["joining"][0],
            "twin": each["twin"],
        }
        for each in clients
    ]
    alone = seconds_alone(result.rounds, len(rows), result.summary.clock)
    return pandas.DataFrame(rows).assign(seconds=alone).set_index("client")


def plot(result: "Result", score: str | None, by: str, axes: "Axes | None") -> "Axes":
    if by not in AXES:
        raise UserError(f"A curve is drawn by {', '.join(AXES)}, not by {by!r}.")
    main = result.parts.score
    rows = [row(record, result.summary.clock, main) for record in result.rounds]
    known = [key.replace("/", "_") for key in flatten(result.summary.metrics)]
    wanted = score or f"holdout_{main.name if main.listed else main.key}"
    points = [(place, each[wanted]) for place, each in enumerate(rows) if wanted in each]
    if not points:
        raise UserError(f"No round has a score {wanted!r}{nearest(wanted, known)}.")
    if axes is None:
        from matplotlib import pyplot

        axes = pyplot.subplots()[1]
    if by not in rows[0]:
        raise UserError(f"The profile of this run does not say what clients spend of {by}; see docs/time.md.")
    places = [each[by] for each in rows]
    if by in SUMMED:
        places = list(accumulate(places))
    title = result.parts.method.title or result.summary.method
    axes.plot([places[place] for place, _ in points], [value for _, value in points], label=title)
    axes.set_xlabel(AXES[by].format(clock=result.summary.clock))
    axes.set_ylabel(wanted.replace("_", " "))
    axes.legend()
    return axes
