"""A table of sites: `amsfl plan` says who takes how many steps, `calibrate` makes one from real runs,
`forecast` says what to deploy there.
"""

import csv
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from amsfl import planning
from amsfl.cli import flags
from amsfl.cli.output import AsJson, plain, print_json, print_table, say, screen
from amsfl.cli.studies import NOT_OF_STUDIES, parse_names
from amsfl.clock import read_sites
from amsfl.core import Plan, UserError
from amsfl.core.records import Json
from amsfl.record import write_atomically
from amsfl.report.statistics import Interval, ratio
from amsfl.settings.definitions import RunConfig
from amsfl.settings.parse import make_config

if TYPE_CHECKING:
    from amsfl.study.forecast import ForecastRow

TITLES = ("client", "weight", "s a step", "gain", "fading", "steps", "seconds", "next step", "stopped by")
COLUMNS = ("client", "weight", "step_seconds", "comm_seconds", "gain", "fading")
SHOWN, WAYS = 40, 12  # clients of a table, ways of a forecast; JSON and files have them all
OWN = ("profile", "clock", "clients", "details", "engine", "budget", "policy")
HEAD = ("method", "rounds end", "steps", "lr", "seconds", "interval", "rounds", "reached")


@flags.takes(RunConfig, only=("budget", "clock", "policy", "steps"))
def plan(
    settings: Json,
    clients: Annotated[Path, Parameter(help="CSV, one row per client: " + ", ".join(COLUMNS))],
    /,
    *,
    most: Annotated[
        int | None, Parameter(help="no client takes more steps than this; as many as in a run by default")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """How many local steps each client should take this round, and why.

    The file is a table of sites; `amsfl methods` lists its columns. It needs client and step_seconds.

    Without weight all clients count the same. Without comm_seconds or latency communication is free. Without
    gain a first step is worth 1 everywhere. Without fading each further step is worth a twentieth less than
    the one before it. The policy auto is price.
    """
    # a user's own sites work side by side
    config = make_config({"clock": "makespan"} | settings)
    table = read(clients)
    problem = planning.problem(
        **table, most=planning.USUAL_MOST if most is None else most, clock=config.clock, budget=config.budget
    )
    policy = "price" if config.policy == "auto" else config.policy
    made = planning.policy(policy)(problem, planning.Signals(steps=config.steps))
    if as_json:
        record = {
            "policy": policy,
            "clock": problem.clock,
            "budget": problem.budget,
            "steps": dict(zip(problem.clients, made.steps.tolist(), strict=True)),
            "seconds": made.seconds,
            "worth": problem.worth(made.steps),
            "why": dict(zip(problem.clients, made.why, strict=True)),
        }
        print_json(record, indent=2)
    else:
        _show_plan(problem, made)


def read(path: Path) -> Json:
    """What `planning.problem` takes of a table of sites."""
    table = read_sites(path)
    table.need("client", "step_seconds")
    usual = {"weight": 1.0, "gain": 1.0, "fading": planning.FADING}
    columns = {name: table.columns.get(name, default) for name, default in usual.items()}
    # no model, so nothing to transfer
    whole = "comm_seconds" if "comm_seconds" in table.columns else "latency"
    return {
        "weights": columns.pop("weight"),
        "step_seconds": table.columns["step_seconds"],
        "comm_seconds": table.columns.get(whole, 0.0),
        "clients": table.clients,
        **columns,
    }


def _show_plan(problem: planning.Problem, made: Plan) -> None:
    """The plan as a table, and what it comes to."""
    p, steps = problem, made.steps
    columns = p.weights, p.step_seconds, p.gain, p.fading, steps, p.client_seconds(steps), p.step_worth(steps)
    rows = zip(p.clients, *(column.tolist() for column in columns), made.why, strict=True)
    cells = [[f"{each:.4g}" if isinstance(each, float) else str(each) for each in row] for row in rows]
    left_out = len(cells) - SHOWN
    if left_out > 0:
        dots = [f"... {left_out:,} more", *[""] * (len(TITLES) - 1)]
        cells[SHOWN // 2 : -SHOWN // 2] = [dots]
    print_table(TITLES, cells, left=(TITLES[0], TITLES[-1]))
    console = screen()
    console.print(summary(problem, made))
    console.print("seconds: computing and communicating; next step: what one more would add to the gain.")
    for word in dict.fromkeys(made.why):
        console.print(f"{word}: {planning.REASONS[word]}.")
    if left_out > 0:
        console.print(f"{SHOWN} of {len(steps):,} clients are shown; --json has them all.")


def summary(problem: planning.Problem, made: Plan) -> str:
    """What the plan does and what it costs, in two sentences."""
    budget, steps, seconds = problem.budget, made.steps, made.seconds
    how = "one client after another" if problem.clock == "sum" else "all clients at once"
    over = budget is not None and seconds > budget * (1 + 1e-6)
    allowed = "" if budget is None or over else f" of the {budget:.4g} s allowed"
    text = f"{steps.size} clients take {int(steps.sum())} steps in {seconds:.4g} s{allowed}, {how}."
    if budget is not None and over:
        return f"{text} That is {seconds - budget:.4g} s over the budget of {budget:.4g} s."
    return f"{text} They are worth {problem.worth(steps) / seconds:.4g} a second."


def calibrate(
    *folders: Annotated[
        Path,
        Parameter(help="records of runs with the same clients: amsfl deploy's, a Flower server's"),
    ],
    out: Annotated[Path | None, Parameter(help="the table of sites to write, as in profile.csv")] = None,
    force: Annotated[bool, Parameter(help="overwrite that file")] = False,
) -> None:
    """Make a table of sites from records of real runs; `amsfl run --profile` takes it.

    step_seconds is the median of what clients measured. latency is the rest of a round, with what the server
    does between two rounds. jitter, failures and absences are there where there were any.

    Rows that amsfl dealt are dealt again by the same --data, --partition and --seed. For clients with data of
    their own, the column weight has the shares.
    """
    from amsfl.study.calibrate import as_csv
    from amsfl.study.calibrate import calibrate as fitted_on

    if not folders:
        raise UserError("Name at least one folder of a run: amsfl calibrate runs/deploy.")
    sites, server = fitted_on(folders)
    text = as_csv(sites)
    if out is not None:
        if out.suffix != ".csv":
            raise UserError(
                f"A profile's name ends in .csv, and {str(out)!r} does not; write --out profile.csv."
            )
        if out.exists() and not force:
            raise UserError(f"{str(out)!r} exists; choose another --out, or overwrite it with --force.")
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, text.encode())
    header, *rows = csv.reader(text.splitlines())
    print_table(header, rows[:SHOWN], left=("client",))
    if len(rows) > SHOWN:
        say(f"{SHOWN} of {len(rows):,} clients are shown.")
    say(f"Of every latency {server:.2f} s are the server's own, between two rounds.")
    if out is not None:
        say(f"Written to {out}. Try it: amsfl run --profile {out} --clock makespan")


@flags.takes(RunConfig, leave_out=(*NOT_OF_STUDIES, *OWN))
def forecast(
    settings: Json,
    profile: Annotated[Path, Parameter(help="a table of sites, as amsfl calibrate writes it")],
    /,
    *,
    methods: Annotated[str | None, Parameter(help="methods to try, with commas between")] = None,
    trials: Annotated[int, Parameter(validator=Number(gte=1, lte=100), help="seeds of each")] = 3,
    out: Annotated[Path, Parameter(help="folder of the forecast; what is in it is not run again")] = Path(
        "results/forecast"
    ),
    as_json: Annotated[AsJson, flags.RARE] = False,
) -> None:
    """Say which method, round end and steps would reach a target soonest at these sites, by simulation.

    Every way is simulated on the table's clock, with several seeds. Round ends, steps and learning rates are
    tried unless --round-end, --steps or --lr fix them; of learning rates the best counts, with hindsight.

    Stop it with Ctrl-C and continue it with the same command.
    """
    import pandas as pd

    from amsfl.study import forecast as work

    console = screen(stderr=True)

    def watch(name: str, place: int, total: int) -> None:
        if not as_json:
            console.print(plain(f"{place + 1} of {total}: {name}"))

    asked = settings | {"profile": str(profile)}
    rows, left_out = work.forecast(
        asked,
        out / "units",
        parse_names(methods or work.METHODS) or [],
        trials,
        watch,
    )
    config = make_config(asked)
    cells = [_cells(row) for row in rows]
    said = advice(rows, f"{config.score or 'accuracy'} {config.target:g}")
    write_atomically(out / "forecast.csv", pd.DataFrame(cells, columns=[*HEAD]).to_csv(index=False).encode())
    if as_json:
        return print_json({"advice": said, "rows": [row._asdict() for row in rows]})
    print_table(HEAD, cells[:WAYS], left=HEAD[:2])
    say("Seconds: mean over seeds with its 95% interval. Of learning rates the best counts, with hindsight.")
    for line in (*left_out, said):
        say(line)
    more = f" with all {len(cells)} ways" if len(cells) > WAYS else ""
    say(f"Table{more}: {out / 'forecast.csv'}")


def advice(rows: "list[ForecastRow]", goal: str) -> str:
    """The answer in two sentences."""
    first, *rest = rows
    if not math.isfinite(first.middle):
        return f"No way that was tried reached {goal}; lower the target, or try other methods and steps."
    taken, when = _seconds(first), _short(_seconds(first).mean)
    between = f" ({_between(taken)})" if _between(taken) else ""
    sentence = f"{_label(first)} would reach {goal} soonest: in {when} seconds{between}."
    if rest and math.isfinite(rest[0].middle) and not taken.high < _seconds(rest[0]).low:
        sentence = (
            f"{_label(first)} was soonest on average to reach {goal}, in {when} seconds{between}, and not "
            f"surely sooner than {_label(rest[0])}."
        )
    other = next((row for row in rest if row.method != first.method and math.isfinite(row.middle)), None)
    if other:
        late = _short(_seconds(other).mean)
        sentence += f" The best of the other methods, {_label(other)}, would take {late} seconds."
    return sentence


def _label(row: "ForecastRow") -> str:
    ends = {"all": "waiting for all", "quorum": "waiting for", "buffer": "moving with any"}
    kind, _, number = row.round_end.partition(":")
    when = {"deadline": f"a round every {number} s"}.get(kind, f"{ends.get(kind, kind)} {number}".strip())
    return f"{row.title}, {when}" + (f", {row.steps} steps" if row.steps else "")


def _seconds(row: "ForecastRow") -> Interval:
    """To the target, over seeds; without an interval where a seed did not get there."""
    each = [seconds for seconds in row.seconds if seconds is not None]
    return ratio(each, [1.0] * len(each)) if row.reached == len(row.seconds) else Interval(row.middle)


def _cells(row: "ForecastRow") -> list[str]:
    taken, rounds = _seconds(row), [each for each in row.rounds if each is not None]
    return [
        row.title,
        row.round_end,
        "planned" if row.steps is None else str(row.steps),
        "its own" if row.lr is None else f"{row.lr:g}",
        _short(taken.mean) if math.isfinite(taken.mean) else "not reached",
        _between(taken),
        f"{sum(rounds) / len(rounds):.0f}" if rounds else "",
        f"{row.reached} of {len(row.seconds)}",
    ]


def _between(taken: Interval) -> str:
    return "" if math.isnan(taken.low) else f"{_short(taken.low)} to {_short(taken.high)}"


def _short(seconds: float) -> str:
    return f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.3g}"
