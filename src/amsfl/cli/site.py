"""`amsfl supernode`: what a site runs."""

import typer

from amsfl.cli.errors import friendly

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": ["--help"]}


@friendly
def supernode(context: typer.Context) -> None:
    """Flower's SuperNode with a warm ClientApp: flags as flower-supernode has them, and --poll SECONDS.

    One process runs all messages of a run, so a round costs no process start and no imports; what the app
    needs must be installed here. --poll (0.2) says how often an idle site asks for work.
    """
    from amsfl.flower.node.supernode import main

    main(context.args)
