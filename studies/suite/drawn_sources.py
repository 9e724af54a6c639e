"""Sets of the fresh cases that are drawn at random: the same ones every time."""

import numpy as np

from .tables import Table


def overlap() -> Table:
    """Six classes of two heaps each in ten of twenty dimensions; heaps of different classes overlap."""
    rng = np.random.default_rng(6)
    y = rng.integers(6, size=4000)
    heaps = 1.1 * rng.normal(size=(6, 2, 10))
    x = heaps[y, rng.integers(2, size=len(y))] + rng.normal(size=(len(y), 10))
    return Table(np.hstack([x, rng.normal(size=(len(y), 10))]), y)


def bars() -> Table:
    """Images of 10 x 10: a bar of one of eight directions somewhere in them, under noise."""
    rng, side = np.random.default_rng(8), 10
    y = rng.integers(8, size=4000)
    angle, centre = y * np.pi / 8 + rng.normal(0, 0.08, len(y)), rng.uniform(3, 6, (len(y), 2))
    across, down = np.meshgrid(np.arange(side), np.arange(side))
    sideways = (across[None] - centre[:, :1, None]) * np.sin(angle)[:, None, None]
    sideways = sideways - (down[None] - centre[:, 1:, None]) * np.cos(angle)[:, None, None]
    images = np.exp(-(sideways**2)) + rng.normal(0, 0.35, sideways.shape)
    return Table(images.reshape(len(y), -1), y, scaled=False)


def shapes() -> Table:
    """Images of 12 x 12: a disc, ring, square, frame, cross or triangle somewhere, under noise."""
    rng, side = np.random.default_rng(12), 12
    y = rng.integers(6, size=4000)
    down, across = np.mgrid[:side, :side][:, None] - rng.uniform(4, 7, (2, len(y), 1, 1))
    size = rng.uniform(2, 4, (len(y), 1, 1))
    far, wide = np.hypot(down, across), np.maximum(abs(down), abs(across))
    cross = (np.minimum(abs(down), abs(across)) < 0.8) & (wide < size)
    triangle = (abs(across) < (down + size) / 2) & (down < size)
    kinds = far < size, abs(far - size) < 0.8, wide < size, abs(wide - size) < 0.8, cross, triangle
    images = np.stack(kinds)[y, np.arange(len(y))] + rng.normal(0, 0.5, far.shape)
    return Table(images.reshape(len(y), -1), y, scaled=False)


def arms() -> Table:
    """Points in the plane: five arms of a spiral."""
    rng = np.random.default_rng(15)
    y, along = rng.integers(5, size=4000), rng.uniform(0.15, 1, 4000)
    angle = 2 * np.pi * (y / 5 + 0.7 * along) + rng.normal(0, 0.15, len(y))
    return Table(np.c_[along * np.cos(angle), along * np.sin(angle)], y)


def waves() -> Table:
    """Images of 10 x 10: one of eight waves, four directions of two lengths, under noise."""
    rng = np.random.default_rng(20)
    y = rng.integers(8, size=4000)
    down, across = np.mgrid[:10, :10][:, None]
    angle, length = (y % 4 * np.pi / 4)[:, None, None], np.where(y < 4, 3.0, 5.0)[:, None, None]
    phase = rng.uniform(0, 2 * np.pi, (len(y), 1, 1))
    along = down * np.sin(angle) + across * np.cos(angle)
    images = np.cos(2 * np.pi * along / length + phase) + rng.normal(0, 1.2, (len(y), 10, 10))
    return Table(images.reshape(len(y), -1), y, scaled=False)


def heaps() -> Table:
    """Twelve classes of one heap each in eight dimensions, each with a shape of its own."""
    rng = np.random.default_rng(21)
    y = rng.integers(12, size=6000)
    centre, turn = 1.6 * rng.normal(size=(12, 8)), rng.normal(size=(12, 8, 8)) / 8**0.5
    return Table(centre[y] + np.einsum("nij,nj->ni", turn[y], rng.normal(size=(len(y), 8))), y)


def patches() -> Table:
    """Images of 10 x 10: in which of nine places the brightest patch is, under noise."""
    rng = np.random.default_rng(22)
    y = rng.integers(9, size=4000)
    bright = rng.uniform(0, 0.6, (len(y), 9))
    bright[np.arange(len(y)), y] = 1.0
    images = np.zeros((len(y), 10, 10))
    for place in range(9):
        row, column = divmod(place, 3)
        images[:, 3 * row : 3 * row + 3, 3 * column : 3 * column + 3] = bright[:, place, None, None]
    return Table((images + rng.normal(0, 0.4, images.shape)).reshape(len(y), -1), y, scaled=False)


def shells() -> Table:
    """Points in four dimensions: five shells around one centre."""
    rng = np.random.default_rng(23)
    y, x = rng.integers(5, size=5000), rng.normal(size=(5000, 4))
    radius = (y + 1 + rng.normal(0, 0.25, len(y)))[:, None]
    return Table(x / np.linalg.norm(x, axis=1, keepdims=True) * radius, y)


def checks() -> Table:
    """Points on a board of 4 x 4 fields in four colours, near the edges of a field often the next one's."""
    rng = np.random.default_rng(31)
    x = rng.uniform(0, 4, (4000, 2))
    across, down = np.clip(np.floor(x + rng.normal(0, 0.12, x.shape)), 0, 3).astype(int).T
    return Table(x, (across + 2 * down) % 4)


def strokes() -> Table:
    """Images of 10 x 10: two strokes, each upright, level or slanting either way; the class is the pair."""
    rng, side = np.random.default_rng(33), 10
    kinds = rng.integers(4, size=(7000, 2))
    down, across = np.mgrid[:side, :side][:, None]
    images = rng.normal(0, 0.3, (len(kinds), side, side))
    for kind in kinds.T:
        angle, (top, left) = (kind * np.pi / 4)[:, None, None], rng.uniform(2.5, 6.5, (2, len(kind), 1, 1))
        away = (down - top) * np.cos(angle) - (across - left) * np.sin(angle)
        along = (down - top) * np.sin(angle) + (across - left) * np.cos(angle)
        images += np.exp(-(away**2)) * (abs(along) < 3)
    low, high = np.sort(kinds, axis=1).T
    return Table(images.reshape(len(kinds), -1), 4 * low + high, scaled=False)


def corners() -> Table:
    """Points in six dimensions: on which side of three planes they are, near a plane often on the other."""
    rng = np.random.default_rng(41)
    x, planes = rng.normal(size=(4000, 6)), np.linalg.qr(rng.normal(size=(6, 3)))[0]
    sides = x @ planes + rng.normal(0, 0.15, (len(x), 3)) > 0
    return Table(x, sides @ np.array([1, 2, 4]))


def knots() -> Table:
    """Images of 10 x 10: two dots under noise; the class is how far apart, and in which direction."""
    rng, side = np.random.default_rng(51), 10
    y = rng.integers(8, size=4000)
    angle, apart = y % 4 * np.pi / 4 + rng.normal(0, 0.1, len(y)), np.where(y < 4, 1.5, 2.8)
    centre, way = rng.uniform(3.5, 5.5, (2, len(y))), apart * np.stack([np.sin(angle), np.cos(angle)])
    down, across = np.mgrid[:side, :side][:, None]
    images = rng.normal(0, 0.3, (len(y), side, side))
    for top, left in (centre + way, centre - way):
        images += np.exp(-((down - top[:, None, None]) ** 2) - (across - left[:, None, None]) ** 2)
    return Table(images.reshape(len(y), -1), y, scaled=False)


def signs() -> Table:
    """Images of 12 x 12: one of ten random signs of 6 x 6 somewhere, under noise."""
    rng, side = np.random.default_rng(52), 12
    y, corner = rng.integers(10, size=5000), rng.integers(side - 5, size=(2, 5000))
    signs, images = rng.random((10, 6, 6)) < 0.5, rng.normal(0, 0.6, (5000, side, side))
    for image, sign, top, left in zip(images, signs[y], *corner, strict=True):
        image[top : top + 6, left : left + 6] += sign
    return Table(images.reshape(len(y), -1), y, scaled=False)


def petals() -> Table:
    """Points in five dimensions: seven heaps, drawn out along ways of their own from one middle."""
    rng = np.random.default_rng(53)
    y, along = rng.integers(7, size=5000), rng.uniform(0.3, 2, 5000)
    ways = rng.normal(size=(7, 5))
    ways = ways / np.linalg.norm(ways, axis=1, keepdims=True)
    return Table(ways[y] * along[:, None] + rng.normal(0, 0.25, (len(y), 5)), y)


DRAWN = (
    overlap,
    bars,
    shapes,
    arms,
    waves,
    heaps,
    patches,
    shells,
    checks,
    strokes,
    corners,
    knots,
    signs,
    petals,
)
