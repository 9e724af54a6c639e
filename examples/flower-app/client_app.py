"""A site: trains as many steps as the server says. `Measured` and `held-loss` are optional."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from task import Net, load_data, test, train

from amsfl.flower import Measured

app = ClientApp()


@app.train()
def train_model(message: Message, context: Context) -> Message:
    config, node, net = message.content["config"], context.node_config, Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    loader, held_x, held_y = load_data(int(node["partition-id"]), int(context.run_config["seed"]))
    steps, lr, rest = int(config["local-steps"]), float(config["lr"]), float(node.get("step-seconds", 0))
    metrics = {"num-examples": len(loader.dataset)}
    if config.get("tell", True):
        probe_x, probe_y = next(iter(loader))

        def gradient():
            loss = torch.nn.functional.cross_entropy(net(probe_x), probe_y)
            return torch.autograd.grad(loss, list(net.parameters()))

        metrics["held-loss"], _ = test(net, held_x, held_y)
        with Measured(gradient, steps, lr) as measured:
            metrics["train-loss"] = train(net, loader, steps, lr, rest)
        metrics |= measured.metrics
    else:
        metrics["train-loss"] = train(net, loader, steps, lr, rest)
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": MetricRecord(metrics)})
    return Message(content, reply_to=message)


@app.evaluate()
def evaluate_model(message: Message, context: Context) -> Message:
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    _, x, y = load_data(int(context.node_config["partition-id"]), int(context.run_config["seed"]))
    loss, accuracy = test(net, x, y)
    metrics = MetricRecord({"loss": loss, "accuracy": accuracy, "num-examples": len(y)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
