"""pfl-research: FederatedAveraging on a SimulatedBackend, its own training loop throughout.

pfl stops local training at the end of a user's data (`local_num_steps` can only shorten it), so a user's
dataset is made when the user is sampled, as its `make_dataset_fn` allows: steps x batch rows drawn i.i.d.
from that client. Weighting is by the client's real number of rows through a weighting postprocessor.
Works alone or under `torchrun --nproc-per-node 2`, pfl's documented way to use several processes.
"""

import os

import numpy as np
import torch
from common import Clock, arguments
from common_torch import build, drawing, pick_threads, weights_of
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightingStrategy
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel


class Net(torch.nn.Module):
    """The loss and metrics methods that pfl asks of a module."""

    def __init__(self, body: torch.nn.Module) -> None:
        super().__init__()
        self.body, self.criterion = body, torch.nn.CrossEntropyLoss()

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.criterion(self.body(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict:
        return {}


class WeightByRows(WeightingStrategy):
    """WeightByDatapoints, but by the rows the client holds instead of those drawn for this round."""

    def __init__(self, sizes: np.ndarray) -> None:
        self.sizes = sizes

    def postprocess_one_user(self, *, stats, user_context):
        stats.reweight(float(self.sizes[int(user_context.user_id)]))
        return stats, Metrics()


class Rounds(TrainingProcessCallback):
    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        self.clock.round(lambda: weights_of(model.pytorch_model))
        return False, Metrics()


def main() -> None:
    args = arguments()
    job, clock = args.job, Clock(args)
    processes, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    if processes > 1:
        torch.set_num_threads(1)
    else:
        pick_threads(job)
    np.random.seed(0)  # pfl wants the same seed in every process: it draws the cohort from it
    torch.manual_seed(rank)
    draw = drawing(job)

    def make_dataset(user: int) -> PyTorchTensorDataset:
        return PyTorchTensorDataset(draw(user), user_id=str(user))

    kind = "random" if job.cohort < job.clients else "minimize_reuse"
    data = FederatedDataset(make_dataset, get_user_sampler(kind, list(range(job.clients))))
    backend = SimulatedBackend(data, data, postprocessors=[WeightByRows(job.sizes)])
    net = Net(build(job))
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    FederatedAveraging().run(
        # evaluation at iteration 0 only comes with an empty metrics dict, so it costs nothing
        NNAlgorithmParams(
            central_num_iterations=clock.total,
            evaluation_frequency=clock.total + 1,
            train_cohort_size=job.cohort,
            val_cohort_size=0,
        ),
        backend,
        model,
        NNTrainHyperParams(local_batch_size=job.batch, local_num_epochs=1, local_learning_rate=job.lr),
        None,
        [Rounds(clock)],
        send_metrics_to_platform=False,
    )
    if rank == 0:
        clock.report()


if __name__ == "__main__":
    main()
