"""How commands of a study begin: their shared flags, its file with what was typed, the data, the search."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from amsfl.cli.output import describe_data, plain, screen
from amsfl.core import UserError
from amsfl.core.records import JsonMapping
from amsfl.methods import METHODS

if TYPE_CHECKING:
    from amsfl.data import Dataset
    from amsfl.study import Study

# a study has several methods, each with its options; the rest it sets for all, or has no use for
NOT_OF_STUDIES = (
    "method",
    "options",
    "stop_at_target",
    "local_accuracy",
    "test_every",
    "readings",
    "checkpoint_every",
)
Trials = Annotated[
    int | None, typer.Option(help="trials of every method: 5 for a first look, 50 as in the paper")
]
Methods = Annotated[
    str | None, typer.Option(help="methods with commas between, as in fedavg,amsfl; all if not given")
]
Config = Annotated[
    str | None, typer.Option(help="a study's TOML file, or a built-in one: reproduce, same-lr, compare")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="print only where the report is")]


def open_study(
    built_in: str,
    settings: JsonMapping,
    methods: str | None,
    trials: int | None,
    config: str | None,
    quiet: bool,
) -> "tuple[Study, Dataset]":
    """The study and its data, told about on standard error.

    Where `amsfl compare` was told no methods, those that cannot learn from the data are left out.
    """
    from amsfl import study
    from amsfl.simulation.components import load_data

    plan = study.with_changes(study.read_study(config or built_in), parse_names(methods), trials, settings)
    console = screen(stderr=True)
    dataset = load_data(plan.config(plan.reference))
    if dataset.note:
        console.print(plain(dataset.note), style="yellow")
    if not quiet:
        describe_data(dataset)
    if built_in == "compare" and methods is None and config is None:
        plan, lines = study.without_unable(plan, dataset)
        for line in lines:
            console.print(plain(line))
    return plan, dataset


def parse_names(methods: str | None) -> list[str] | None:
    if methods is None:
        return None
    names = [METHODS.spelling(name.strip()) for name in methods.split(",") if name.strip()]
    if not names:
        raise UserError(f"--methods {methods!r} names no method; write for example --methods fedavg,amsfl.")
    return names


def check_searched(plan: "Study", level: str, fixed: Collection[str]) -> None:
    """Parts of a study cannot search each for itself."""
    from amsfl import study

    if study.search_cost(plan, level, fixed):
        raise UserError(
            "Parts of a study must agree on what was searched: search once with 'amsfl tune', then give each "
            "part --config tuned.toml --tune none. Or search nothing: --tune none."
        )


def search(
    plan: "Study",
    dataset: "Dataset",
    level: str,
    fixed: Collection[str],
    quiet: bool,
    out: Path | None = None,
) -> "Study":
    """The study with what a search finds for it; what is on record of one is not searched again."""
    from amsfl import study

    console = screen(stderr=True)
    worth = study.search_cost(plan, level, fixed)
    if worth and not quiet:
        console.print(f"Learning rate and steps are searched first, at most {worth:.0f} trials' work.")
    recorded = study.recorded_search(out) if out else {}

    def watch(entry: str) -> None:
        if not quiet:
            console.print(f"  searching for {plain(entry)} ...")

    try:
        return study.tune_study(plan, dataset, level, fixed, recorded, watch)
    except KeyboardInterrupt:
        console.print("amsfl: stopped before the first trial; --tune none searches nothing.")
        raise typer.Exit(130) from None
