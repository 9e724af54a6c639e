"""The Flower app behind `amsfl deploy` and examples/flower-nslkdd: our models on shards from files.

Run-config: `shards` (the folder with server.npz) beside all settings of server_app.
"""

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from amsfl.core import UserError
from amsfl.core.score_names import split_target
from amsfl.flower.client.jax_client import jax_client
from amsfl.flower.deploy.shards import first_model, network, own_shard, scorer
from amsfl.flower.server.app import merged, serve

client = jax_client(own_shard)
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    settings = merged({"method": "amsfl"}, context.run_config)
    folder = Path(str(context.run_config["shards"])).expanduser()
    if not (folder / "server.npz").exists():
        raise UserError(f"There is no server.npz in {str(folder)!r}; deal the data first.")
    model, seed = str(settings.get("model", "mlp")), int(settings.get("seed", 0))
    score = str(split_target(settings).get("score", ""))
    first = first_model(folder, model, seed)
    serve(grid, settings, scorer(folder, model, score), first, network=network(folder, model))
