"""AdamW with a schedule and clipped gradients: this site's digits."""

import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

from amsfl.flower import torch_client


def model():
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))


def loader(context):
    x, y = (torch.tensor(p[context.node_config["partition-id"] :: 3]) for p in load_digits(return_X_y=True))
    return DataLoader(TensorDataset(x.float() / 16, y), batch_size=32, shuffle=True)


def schedule(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.98)


app = torch_client(model, loader, loader, optimizer=torch.optim.AdamW, schedule=schedule, clip=1.0)
