"""`amsfl supernode` and `amsfl doctor`: what a site runs."""

from pathlib import Path
from typing import Annotated

import typer

from amsfl.cli.errors import friendly
from amsfl.cli.output import plain
from amsfl.core import UserError

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": ["--help"]}


@friendly
def supernode(context: typer.Context) -> None:
    """Run a site: Flower's SuperNode with short rounds, the flags of flower-supernode, and --poll SECONDS.

    One process runs all messages of a run, so a round costs no process start and no imports. What the app
    needs must be installed here. An idle site asks for work every --poll seconds (0.2).
    """
    from amsfl.flower.node.supernode import main

    main(context.args)


@friendly
def doctor(
    context: typer.Context,
    superlink: Annotated[str, typer.Option(help="HOST:PORT of the SuperLink, as for amsfl supernode")] = "",
    root_certificates: Annotated[Path | None, typer.Option(help="the authority's ca.pem")] = None,
    auth_supernode_private_key: Annotated[Path | None, typer.Option(help="this site's own key")] = None,
    node_config: Annotated[str, typer.Option(help="as for amsfl supernode")] = "",
    insecure: Annotated[bool, typer.Option("--insecure", help="without TLS, as for amsfl supernode")] = False,
) -> None:
    """Check a site before it joins: versions, port, certificate, clock, key, data, and one round.

    Give it the flags of amsfl supernode; what is not given is not checked. Exit code 1 if something is wrong.
    """
    from amsfl.flower.node.doctor import NodeSettings, configured, examine

    if insecure and root_certificates:
        raise UserError("--insecure means without TLS; leave it or --root-certificates out.")
    unknown = [word for word in context.args if word.startswith("--")]
    if unknown:
        typer.echo(plain(f"not checked: {' '.join(unknown)}"))
    node = configured(node_config)
    site = NodeSettings(superlink, root_certificates, auth_supernode_private_key, node)
    bad = 0
    for finding in examine(site):
        typer.echo(plain(f"{'ok ' if finding.fine else 'BAD'} {finding.check}: {finding.text}"))
        bad += not finding.fine
    raise typer.Exit(1 if bad else 0)
