"""`amsfl run` and `amsfl resume`."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import Parameter

from amsfl.cli import flags
from amsfl.cli.output import AsJson, describe_data, plain, print_json, say, screen
from amsfl.core import UserError
from amsfl.core.records import Json
from amsfl.settings.definitions import ROUNDS_AT_MOST, RunConfig, Training, marked

if TYPE_CHECKING:
    from amsfl.record import Summary

NAME_AT_MOST = 60  # characters of a data file's name in a folder's
T = TypeVar("T")
Track = Annotated[str, Parameter(help="also send rounds to tensorboard, mlflow, wandb or module:attribute")]


@flags.takes(RunConfig)
def run(
    settings: Json,
    *files: flags.TableFile,
    out: Annotated[
        Path | None,
        Parameter(help="folder of the record; a new one under runs/ by default", group=flags.MOST_USED),
    ] = None,
    config: Annotated[
        Path | None, Parameter(help="a TOML file with the same settings; flags override it")
    ] = None,
    force: Annotated[bool, Parameter(help="overwrite a run in that folder")] = False,
    track: Track = "",
    as_json: AsJson = False,
) -> None:
    """Train one federated model on a virtual clock and leave a record of every round.

    --help-all shows every setting.
    """
    from amsfl import simulation
    from amsfl.cli.progress import watching

    settings = flags.with_tables(settings, files)
    settings = flags.merged(simulation.read_toml(config) if config else {}, settings)
    checked = simulation.make_config(settings)
    if force and out is None:
        raise UserError("--force overwrites the run that --out names; name its folder: --out runs/NAME.")
    where = out or new_folder(checked)
    with watching(checked, as_json) as watch:
        result = _interruptible(
            lambda: simulation.run(
                out=where,
                force=force,
                watch=watch,
                before=None if as_json else partial(describe_data, partition=checked.partition),
                track=track,
                **settings,
            ),
            where,
        )
    _print(result.summary, where, as_json)


@flags.takes(RunConfig, only=(*marked(RunConfig, "later"), *marked(RunConfig, "own")))
def resume(
    settings: Json,
    folder: Annotated[Path, Parameter(help="the folder that `amsfl run` wrote")],
    /,
    *,
    anyway: Annotated[
        bool, Parameter(help="continue where the bits will not be the same; the record says so")
    ] = False,
    track: Track = "",
    as_json: AsJson = False,
) -> None:
    """Continue a run that was stopped; it ends with the same bits as one that was not stopped.

    A run can also be made longer (--rounds, --seconds). AMSFL lowers its learning rate towards the planned
    end, so 4 rounds made 8 give another model than 8 rounds at once.
    """
    from amsfl import simulation
    from amsfl.cli.progress import watching
    from amsfl.record import read_manifest
    from amsfl.settings.parse import merge_settings

    config = simulation.make_config(merge_settings(read_manifest(folder, "run"), settings))
    with watching(config, as_json) as watch:
        result = _interruptible(
            lambda: simulation.resume(folder, watch=watch, anyway=anyway, track=track, **settings), folder
        )
    _print(result.summary, folder, as_json)


def new_folder(config: Training) -> Path:
    """runs/DATA-METHOD-SEED, with a number behind it if that is taken: no run is ever overwritten."""
    from amsfl.data.paths import source_name

    words = (source_name(config.data)[:NAME_AT_MOST], config.method[:NAME_AT_MOST], str(config.seed))
    name = "-".join(re.sub(r"[^\w.-]+", "-", word) for word in words)
    folder, number = Path("runs") / name, 1
    while folder.exists():
        number += 1
        folder = Path("runs") / f"{name}-{number}"
    return folder


def _interruptible(work: Callable[[], T], folder: Path) -> T:
    from amsfl.record import holds_record

    try:
        return work()
    except KeyboardInterrupt:
        then = f"continue with 'amsfl resume {folder}'" if holds_record(folder) else "nothing was written yet"
        say(f"\namsfl: stopped; {then}.", stderr=True)
        raise SystemExit(130) from None


def _print(summary: "Summary", folder: Path, as_json: bool) -> None:
    if as_json:
        print_json(summary._asdict())
    else:
        _sentences(summary, folder)
    if summary.rounds == ROUNDS_AT_MOST:
        say(f"amsfl: stopped after {ROUNDS_AT_MOST:,} rounds, the most that a run does.", stderr=True)
    if summary.status == "diverged":
        say(
            f"amsfl: the model stopped being finite in round {summary.rounds}; lower --lr, or run with "
            "--engine loop, which names the client and the step.",
            stderr=True,
        )
        raise SystemExit(1)


def _sentences(summary: "Summary", folder: Path) -> None:
    from amsfl.core.scores import describe_scores
    from amsfl.record import read_manifest
    from amsfl.report.sentences import base_rates, verdict
    from amsfl.simulation.against_fedavg import sentence

    out = screen()
    if summary.note:
        out.print(plain(summary.note), style="yellow")
    spent = f"{(summary.bytes_up + summary.bytes_down) / 1e6:.4g} MB"
    spent += "" if summary.joules is None else f", {summary.joules:.4g} J"
    spent += "" if summary.cost is None else f", cost {summary.cost:.4g}"
    out.print(
        plain(f"{summary.method} on {summary.data}: {summary.rounds} rounds, ")
        + f"{summary.virtual_seconds:.1f} virtual seconds ({summary.clock} clock), "
        f"{sum(summary.steps.values())} client steps, {spent}"
    )
    for split, scores in summary.metrics.items():
        out.print(f"  {plain(split):8} {describe_scores(scores)}")
    if summary.best:
        best = summary.best
        out.print(
            f"  best     round {best['round']}, {plain(best['by'])} {best['score']:.4g} of the hold-out: the "
            "model that predicts"
        )
    made = read_manifest(folder, "run")
    if rates := base_rates(summary, made.about["data"]):
        out.print(f"  base     {rates}")
    if poor := verdict(summary, made.settings, made.about["data"]):
        out.print(poor, style="yellow")
    if summary.target is not None:
        reached = summary.seconds_to_target
        out.print(
            plain(f"  target {'' if summary.score == 'accuracy' else summary.score + ' '}{summary.target}: ")
            + (
                f"reached after {reached:.1f} s, round {summary.rounds_to_target}"
                if reached is not None
                else "not reached"
            )
        )
    if summary.epsilon:
        most = max(summary.epsilon, key=lambda name: summary.epsilon[name])
        out.print(
            f"  epsilon  {summary.epsilon[most]:.3g} at most ({plain(most)}); of each client in the record"
        )
    if saved := sentence(summary.verdict):
        out.print(f"  verdict  {saved}", soft_wrap=True)
    out.print(f"  record   {plain(str(folder))}", soft_wrap=True)
    if summary.data.startswith(("csv:", "table:")) and summary.status == "finished":
        out.print(f"  predict  amsfl predict {plain(str(folder))} NEW_ROWS.csv", soft_wrap=True)
