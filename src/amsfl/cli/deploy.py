"""`amsfl deploy`: real clients on this machine; `amsfl supernode`: what a site runs."""

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
from amsfl.settings.definitions import ServeConfig, Training


@flags.takes(ServeConfig, leave_out=("clock", "profile"))
def deploy(
    settings: Json,
    app: Annotated[
        Path | None,
        Parameter(help="the folder of your own Flower app; without it, --data is dealt and ours trains"),
    ] = None,
    /,
    *,
    run_config: Annotated[
        str,
        Parameter(help="keys of your own app's run-config, as flwr run takes them: 'name=\"text\" k=1'"),
    ] = "",
    slowdowns: Annotated[
        str | None, Parameter(help="how many times slower each client is, as in 1,2,4,8,2")
    ] = None,
    step_seconds: Annotated[
        float,
        Parameter(
            validator=Number(gte=0, lte=3600), help="seconds that a step of the fastest client takes at least"
        ),
    ] = 0.0,
    profile: Annotated[
        Path | None,
        Parameter(help="a table of sites, as for amsfl run: a client's steps take at least its step_seconds"),
    ] = None,
    tls: Annotated[
        bool, Parameter(help="encrypt, and let SuperNodes prove who they are; makes the keys")
    ] = False,
    out: Annotated[Path, Parameter(help="folder of the record")] = Path("runs/deploy"),
    resume: Annotated[bool, Parameter(help="continue from the folder's last round")] = False,
    force: Annotated[bool, Parameter(help="replace a run that the folder holds")] = False,
    track: Track = "",
    dry_run: Annotated[bool, Parameter(help="print what would be started, and start nothing")] = False,
    log: Annotated[str, Parameter(help="how rounds and refusals are printed: text or json")] = "text",
    metrics_port: Annotated[
        int,
        Parameter(
            validator=Number(gte=0, lte=65535),
            help="the server's numbers for Prometheus, on loopback; 0: none",
        ),
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Start a SuperLink and SuperNodes on this machine, train, and leave nothing running.

    With APP, the SuperNodes run your own Flower app, and settings that you give go into its run-config.
    Clients made by amsfl.flower are slowed as asked; others find slowdown and step-seconds in their
    node-config.
    """
    from amsfl.flower.deploy.recipe import DeploySettings, client_speeds
    from amsfl.flower.deploy.run import describe, launch
    from amsfl.flower.server.scoring import deciding_split
    from amsfl.simulation.against_fedavg import sentence
    from amsfl.track import trackers_of

    asked = dict(settings) if app else {"data": Training.model_fields["data"].default, **settings}
    asked |= {"resume": True} if resume else {"force": True} if force else {}
    if log not in ("text", "json"):
        raise UserError(f"--log is {log!r}; it may be text or json.")
    asked |= {"log": log} if log != "text" else {}
    asked |= {"metrics_port": metrics_port} if metrics_port else {}
    asked |= (
        {"track": track} if trackers_of(track) else {}
    )  # one that is not there is said before anything starts
    quiet = (lambda line: None) if as_json else say
    slow, spends = _numbers(slowdowns), list[dict[str, float]]()
    if run_config and app is None:
        raise UserError("--run-config is for an app of your own; name its folder: amsfl deploy APP.")
    if profile is not None:
        if slow or step_seconds:
            raise UserError(
                "A profile says how slow each client is; leave --slowdowns and --step-seconds out."
            )
        slow, step_seconds, spends = client_speeds(profile, None if app else asked)
        if any("epsilon" in each for each in spends):  # budgets of the sites' own: as in a simulation
            asked.setdefault("privacy", "record")
            spends = [each | {key: asked[key] for key in ("delta",) if key in asked} for each in spends]
    try:
        mine = str(app.expanduser().resolve()) if app else ""
        recipe = DeploySettings(
            asked, slow, step_seconds, tls, app=mine, run_config=run_config, spends=spends
        )
        if dry_run:
            for line in describe(recipe, out):
                say(line)
            return
        summary = launch(recipe, out, quiet)
    except KeyboardInterrupt:
        say(f"Stopped; the rounds so far are in {out}. Go on: amsfl deploy --resume --out {out}", stderr=True)
        raise SystemExit(130) from None
    if as_json:
        return print_json(summary._asdict() if summary else None, indent=1)
    if summary is None:
        say(
            "The app ran to its end. Its server is not amsfl's and kept no record here; clients were slowed "
            "if they are amsfl's, or read slowdown and step-seconds from their node-config."
        )
        return
    reached = summary.seconds_to_target
    scores = describe_scores(deciding_split(summary.metrics))
    score = f", {scores}" if scores else ""
    say(
        f"{summary.method}: {summary.rounds} rounds in {summary.wall['seconds']:.1f} s of a wall clock{score}"
        + (f", the best in round {summary.best['round']}, which predicts" if summary.best else "")
        + (f", target {summary.target:g} after {reached:.1f} s" if reached is not None else "")
        + (f", {summary.refused} replies refused" if summary.refused else "")
        + (f", epsilon {max(summary.epsilon.values()):.3g} at most" if summary.epsilon else "")
        + f"; steps by client {summary.steps}; record in {plain(str(out))}"
    )
    if saved := sentence(summary.verdict):
        say(f"{saved}.")


def _numbers(text: str | None) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")] if text else []
    except ValueError:
        values = [0.0]
    if any(not 1 <= value <= 1e6 for value in values):
        raise UserError(
            f"Slowdowns are numbers from 1 to 1,000,000, joined by commas, as in 1,2,4; got {text!r}."
        )
    return values


def supernode(
    *words: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="flags of flower-supernode, --poll, --check")
    ],
) -> None:
    """Run a site: Flower's SuperNode with short rounds, the flags of flower-supernode, and --poll SECONDS.

    One process runs all messages of a run, so a round costs no process start and no imports. What the app
    needs must be installed here. An idle site asks for work every --poll seconds (0.2).

    With --check nothing is started: versions, port, certificate, clock, key, data and one round are looked
    at, as far as the other flags say where they are. The exit code is 1 if something is wrong.
    """
    passed_on = [word for word in words if word != "--check"]
    if len(passed_on) < len(words):
        from amsfl.flower.node.doctor import check

        raise SystemExit(1 if check(passed_on, say) else 0)
    from amsfl.flower.node.supernode import main

    main(passed_on)
