"""The server: plans every site's steps, aggregates, judges on a hold-out of its own, keeps the record."""

from pathlib import Path

from amsfl.flower.deploy.builtin_app import first_model, network, scorer
from amsfl.flower.server.app import merged, serve
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    settings = merged({}, context.run_config)
    shards = Path(str(context.run_config["shards"])).expanduser()
    serve(
        grid,
        settings,
        evaluate=scorer(shards, settings["model"]),
        start=first_model(shards, settings["model"], settings["seed"]),
        network=network(shards, settings["model"]),
    )
