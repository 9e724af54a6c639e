"""Batches that are dictionaries, with text in them, and a metric of one's own."""

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from amsfl.flower import torch_client


def loader(context):
    site = context.node_config["partition-id"]
    x, y = (torch.tensor(part[site::3]) for part in load_digits(return_X_y=True))
    rows = [{"id": f"{site}-{k}", "pixels": x[k].float() / 16, "digit": y[k]} for k in range(len(y))]
    return DataLoader(rows, batch_size=32, shuffle=True)


def batch_loss(module, batch):
    return cross_entropy(module(batch["pixels"]), batch["digit"])


def metrics(module, batch):
    return {"right": (module(batch["pixels"]).argmax(1) == batch["digit"]).float().mean()}


app = torch_client(lambda: torch.nn.Linear(64, 10), loader, loader, batch_loss=batch_loss, metrics=metrics)
