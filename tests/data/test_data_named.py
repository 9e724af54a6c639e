"""Data by name against their definitions."""

import gzip
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from amsfl.core import UserError
from amsfl.data import load, named
from amsfl.data.dataset import random_stream


def test_synthetic_is_drawn_by_its_definition() -> None:
    """y = argmax(x W_k + b_k) with W_k, b_k ~ N(u_k, 1), x_j ~ N(v_kj, j^-1.2), v_k ~ N(B_k, 1)."""
    rng, xs, ys = random_stream(0, "synthetic"), [], []
    sizes = [int(size) + 50 for size in rng.lognormal(4, 2, 30)]
    u, b = rng.normal(0, 0.5, 30), rng.normal(0, 2, 30)
    for site in range(30):
        w, bias = rng.normal(u[site], 1, (60, 10)), rng.normal(u[site], 1, 10)
        v = rng.normal(b[site], 1, 60)
        for z in rng.standard_normal((sizes[site], 60)):
            x = [v[j] + ((j + 1) ** -1.2) ** 0.5 * z[j] for j in range(60)]
            xs.append(x)
            ys.append(max(range(10), key=lambda c, x=x, w=w, bias=bias: np.dot(x, w[:, c]) + bias[c]))
    data = load("synthetic:0.5,2")
    whole = np.concatenate([data.x, data.evals["holdout"][0]])
    assert len(whole) == sum(sizes)
    np.testing.assert_allclose(np.sort(whole[:, 0]), np.sort(np.array(xs)[:, 0]), rtol=1e-5)
    labels = np.concatenate([data.y, data.evals["holdout"][1]])
    assert (np.bincount(labels, minlength=10) == np.bincount(ys, minlength=10)).all()
    assert data.sites is not None
    held = np.array(sizes) - np.bincount(data.sites)
    assert (np.abs(held - 0.1 * np.array(sizes)) <= 1).all()  # a tenth of every site
    assert (load("synthetic:0.5,2").x == data.x).all()


def test_synthetic_needs_two_numbers() -> None:
    for wrong in ("synthetic", "synthetic:1", "synthetic:-1,1", "synthetic:a,b"):
        with pytest.raises(UserError, match="synthetic:1,1"):
            load(wrong)


def write_images(folder: Path, rows: int) -> dict[str, str]:
    """idx files: heads of 16 and 8 bytes, then pixels and labels; one of them packed."""
    sums = {}
    for part in ("train", "t10k"):
        images = bytes(16) + bytes(range(256)) * 4 * rows
        images, labels = images[: 16 + 784 * rows], bytes(8) + bytes(k % 10 for k in range(rows))
        names = f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"
        (folder / f"{names[0]}.gz").write_bytes(gzip.compress(images))
        (folder / names[1]).write_bytes(labels)
        sums |= {names[0]: sha256(images).hexdigest(), names[1]: sha256(labels).hexdigest()}
    return sums


def test_fashion_mnist_is_read_from_a_folder_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="dataset-fashion-mnist"):
        load(f"fashion-mnist:{tmp_path}")
    sums = write_images(tmp_path, 20)
    with pytest.raises(UserError, match="not what"):
        load(f"fashion-mnist:{tmp_path}")
    monkeypatch.setattr(named, "FASHION", sums)
    data = load(f"fashion-mnist:{tmp_path}")
    assert data.x.shape == (20, 784)
    assert data.x[0, :3].tolist() == [0.0, np.float32(1 / 255), np.float32(2 / 255)]
    assert data.y.tolist() == [k % 10 for k in range(20)]
    assert len(data.evals["holdout"][1]) == 20
    assert data.recipe is not None and data.recipe.columns[0].scale == 255
