"""`amsfl deploy`: a table as a federation, here or as a Flower project; `amsfl supernode`: a site."""

import contextlib
import io
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from amsfl.cli import flags
from amsfl.cli.output import AsJson, plain, print_json, say
from amsfl.cli.run import Track
from amsfl.core import UserError
from amsfl.core.records import Json
from amsfl.core.scores import describe_scores
from amsfl.settings.definitions import ServeConfig


@flags.takes(ServeConfig, leave_out=("clock", "profile"))
def deploy(
    settings: Json,
    table: Annotated[
        Path | None, Parameter(help="a table (FILE.csv), or the folder of a Flower app of your own")
    ] = None,
    /,
    *,
    write: Annotated[
        Path | None, Parameter(help="leave a whole Flower project in this folder, and run nothing")
    ] = None,
    run_config: Annotated[
        str,
        Parameter(help="keys of the app's run-config, as flwr run takes them: 'name=\"text\" k=1'"),
        flags.RARE,
    ] = "",
    slowdowns: Annotated[
        str, Parameter(help="how many times slower each client is, as in 1,2,4,8,2"), flags.RARE
    ] = "",
    step_seconds: Annotated[
        float,
        Parameter(
            validator=Number(gte=0, lte=3600), help="seconds that a step of the fastest client takes at least"
        ),
        flags.RARE,
    ] = 0.0,
    out: Annotated[Path, Parameter(help="folder of the record"), flags.RARE] = Path("runs/deploy"),
    resume: Annotated[bool, Parameter(help="continue from the folder's last round"), flags.RARE] = False,
    force: Annotated[bool, Parameter(help="replace a run that the folder holds"), flags.RARE] = False,
    track: Annotated[Track, flags.RARE] = "",
    as_json: Annotated[AsJson, flags.RARE] = False,
) -> None:
    """Train on a table through Flower's own messages, in this process; or run a Flower app of your own.

    With --write a whole Flower project is left in a folder: `flwr run` takes it as it is, in Flower's
    simulation and on SuperNodes.
    """
    from amsfl.flower.deploy import deploy as run
    from amsfl.flower.deploy import run_app, write_project
    from amsfl.flower.internals import pairs

    asked = {**settings, "resume": resume, "force": force}
    asked |= {"track": track, "slowdowns": slowdowns, "step_seconds": step_seconds}
    own_app = table is not None and table.is_dir() and (table / "pyproject.toml").is_file()
    if table is not None and not own_app:
        if "data" in settings:
            raise UserError(f"Both {table} and --data say what to train on; leave one of them out.")
        asked["data"] = str(table)
    elif run_config and not own_app:
        raise UserError("--run-config is for an app of your own; name its folder: amsfl deploy APP.")
    elif not own_app and "data" not in settings:
        raise UserError("Name a table, as in amsfl deploy rows.csv --label NAME, or --data digits.")
    if write is not None:
        clients = write_project(write, asked)
        where = plain(str(write))
        return say(f"A Flower project for {clients} sites is in {where}; try it: amsfl deploy {where}")
    hidden = contextlib.redirect_stdout(io.StringIO()) if as_json else contextlib.nullcontext()
    try:
        with hidden:
            if own_app and table is not None:
                given = {key.replace("_", "-"): value for key, value in asked.items() if value}
                given |= {"out": str(out.resolve()), **pairs(run_config)}
                summary = run_app(table, settings.get("clients"), given)
            else:
                summary = run(asked, out)
    except KeyboardInterrupt:
        say(f"Stopped; the rounds so far are in {out}. Go on: the same with --resume", stderr=True)
        raise SystemExit(130) from None
    if as_json:
        return print_json(summary._asdict() if summary else None, indent=1)
    if summary is None:
        return say("The app ran to its end; its record, if it keeps one, is where the app says.")
    scores = describe_scores(summary.metrics.get("holdout") or summary.metrics.get("clients") or {})
    reached = summary.seconds_to_target
    say(
        f"{summary.method}: {summary.rounds} rounds in {summary.wall['seconds']:.1f} s"
        + (f", {scores}" if scores else "")
        + (f", the best in round {summary.best['round']}" if summary.best else "")
        + (f", target {summary.target:g} after {reached:.1f} s" if reached is not None else "")
        + (f", {summary.refused} replies refused" if summary.refused else "")
        + (f", epsilon {max(summary.epsilon.values()):.3g} at most" if summary.epsilon else "")
        + f"; record in {plain(str(out))}"
    )


def supernode(
    *words: Annotated[str, Parameter(allow_leading_hyphen=True, help="further flags of flower-supernode")],
    superlink: Annotated[str, Parameter(help="HOST:PORT of the SuperLink")] = "",
    root_certificates: Annotated[Path | None, Parameter(help="the authority's ca.pem")] = None,
    auth_supernode_private_key: Annotated[Path | None, Parameter(help="this site's own key")] = None,
    node_config: Annotated[
        str, Parameter(help="what this site says of itself: 'partition-id=0 state-dir=\"/folder\"'")
    ] = "",
    insecure: Annotated[bool, Parameter(help="without TLS")] = False,
    poll: Annotated[
        float, Parameter(validator=Number(gte=0.01, lte=60), help="seconds between two questions for work")
    ] = 0.2,
    check: Annotated[
        Path | None, Parameter(help="only look at this site, and try a round of the app in that folder")
    ] = None,
) -> None:
    """Run a site: Flower's SuperNode with short rounds.

    One process runs all messages of a run, so a round costs no process start and no imports. What the app
    needs must be installed here.

    With --check APP nothing is started: versions, port, certificate, clock, key and one round of your own
    app are looked at, as far as the other flags say where they are. The exit code is 1 if something is wrong.
    """
    if insecure and root_certificates:
        raise UserError("--insecure means without TLS; leave it or --root-certificates out.")
    if check is not None:
        from amsfl.flower.internals import pairs
        from amsfl.flower.site_check import check as look

        site = (superlink, root_certificates, auth_supernode_private_key, pairs(node_config))
        raise SystemExit(0 if look(check, say, *site) else 1)
    from amsfl.flower.supernode import main

    given = {
        "--superlink": superlink,
        "--root-certificates": root_certificates,
        "--auth-supernode-private-key": auth_supernode_private_key,
        "--node-config": node_config,
    }
    flags = [word for flag, value in given.items() if value for word in (flag, str(value))]
    main([*flags, *(["--insecure"] if insecure else []), *words], poll)
