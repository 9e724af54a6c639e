"""`amsfl calibrate`: a table of sites from records of real runs."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from amsfl.cli.output import AsJson, print_json, print_table, say, screen
from amsfl.core import UserError

if TYPE_CHECKING:
    from amsfl.study.calibrate import FittedSites

SHOWN = 40  # clients of a table on the screen; the file has them all


def calibrate(
    *folders: Annotated[
        Path,
        Parameter(help="records of runs with the same clients: amsfl deploy's, a Flower server's"),
    ],
    out: Annotated[Path | None, Parameter(help="the table of sites to write, as in profile.csv")] = None,
    force: Annotated[bool, Parameter(help="overwrite that file")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a table of sites from records of real runs; `amsfl run --profile` takes it.

    step_seconds is the median of what clients measured. latency is the rest of a round, with what the server
    does between two rounds. jitter, failures and absences are there where there were any.

    Rows that amsfl dealt are dealt again by the same --data, --partition and --seed. For clients with data of
    their own, the column weight has the shares.
    """
    from amsfl.record import write_atomically
    from amsfl.study.calibrate import as_csv
    from amsfl.study.calibrate import calibrate as fitted_on

    if not folders:
        raise UserError("Name at least one folder of a run: amsfl calibrate runs/deploy.")
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
    if as_json:
        columns = {key: part for key, part in fitted._asdict().items() if part is not None}
        return print_json(
            {key: part.tolist() if hasattr(part, "tolist") else part for key, part in columns.items()}
        )
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
