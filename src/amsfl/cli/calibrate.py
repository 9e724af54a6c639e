"""`amsfl calibrate`: a table of sites from records of real runs, and how well it predicts them."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from amsfl.cli.output import AsJson, print_json, print_table, say, screen
from amsfl.core import UserError
from amsfl.record import write_atomically

if TYPE_CHECKING:
    from amsfl.study.calibration import CalibrationCheck, FittedSites, Prediction

SHOWN = 40  # clients of a table on the screen; the file has them all


def calibrate(
    folders: Annotated[
        list[Path],
        typer.Argument(help="records of runs with the same clients: amsfl deploy's, a Flower server's"),
    ],
    out: Annotated[Path | None, typer.Option(help="the table of sites to write, as in profile.csv")] = None,
    force: Annotated[bool, typer.Option(help="overwrite that file")] = False,
    check: Annotated[
        bool, typer.Option(help="fit on the first half of each run's rounds and predict the second")
    ] = False,
    target: Annotated[
        float | None,
        typer.Option(help="for --check: the score whose time is predicted; the run's own by default"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a table of sites from records of real runs; `amsfl run --profile` takes it.

    step_seconds is the median of what clients measured. latency is the rest of a round, with what the server
    does between two rounds. jitter, failures and absences are there where there were any.

    Rows that amsfl dealt are dealt again by the same --data, --partition and --seed. For clients with data of
    their own, the column weight has the shares.
    """
    from amsfl.study.calibration import as_csv
    from amsfl.study.calibration import calibrate as fitted_on
    from amsfl.study.calibration import check as checked

    if check:
        checks = [(folder, checked(folder, target)) for folder in folders]
        if as_json:
            print_json([{"folder": str(folder)} | _plain(each) for folder, each in checks])
        else:
            for folder, each in checks:
                _show_check(folder, each)
    elif target is not None:
        raise UserError("--target is whose time a check predicts; add --check, or leave it out.")
    if check and out is None:
        return
    fitted = fitted_on(folders)
    text = as_csv(fitted)
    if out is not None:
        if out.suffix != ".csv":
            raise UserError(
                f"A profile's name ends in .csv, and {str(out)!r} does not; write --out profile.csv."
            )
        if out.exists() and not force:
            raise UserError(f"{str(out)!r} exists; choose another --out, or overwrite it with --force.")
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, text.encode())
    if as_json and not check:
        columns = {key: part for key, part in fitted._asdict().items() if part is not None}
        print_json({key: part.tolist() if hasattr(part, "tolist") else part for key, part in columns.items()})
    elif not as_json:
        _show(fitted, text)
        if out is not None:
            say(f"Written to {out}. Try it: amsfl run --profile {out} --clock makespan")


def _show(fitted: "FittedSites", text: str) -> None:
    header, *rows = csv.reader(text.splitlines())
    print_table(header, rows[:SHOWN], left=("client",))
    out = screen()
    if len(rows) > SHOWN:
        out.print(f"{SHOWN} of {len(rows):,} clients are shown.")
    out.print(f"Of every latency {fitted.server_seconds:.2f} s are the server's own, between two rounds.")


def _show_check(folder: Path, checked: "CalibrationCheck") -> None:
    goal = f"to the target {checked.target:g}" if checked.reached else "to the last round"
    say(f"{folder}: fitted on rounds 1 to {checked.fitted}, and of those after them:")
    typer.echo(f"  a round        {_figure(checked.round_seconds)}")
    typer.echo(f"  {goal}, round {checked.to_round}: {_figure(checked.seconds)}")


def _figure(number: "Prediction") -> str:
    return (
        f"predicted {number.predicted:.2f} s ({number.low:.2f} to {number.high:.2f}), measured "
        f"{number.measured:.2f} s: {100 * number.error:+.1f}%"
    )


def _plain(checked: "CalibrationCheck") -> dict[str, object]:
    figures = {"round_seconds": checked.round_seconds, "seconds": checked.seconds}
    return checked._asdict() | {
        name: number._asdict() | {"error": number.error} for name, number in figures.items()
    }
