"""`amsfl run` and `amsfl resume`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from amsfl.cli.errors import friendly
from amsfl.cli.progress import watching
from amsfl.core import UserError

if TYPE_CHECKING:
    from amsfl.record import Summary


def _option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, show_default=False)


@friendly
def run(
    method: Annotated[
        str | None, _option("amsfl (default), fedavg, fedprox, ...; see `amsfl methods`")
    ] = None,
    option: Annotated[
        list[str] | None, _option("hyper-parameter of the method, as in mu=0.1; repeat")
    ] = None,
    data: Annotated[
        str | None, _option("nslkdd (default), nslkdd-synth, digits or FILE.csv; see `amsfl data`")
    ] = None,
    data_dir: Annotated[str | None, _option("where the NSL-KDD files are")] = None,
    label: Annotated[str | None, _option("label column of a CSV file")] = None,
    client_column: Annotated[str | None, _option("column of a CSV file that says who owns a row")] = None,
    binary: Annotated[bool | None, _option("normal against attack instead of five classes")] = None,
    model: Annotated[str | None, _option("softmax, mlp (default), mlp:128-64, cnn")] = None,
    clients: Annotated[int | None, _option("how many clients (5)")] = None,
    cohort: Annotated[int | None, _option("clients a round (all)")] = None,
    partition: Annotated[
        str | None, _option("iid, dirichlet:0.5 (default), shards:2, quantity:0.5, column")
    ] = None,
    profile: Annotated[
        str | None, _option("how fast clients are: mild (default), a CSV, ...; see `amsfl profiles`")
    ] = None,
    clock: Annotated[str | None, _option("sum (default) or makespan: how a round's time adds up")] = None,
    rounds: Annotated[int | None, _option("stop after so many rounds (50 if nothing else stops it)")] = None,
    seconds: Annotated[float | None, _option("stop after so many virtual seconds")] = None,
    target: Annotated[float | None, _option("stop at this hold-out accuracy")] = None,
    steps: Annotated[
        int | None, _option("local steps a round (20), for methods that do not plan them")
    ] = None,
    lr: Annotated[
        float | None, _option("local learning rate (0.05), for methods that do not plan it")
    ] = None,
    batch: Annotated[int | None, _option("rows a step (64)")] = None,
    seed: Annotated[int | None, _option("partition, initial model and sampling (0)")] = None,
    mode: Annotated[str | None, _option("of method amsfl: amsfl (default), steps, paper")] = None,
    policy: Annotated[str | None, _option("who chooses the steps: auto, or a policy of `amsfl plan`")] = None,
    budget: Annotated[float | None, _option("seconds a round for the plan; none: gain per second")] = None,
    extrapolation: Annotated[float | None, _option("FedExP on top: the largest server step, as in 4")] = None,
    engine: Annotated[str | None, _option("jax (default) or loop, slow and talkative")] = None,
    precision: Annotated[str | None, _option("float32 (default) or float64")] = None,
    readings: Annotated[bool | None, _option("GDA readings on record, for any method")] = None,
    local_accuracy: Annotated[bool | None, _option("score every client's own model at the end")] = None,
    eval_every: Annotated[int | None, _option("rounds between evaluations (1)")] = None,
    checkpoint_every: Annotated[int | None, _option("rounds between checkpoints (10)")] = None,
    config: Annotated[Path | None, _option("a TOML file with the same settings; flags override it")] = None,
    out: Annotated[Path | None, _option("folder of the record (a new one under runs/)")] = None,
    force: Annotated[bool, typer.Option(help="overwrite a run in that folder")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the summary as JSON, nothing else")] = False,
) -> None:
    """Train one federated model on a virtual clock and leave a record of every round."""
    flags = {key: value for key, value in locals().items() if key not in NO_SETTING and value is not None}
    from amsfl import federation

    settings = (federation.read_toml(config) if config else {}) | flags
    if option:
        known = settings.get("options")
        settings["options"] = (known if isinstance(known, dict) else {}) | dict(map(_pair, option))
    where = out or _new_folder(settings)
    last = federation.make_config(settings)
    with watching(last, as_json) as watch:
        result = _interruptible(
            lambda: federation.run(out=where, force=force, watch=watch, **settings), where
        )
    _print(result.summary, where, as_json)


@friendly
def resume(
    folder: Annotated[Path, typer.Argument(help="the folder that `amsfl run` wrote")],
    rounds: Annotated[int | None, _option("go on to so many rounds in all")] = None,
    seconds: Annotated[float | None, _option("go on to so many virtual seconds in all")] = None,
    target: Annotated[float | None, _option("go on to this hold-out accuracy")] = None,
    data_dir: Annotated[str | None, _option("where the NSL-KDD files are now")] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="go on where the bits will not be the same; goes on record")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the summary as JSON, nothing else")] = False,
) -> None:
    """Continue a run that was stopped; it ends with the same bits as one that was not."""
    from amsfl import federation, record
    from amsfl.record.fingerprint import settings_now

    asked = {"rounds": rounds, "seconds": seconds, "target": target, "data_dir": data_dir}
    changes: dict[str, Any] = {key: value for key, value in asked.items() if value is not None}
    config = federation.make_config(settings_now(record.read_manifest(folder, "run"), changes))
    with watching(config, as_json) as watch:
        result = _interruptible(
            lambda: federation.resume(folder, watch=watch, anyway=anyway, **changes), folder
        )
    _print(result.summary, folder, as_json)


NO_SETTING = ("option", "config", "out", "force", "as_json")  # the rest are RunConfig's, name by name


def _pair(text: str) -> tuple[str, float]:
    key, _, value = text.partition("=")
    try:
        return key, float(value)
    except ValueError:
        raise UserError(f"--option {text!r} is not NAME=NUMBER, as in mu=0.1.") from None


def _new_folder(settings: dict[str, Any]) -> Path:
    """runs/DATA-METHOD-SEED, with a number behind it if that is taken: no run is ever overwritten."""
    data = Path(str(settings.get("data", "nslkdd"))).stem
    name = f"{data}-{settings.get('method', 'amsfl')}-{settings.get('seed', 0)}"
    folder, number = Path("runs") / name, 1
    while folder.exists():
        number += 1
        folder = Path("runs") / f"{name}-{number}"
    return folder


def _interruptible(work: Callable[[], Any], folder: Path) -> Any:
    from amsfl.record import holds_record

    try:
        return work()
    except KeyboardInterrupt:
        then = f"continue with 'amsfl resume {folder}'" if holds_record(folder) else "nothing was written yet"
        typer.echo(f"\namsfl: stopped; {then}.", err=True)
        raise typer.Exit(130) from None


def _print(summary: "Summary", folder: Path, as_json: bool) -> None:
    if as_json:
        from amsfl.record import dumps

        typer.echo(dumps(summary._asdict()))
    else:
        _sentences(summary, folder)
    if summary.status == "diverged":
        typer.echo(
            f"amsfl: the model stopped being finite in round {summary.rounds}; lower --lr, or run with "
            "--engine loop, which names the client and the step.",
            err=True,
        )
        raise typer.Exit(1)


def _sentences(summary: "Summary", folder: Path) -> None:
    out = Console(highlight=False)
    if summary.note:
        out.print(f"[yellow]{summary.note}[/]")
    clock = summary.clock
    out.print(
        f"[bold]{summary.method}[/] on {summary.data}: {summary.rounds} rounds, "
        f"{summary.virtual_seconds:.1f} virtual seconds ({clock} clock), "
        f"{sum(summary.steps.values())} client steps"
    )
    for split, scores in summary.metrics.items():
        out.print(f"  {split:8} accuracy {scores['accuracy']:.4f}   macro-F1 {scores['macro_f1']:.4f}")
    if summary.target is not None:
        reached = summary.seconds_to_target
        out.print(
            f"  target {summary.target}: "
            + (
                f"reached after {reached:.1f} s, round {summary.rounds_to_target}"
                if reached is not None
                else "not reached"
            )
        )
    out.print(f"  record   {folder}")
