"""`amsfl deploy`: real clients on this machine, through Flower."""

from pathlib import Path
from typing import Annotated, Any

import typer

from amsfl.cli.errors import friendly
from amsfl.core import UserError


def _option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text)


@friendly
def deploy(
    clients: Annotated[int, _option("SuperNodes to start")] = 5,
    slowdowns: Annotated[str | None, _option("how many times slower each client is, as in 1,2,4,8,2")] = None,
    step_seconds: Annotated[float, _option("seconds that a step of the fastest client takes at least")] = 0.0,
    method: Annotated[str, _option("see `amsfl methods`")] = "amsfl",
    steps: Annotated[int, _option("local steps a round, where the method does not plan them")] = 20,
    data: Annotated[str, _option("nslkdd or digits")] = "nslkdd",
    data_dir: Annotated[str | None, _option("where the data files are")] = None,
    model: Annotated[str, _option("softmax, mlp, mlp:128-64")] = "mlp",
    partition: Annotated[str, _option("iid, dirichlet:A, shards:K, quantity:A")] = "dirichlet:0.5",
    rounds: Annotated[int | None, _option("stop after so many rounds")] = None,
    seconds: Annotated[float | None, _option("stop after so many seconds of wall-clock time")] = None,
    target: Annotated[float | None, _option("stop at this hold-out accuracy")] = None,
    lr: Annotated[float, _option("learning rate, where the method does not set it")] = 0.05,
    batch: Annotated[int, _option("rows a minibatch")] = 64,
    seed: Annotated[int, _option("partition, first model and minibatches")] = 0,
    deadline: Annotated[
        float | None, _option("seconds a round waits for its clients; three times the plan by default")
    ] = None,
    tls: Annotated[bool, _option("encrypt, and let SuperNodes prove who they are; keys are made")] = False,
    out: Annotated[Path, _option("folder of the record")] = Path("runs/deploy"),
    resume: Annotated[bool, _option("go on from the folder's last round")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="the summary as JSON")] = False,
) -> None:
    """Start a SuperLink and SuperNodes on this machine, train, and leave nothing running."""
    from amsfl.flower.deploy.run import deploy as run_it
    from amsfl.record import dumps

    settings: dict[str, Any] = {
        "method": method,
        "steps": steps,
        "clients": clients,
        "data": data,
        "data_dir": data_dir,
        "model": model,
        "partition": partition,
        "rounds": rounds,
        "seconds": seconds,
        "target": target,
        "lr": lr,
        "batch": batch,
        "seed": seed,
        "deadline": deadline,
        "clock": "makespan",
        "profile": "measured",
        "resume": resume,
    }
    given = {key: value for key, value in settings.items() if value is not None}
    quiet = (lambda line: None) if as_json else typer.echo
    try:
        summary = run_it(given, out, _numbers(slowdowns), step_seconds, tls, quiet)
    except KeyboardInterrupt:
        typer.echo(f"Stopped; the rounds so far are in {out}. Go on with --resume.", err=True)
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(dumps(summary._asdict(), indent=1))
        return
    accuracy = summary.accuracy
    reached = summary.seconds_to_target
    typer.echo(
        f"{summary.method}: {summary.rounds} rounds in {summary.wall['seconds']:.1f} s, accuracy "
        f"{accuracy:.4f}"
        + (f", target {target:g} after {reached:.1f} s" if reached is not None else "")
        + (f", {summary.refused} replies refused" if summary.refused else "")
        + f"; steps by client {summary.steps}; record in {out}"
    )


def _numbers(text: str | None) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")] if text else []
    except ValueError:
        found = [0.0]
    if any(not value >= 1 for value in found):
        raise UserError(f"Slowdowns are numbers from 1 up, joined by commas, as in 1,2,4; got {text!r}.")
    return found
