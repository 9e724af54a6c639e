"""FedLab: its StandalonePipeline with the FedAvg server handler and serial client trainer, evaluation off.

FedLab counts local epochs over a loader that the user's FedDataset returns, so one epoch is made `steps`
i.i.d. batches long. Its stock FedAvg averages without weights; the handler below passes the clients' row
counts to FedLab's own weighted aggregator, as FedLab's tutorials do. Its logger is quietened.
"""

import logging

import torch
from common_torch import Batches, build, client_batches, mend_torchvision, pick_threads, weights_of

from common import Clock, arguments

mend_torchvision()

from fedlab.contrib.algorithm.fedavg import FedAvgSerialClientTrainer, FedAvgServerHandler  # noqa: E402
from fedlab.contrib.dataset.basic_dataset import FedDataset  # noqa: E402
from fedlab.core.standalone import StandalonePipeline  # noqa: E402
from fedlab.utils import Aggregators, SerializationTool  # noqa: E402


class Rows(FedDataset):
    def __init__(self, loaders: list[Batches]) -> None:
        self.loaders, self.num = loaders, len(loaders)

    def get_dataloader(self, id: int, batch_size: int, type: str = "train") -> Batches:
        return self.loaders[id]


class Trainer(FedAvgSerialClientTrainer):
    """Sends the client's number of rows with its parameters."""

    def train(self, model_parameters: torch.Tensor, train_loader: Batches) -> list[torch.Tensor]:
        return [*super().train(model_parameters, train_loader), torch.tensor(float(len(train_loader.x)))]


class Handler(FedAvgServerHandler):
    def global_update(self, buffer: list[list[torch.Tensor]]) -> None:
        parameters, rows = zip(*buffer, strict=True)
        average = Aggregators.fedavg_aggregate(list(parameters), torch.stack(rows))
        SerializationTool.deserialize_model(self._model, average)


class Pipeline(StandalonePipeline):
    clock: Clock

    def evaluate(self) -> None:
        """Called at the end of every round."""
        self.clock.round(lambda: weights_of(self.handler.model))


def main() -> None:
    args = arguments()
    job, clock = args.job, Clock(args)
    threads = pick_threads(job)
    torch.manual_seed(0)
    model = build(job)
    trainer = Trainer(model, job.clients)
    trainer.setup_dataset(Rows(client_batches(job)))
    trainer.setup_optim(1, job.batch, job.lr)
    handler = Handler(model, clock.total, job.cohort / job.clients)
    logging.getLogger().setLevel(logging.WARNING)
    pipeline = Pipeline(handler, trainer)
    pipeline.clock = clock
    pipeline.main()
    clock.report("fedlab", threads=threads)


if __name__ == "__main__":
    main()
