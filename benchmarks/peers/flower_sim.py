"""Flower's simulation engine: stock FedAvg on Ray, two one-CPU actors, evaluation off.

A ClientApp's local loop is the user's own code, so it is the plain PyTorch loop, with model, optimizer
and data kept per actor process instead of being rebuilt for every message (Flower's examples rebuild).
`run_simulation` is deprecated in favour of `flwr run`, but needs no project folder and runs the same engine.
"""

import functools
import os
from collections.abc import Iterable

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import torch
from common import Clock, arguments, load
from common_torch import build, client_batches
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

client_app = ClientApp()


@functools.cache
def workshop() -> tuple:
    """What an actor keeps between messages."""
    torch.set_num_threads(1)
    job = load(os.environ["BENCH_JOB"])
    model = build(job)
    return job, model, torch.optim.SGD(model.parameters(), lr=job.lr), client_batches(job)


@client_app.train()
def train(message: Message, context: Context) -> Message:
    job, model, optimizer, loaders = workshop()
    client = int(context.node_config["partition-id"])
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    for x, y in loaders[client]:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    reply = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": int(job.sizes[client])}),
    }
    return Message(content=RecordDict(reply), reply_to=message)


class Timed(FedAvg):
    """FedAvg that tells the clock when a round's aggregation is done."""

    clock: Clock

    def aggregate_train(self, server_round: int, replies: Iterable[Message]):
        replies = list(replies)
        broken = [m.error.reason for m in replies if m.has_error()]
        if broken:
            raise RuntimeError(f"a client failed: {broken[0]}")
        arrays, metrics = super().aggregate_train(server_round, replies)
        self.clock.round(lambda: [a.T for a in arrays.to_numpy_ndarrays()])
        return arrays, metrics


def main() -> None:
    args = arguments()
    job, clock = args.job, Clock(args)
    os.environ["BENCH_JOB"] = os.path.abspath(args.path)
    server_app = ServerApp()

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        strategy = Timed(
            fraction_train=job.cohort / job.clients,
            fraction_evaluate=0.0,
            min_train_nodes=job.cohort,
            min_available_nodes=job.clients,
        )
        strategy.clock = clock
        strategy.start(grid, ArrayRecord(build(job).state_dict()), num_rounds=clock.total)

    resources = {"init_args": {"num_cpus": 2}, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app, client_app, num_supernodes=job.clients, backend_config=resources)
    clock.report("flwr")


if __name__ == "__main__":
    import flower_sim  # so that actors import this file by name and keep its cache; __main__ is sent by value

    flower_sim.main()
