"""The task file that FLGo asks of a user: data, loader, loss and model (see fl_go.py)."""

import os

import torch
from common_torch import Batches, build, tensors

from common import load

job = load(os.environ["BENCH_JOB"])
x, y = tensors(job)
train_data = [torch.utils.data.TensorDataset(x[job.rows(i)], y[job.rows(i)]) for i in range(job.clients)]
criterion = torch.nn.CrossEntropyLoss()


class DataLoader:
    """FLGo lets a task bring its own loader; torch's collates row by row."""

    def __init__(self, dataset, batch_size=64, **_) -> None:
        self.batches = Batches(*dataset.tensors, job.steps, int(batch_size))

    def __iter__(self):
        return iter(self.batches)


def data_to_device(batch, device):
    return batch[0].to(device), batch[1].to(device)


def compute_loss(model, batch, device):
    features, labels = data_to_device(batch, device)
    return {"loss": criterion(model(features), labels)}


def eval(model, loader, device):
    return {}


def get_model():
    return build(job)
