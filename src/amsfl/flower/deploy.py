"""`amsfl deploy TABLE`: a whole Flower project for a table, and a run of it in this process."""

import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from amsfl.core import UserError
from amsfl.core.algorithm import NUMBERS
from amsfl.data.files import source_name
from amsfl.flower.in_process import described, rehearse
from amsfl.flower.serving import DEALT, SIMULATED, check_method
from amsfl.flower.shards import deal
from amsfl.record import Summary, holds_record, read_run
from amsfl.settings.definitions import ServeConfig
from amsfl.settings.parse import serve_config

KEYS: dict[str, Any] = {  # of the run-config beside settings: Flower overrides only what pyproject.toml names
    "out": "",
    "resume": False,
    "force": False,
    "track": "",
    "slowdowns": "",
    "step-seconds": 0.0,
}
CLIENT = '''"""A site: its own rows, the model that all share, and whatever steps the server asks for."""

from amsfl.flower import jax_client
from amsfl.flower.shards import own_shard

app = jax_client(own_shard)
'''
SERVER = '''"""The server: plans every site's steps, averages, scores on rows of its own, keeps the record."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from amsfl.flower import Splits, merged, serve

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    splits = Splits(config["shards"], config["model"], config["seed"])
    serve(grid, merged({}, config), splits.first, evaluate=splits.evaluate, network=splits.network)
'''
README = """# {title}

A Flower app for {clients} sites, written by `amsfl deploy --write`. `data/shard-I.npz` are site I's rows,
`data/server.npz` those that the server scores by; `pyproject.toml` has all settings. In one process:

```
amsfl deploy {folder}
```

On SuperNodes, one `amsfl supernode` a site (and nothing to install at run time: amsfl is there), or in
Flower's simulation (`pip install 'flwr[simulation]'`):

```
flower-superlink --insecure --disable-runtime-dependency-installation
amsfl supernode --insecure --superlink 127.0.0.1:8000 \\
  --node-config 'partition-id=0 shard="{data}/shard-0.npz"'
flwr run {folder} local --stream
flwr run {folder} sim --stream --federation-config 'num-supernodes={clients}'
```

with `[superlink.local]` in ~/.flwr/config.toml: `address = "127.0.0.1:8000"` and `insecure = true`, and
`[superlink.sim]`: `address = ":local:"`.
"""


def write_project(where: Path, settings: Mapping[str, Any]) -> int:
    """A Flower project for a table, data and all; how many clients it has."""
    if (where / "pyproject.toml").exists():
        raise UserError(f"There is a project in {str(where)!r} already; choose another folder, or move it.")
    own = {key.replace("_", "-"): value for key, value in settings.items()}
    config = serve_config({key: settings[key] for key in settings if key.replace("_", "-") not in KEYS})
    check_method(config)  # before anything is dealt
    package, data = where / "federation", (where / "data").resolve()
    clients = len(deal(config, where / "data"))
    package.mkdir()
    for name, text in {"__init__": "", "client_app": CLIENT, "server_app": SERVER}.items():
        (package / f"{name}.py").write_text(text)
    run_config = spelled(config, clients) | KEYS | {"shards": str(data)}
    run_config |= {key: own[key] for key in KEYS if key in own}
    app = {"publisher": "local", "components": COMPONENTS, "config": run_config}
    pyproject = PROJECT | {"tool": HATCH | {"flwr": {"app": app}}}
    (where / "pyproject.toml").write_text(tomli_w.dumps(pyproject))
    title, folder = source_name(config.data), shlex.quote(str(where))
    (where / "README.md").write_text(README.format(title=title, folder=folder, data=data, clients=clients))
    return clients


def spelled(config: ServeConfig, clients: int) -> dict[str, Any]:
    """Every setting that real clients have, as a run-config spells it; "": not set."""
    values = config.model_dump(exclude=SIMULATED | DEALT | {"clock", "options"})
    values |= {"clients": clients, "lr": config.lr or NUMBERS.lr}  # rows are standardised
    options = {f"options.{key}": value for key, value in config.options.items()}
    return {key.replace("_", "-"): "" if value is None else value for key, value in values.items()} | options


COMPONENTS = {"serverapp": "federation.server_app:app", "clientapp": "federation.client_app:app"}
HATCH: dict[str, Any] = {"hatch": {"build": {"targets": {"wheel": {"packages": ["federation"]}}}}}
PROJECT: dict[str, Any] = {
    "build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"},
    "project": {
        "name": "federation",
        "version": "1.0.0",
        "description": "A table over several sites",
        "dependencies": ["amsfl[flower]"],
    },
}


def deploy(settings: Mapping[str, Any], out: Path) -> Summary:
    """Deal a table, and train on it by the project that `write_project` leaves, in this process."""
    with tempfile.TemporaryDirectory(prefix="amsfl-") as home:
        where = Path(home) / "project"
        clients = write_project(where, settings)
        summary = run_app(where, clients, {"out": str(out.resolve())})
    assert summary is not None  # else the run has failed, and said so
    return summary


def run_app(folder: Path, clients: int | None, run_config: Mapping[str, Any]) -> Summary | None:
    """Any Flower app in this process; the summary, if its server keeps a record of ours."""
    own = described(folder)[1]
    config = own | {key: value for key, value in run_config.items() if key in own or key != "out"}
    number = clients or config.get("clients") or config.get("num-supernodes")
    if not isinstance(number, int) or number < 1:
        raise UserError("How many clients the app wants is not in its run-config; say it: --clients 3.")
    out = Path(str(config["out"])).expanduser() if config.get("out") else None
    state = {"state-dir": str(out / "clients")} if out else {}
    nodes = [{"partition-id": place, "num-partitions": number, **state} for place in range(number)]
    rehearse(folder, nodes, config)
    return read_run(out).summary if out is not None and holds_record(out) else None
