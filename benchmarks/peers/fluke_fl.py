"""fluke: CentralizedFL with its own Client and Server (both are FedAvg by default), evaluation off.

fluke counts local epochs, so one epoch is made `steps` batches long by a FastDataLoader (its own, fast
loader) that draws them i.i.d.; its own shuffle would permute all of a client's rows for 20 batches.
"""

import numpy as np
import torch
from common_torch import Batches, build, client_batches, mend_torchvision, pick_threads, weights_of

from common import Clock, arguments

mend_torchvision()

from fluke import FlukeENV  # noqa: E402
from fluke.algorithms import CentralizedFL  # noqa: E402
from fluke.client import Client  # noqa: E402
from fluke.config import OptimizerConfigurator  # noqa: E402
from fluke.data import FastDataLoader  # noqa: E402
from fluke.server import Server  # noqa: E402
from fluke.utils import FederationObserver  # noqa: E402


class Steps(FastDataLoader):
    def __init__(self, batches: Batches, labels: int) -> None:
        super().__init__(batches.x, batches.y, num_labels=labels, batch_size=batches.batch)
        self.batches, self.n_batches = batches, batches.steps

    def __iter__(self):
        return iter(self.batches)


class Rounds(FederationObserver):
    def __init__(self, clock: Clock, server: Server) -> None:
        self.clock, self.server = clock, server

    def end_round(self, round: int) -> None:
        self.clock.round(lambda: weights_of(self.server.model))


def main() -> None:
    args = arguments()
    job, clock = args.job, Clock(args)
    threads = pick_threads(job)
    FlukeENV().set_seed(0)
    FlukeENV().set_eval_cfg(server=False, locals=False, pre_fit=False, post_fit=False)
    labels = len(job.weights[-1])  # the last layer's biases
    optimizer = OptimizerConfigurator({"name": torch.optim.SGD, "lr": job.lr})
    clients = [
        Client(
            index=i,
            train_set=Steps(batches, labels),
            test_set=None,
            optimizer_cfg=optimizer,
            loss_fn=torch.nn.CrossEntropyLoss(),
            local_epochs=1,
        )
        for i, batches in enumerate(client_batches(job))
    ]
    server = Server(build(job), None, np.array(clients, dtype=object), weighted=True)
    algorithm = CentralizedFL(job.clients, None, {}, clients=clients, server=server)
    algorithm.set_callbacks([Rounds(clock, server)])
    algorithm.run(n_rounds=clock.total, eligible_perc=job.cohort / job.clients)
    clock.report("fluke-fl", threads=threads)


if __name__ == "__main__":
    main()
