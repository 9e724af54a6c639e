"""How a deployment is started: its settings, how slow each client is, and what `--resume` needs of it."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from amsfl import record
from amsfl.clock import read_sites
from amsfl.clock.profile import SPENDING
from amsfl.combine import RECOMMENDED
from amsfl.core import Remark, UserError
from amsfl.flower.client import site_policy
from amsfl.flower.server.app import LENGTH, RUN
from amsfl.simulation import ServeConfig, serve_config
from amsfl.simulation.components import client_names, load_data

RECIPE = "deploy.json"  # in the record folder: how the deployment was started, for --resume
CLIENTS = "clients"  # beside it: what the clients keep
KEPT = ("*.safetensors", "privacy-*.json", "privacy-*.lock", "orders-*.jsonl")  # there
AGAIN = (*LENGTH, "give_up")  # what may change when it goes on
LIARS = f"--robust {RECOMMENDED}"  # docs/robust.md
SPENDS = {*SPENDING, "epsilon"}


class DeploySettings(NamedTuple):
    settings: dict[str, Any]
    slowdowns: list[float]
    step_seconds: float
    tls: bool
    dealt: str = ""  # checksum of the rows that were dealt
    app: str = ""  # the user's own Flower app; "": ours
    run_config: str = ""  # for keys of the user's app, as `flwr run` takes them
    spends: list[dict[str, float]] = []  # noqa: RUF012 (nobody changes it); what each client's steps and bytes cost


def protection(recipe: DeploySettings) -> str:
    """One line: what this deployment protects against, and what not."""
    settings = recipe.settings
    robust = str(settings.get("robust") or "")
    private = settings.get("epsilon") or settings.get("privacy")
    parts = [
        ("malformed, infinite and outsized replies", True, ""),
        (f"some lying clients, by {robust}" if robust else "clients that lie with care", robust, LIARS),
        ("strangers on the network", recipe.tls, "--tls"),
        ("rows read out of updates", private, "--epsilon 2"),
    ]
    kept = ", ".join(what for what, done, _ in parts if done)
    missing = ", ".join(f"{what} ({flag})" for what, done, flag in parts if not done)
    return f"Protects against {kept}" + (f"; not against {missing}." if missing else ".")


def remember(out: Path, recipe: DeploySettings) -> None:
    """Keep how it was started; a folder that holds a run keeps what it has, and the server refuses it."""
    if recipe.settings.get("force") or not record.holds_record(out):
        if (out / RECIPE).exists():
            kept_recipe(out)  # ours, or it stays as it is
        out.mkdir(parents=True, exist_ok=True)
        record.write_sealed(out / RECIPE, recipe._asdict())


def forget_clients(out: Path) -> None:
    """Remove what a deployment's clients kept in its folder: their ledgers are of the run that is replaced,
    and their rows are dealt anew. Where there is a site policy it is somebody's own, and all of it stays."""
    folder = out / CLIENTS
    if (out / RECIPE).exists() and not (folder / site_policy.FILE).exists():
        kept_recipe(out)  # ours, or it stays as it is
        for kind in KEPT:
            for path in [*folder.glob(kind)]:
                path.unlink()


def recall(out: Path, asked: DeploySettings) -> DeploySettings:
    """How the folder's deployment was started, with what the user changes now."""
    if not (out / RECIPE).exists():
        raise UserError(
            f"The folder {str(out)!r} holds no deployment to go on with; name one with --out, or start "
            "a new one without --resume."
        )
    kept = kept_recipe(out)
    if asked.app and asked.app != kept.app:
        raise UserError(
            f"The folder {str(out)!r} holds a deployment of {kept.app or 'data that amsfl dealt'}; leave "
            f"{asked.app} out to go on with it, or choose another --out."
        )
    changed = {key: asked.settings[key] for key in AGAIN if asked.settings.get(key) is not None}
    # a start with `force` forgets what clients kept, and going on must not
    kept.settings.pop("force", None)
    return kept._replace(settings={**kept.settings, **changed, "resume": True})


def kept_recipe(out: Path) -> DeploySettings:
    held = record.read_sealed(out / RECIPE, "choose another --out, or move it away.")
    return record.from_plain(DeploySettings, held)


def checked(settings: Mapping[str, Any]) -> ServeConfig:
    """The settings of the run, without what is asked of this start alone."""
    return serve_config({key: value for key, value in settings.items() if key not in RUN})


def client_speeds(
    path: Path, settings: Mapping[str, Any] | None = None
) -> tuple[list[float], float, list[dict[str, float]]]:
    """What a table says: how many times slower than the fastest each client is, the seconds of the fastest
    one's step, and what each says of joules, money and privacy.

    Clients are those of the data that the settings name. Without settings they are those of an app of the
    user's own, which have numbers: the table's rows in their order. Links are real here, so the table's other
    columns have no effect.
    """
    table = read_sites(path)
    table.need("step_seconds")
    columns = table.columns
    if settings is not None:
        config = checked(settings)
        names = client_names(config, load_data(config))
        columns = table.of(len(names) or config.clients, names).columns
    elif table.clients:
        raise UserError(
            f"{path} names its clients, and those of your own app have numbers, their partition-id; leave "
            "the column 'client' out, with the rows in that order."
        )
    unused, seconds = table.unused({"step_seconds", *SPENDS}), columns["step_seconds"]
    if unused:
        warnings.warn(unused, Remark, stacklevel=2)
    spent = {name: columns[name].tolist() for name in sorted(SPENDS & {*columns})}
    spends = [dict(zip(spent, row, strict=True)) for row in zip(*spent.values(), strict=True)]
    return (seconds / seconds.min()).tolist(), float(seconds.min()), spends
