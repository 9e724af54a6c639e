"""Data by name against their definitions."""

import gzip
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from amsfl.core import UserError
from amsfl.data import load, named


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
