"""The server: AMSFL in place of FedAvg, scores on rows of its own, and a record to resume from."""

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from task import Net, load_test, test

from amsfl.flower import AMSFL, RoundGrid

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    rows = load_test(int(config["seed"]))

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        net = Net()
        net.load_state_dict(arrays.to_torch_state_dict())
        loss, accuracy = test(net, *rows)
        return MetricRecord({"loss": loss, "accuracy": accuracy})

    strategy = AMSFL(
        lr=config["lr"],
        out=config["out"] or None,
        resume=config["resume"],
        min_available_nodes=config["clients"],
        fraction_evaluate=0.0,
    )
    first = ArrayRecord(Net().state_dict())
    strategy.start(RoundGrid(grid), first, num_rounds=config["rounds"], evaluate_fn=evaluate)
