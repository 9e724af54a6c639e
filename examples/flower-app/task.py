"""Data, model, training loop: a made-up table of ten classes over five sites, each with a few of them."""

import time
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

CLASSES, FEATURES = 10, 40
ROWS = (2400, 1200, 1600, 800, 2000)  # of the sites
BATCH, HELD = 32, 32  # rows of a minibatch; rows that a site does not train on
torch.set_num_threads(1)


class Net(torch.nn.Sequential):
    def __init__(self) -> None:
        super().__init__(torch.nn.Linear(FEATURES, 64), torch.nn.ReLU(), torch.nn.Linear(64, CLASSES))


def train(net: Net, loader: DataLoader[Any], steps: int, lr: float, rest: float = 0.0) -> float:
    """So many steps; the mean loss. `rest` are seconds that a slow site takes for each besides."""
    criterion, total = torch.nn.CrossEntropyLoss(), 0.0
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    net.train()
    for _, (x, y) in zip(range(steps), forever(loader), strict=False):
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
        time.sleep(rest)
    return total / steps


def test(net: Net, x: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
    """Loss and accuracy."""
    net.eval()
    with torch.no_grad():
        out = net(x)
    return torch.nn.functional.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


def forever(loader: DataLoader[Any]) -> Iterator[Any]:
    while True:
        yield from loader


@cache
def load_data(site: int, seed: int) -> tuple[DataLoader[Any], torch.Tensor, torch.Tensor]:
    """A site's loader, and the rows that it holds back."""
    x, y = _rows(seed, ROWS[site], _world(seed)[1][site], site + 1)
    own = TensorDataset(x[:-HELD], y[:-HELD])
    return DataLoader(own, batch_size=BATCH, shuffle=True), x[-HELD:], y[-HELD:]


@cache
def load_test(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The server's: of what all sites have together."""
    weights = torch.tensor(ROWS) / sum(ROWS)
    return _rows(seed, 4000, weights @ _world(seed)[1], 99)


@cache
def _world(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Three clusters a class, and each site's shares of the classes."""
    draw = torch.Generator().manual_seed(seed)
    centres = torch.randn(CLASSES, 3, FEATURES, generator=draw) * 0.55
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        mix = torch.distributions.Dirichlet(torch.full((CLASSES,), 0.3))
        return centres, torch.stack([mix.sample() for _ in ROWS])


def _rows(seed: int, count: int, share: torch.Tensor, stream: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(7919 * seed + stream)
    y = torch.multinomial(share, count, replacement=True, generator=draw)
    kind = torch.randint(3, (count,), generator=draw)
    return _world(seed)[0][y, kind] + torch.randn(count, FEATURES, generator=draw), y
