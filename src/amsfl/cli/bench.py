"""`amsfl bench`: our side of benchmarks/, alone."""

import os
import time
from typing import Annotated

import typer

from amsfl.cli.output import AsJson, print_json


def bench(
    job: Annotated[
        str,
        typer.Option(
            help="A: 5 clients; B: 50 of 1,000; C: images, cnn; D: texts, transformer; E, F: wide MLPs"
        ),
    ] = "A",
    data_dir: Annotated[str | None, typer.Option(help="where the NSL-KDD files are")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="repetitions, of which the best counts")] = 3,
    rounds: Annotated[int | None, typer.Option(min=1, help="fewer or more rounds than the job's")] = None,
    robust: Annotated[
        str, typer.Option(help="measure this rule against the job without it, as in median")
    ] = "",
    private: Annotated[
        bool,
        typer.Option("--private", help="measure private steps (clipped by row, noised) against plain ones"),
    ] = False,
    worth: Annotated[
        bool,
        typer.Option("--worth", help="measure rounds with a ledger of contributions, too (docs/worth.md)"),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure how many client steps a second the engine does."""
    from amsfl.study.bench import BenchOptions
    from amsfl.study.bench import bench as measure

    options = BenchOptions(data_dir, repeat, _process_start(), rounds, robust, private, worth)
    outcome = measure(job.upper(), options)
    if as_json:
        return print_json(outcome)
    without = " and ".join(filter(None, [robust, "privacy" if private else ""]))
    typer.echo(
        f"job {outcome['job']} on {outcome['data']}: {outcome['client_steps_per_second']:,.0f} client steps "
        f"a second, accuracy {outcome['accuracy']:.3f}, {outcome['devices']} x {outcome['device']}, "
        f"{outcome['peak_mb']:.0f} MB"
        + (f"; {outcome['times']:.2f} times as long as without {without}" if without else "")
        + (
            f"; by processor time a round takes {outcome['ledger_times']:.3f} times as long with a ledger, "
            f"which takes {1e3 * outcome['statement_seconds']:.0f} ms more once at the end"
            if worth
            else ""
        )
    )


def _process_start() -> float:
    """When this process began, by the system's own record where there is one."""
    try:
        with open("/proc/self/stat") as file:
            ticks = int(file.read().rsplit(")", 1)[1].split()[19])
        with open("/proc/uptime") as file:
            up = float(file.read().split()[0])
        return time.time() - (up - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return time.time() - time.process_time()
