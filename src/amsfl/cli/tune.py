"""`amsfl tune`: the search of `amsfl compare` alone, as a study's file."""

from pathlib import Path
from typing import Annotated

import typer

from amsfl.cli import flags
from amsfl.cli.errors import friendly
from amsfl.cli.study_options import NOT_OF_STUDIES, Config, Methods, Quiet, Trials, open_study, search
from amsfl.core.records import Json
from amsfl.settings.definitions import Simulation, Training


@friendly
@flags.takes(Training, Simulation, leave_out=NOT_OF_STUDIES)
def tune(
    settings: Json,
    methods: Methods = None,
    trials: Trials = None,
    config: Config = None,
    level: Annotated[str, typer.Option(help="quick or full (as long as it takes)")] = "quick",
    out: Annotated[Path, typer.Option(help="where to write the study")] = Path("tuned.toml"),
    quiet: Quiet = False,
) -> None:
    """Search lr and steps for every method that needs them; `amsfl compare --config` takes the file."""
    import tomli_w

    from amsfl import study
    from amsfl.record import write_atomically

    plan, dataset = open_study("compare", settings, methods, trials, config, quiet)
    tuned = search(plan, dataset, level, settings, quiet)
    write_atomically(out, tomli_w.dumps(study.to_settings_file(tuned)).encode())
    for entry, search_record in tuned.searched.items():
        typer.echo(
            f"{entry}: {', '.join(f'{key} {value:g}' for key, value in search_record['found'].items())}"
        )
    typer.echo(f"{out}; compare with 'amsfl compare --config {out} --tune none'")
