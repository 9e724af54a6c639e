"""Folders that are links, are read-only, belong to others, are of another amsfl, or were damaged."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from federation_small import SMALL, own_data
from torture import everything, flips
from typer.testing import CliRunner

import amsfl
from amsfl import portable, record
from amsfl.cli.app import app
from amsfl.core import DiskError, UserError
from amsfl.portable.export import export
from amsfl.record import sealed_text

NOBODY = 65534


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("folders")
    amsfl.run(dataset=own_data(), out=where / "run", details=False, **SMALL)
    export(portable.load(where / "run"), "sklearn", where / "export")
    return where


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without a root's rights, where tests run as root."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if was == 0:
            os.seteuid(0)


def reachable(folder: Path) -> None:
    for part in (folder, *folder.parents):
        if part.stat().st_uid == os.getuid() and part != Path("/"):
            part.chmod(part.stat().st_mode | 0o055)


def call(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_read_only_folders(home: Path, tmp_path: Path) -> None:
    """Every command that writes has one sentence and leaves the folder as it was; readers do not mind."""
    (home / "rows.csv").write_text("a,b\n1,2\n")
    for command in (  # once with all rights: what a command imports may be out of nobody's reach
        ("report", home / "run", "--out", home / "report"),
        ("predict", home / "run", home / "rows.csv", "--out", home / "predicted.csv"),
        ("run", "--data", "digits", "--engine", "loop", "--rounds", 1, "--out", home / "digits"),
    ):
        done = call(*command)
        assert done.exit_code == 0, (command, done.output)
    shutil.copytree(home / "run", tmp_path / "run")
    reachable(tmp_path / "run")
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    before = everything(tmp_path)
    for folder in (tmp_path / "run", tmp_path):
        folder.chmod(0o555)
    try:
        with as_nobody():
            assert record.verify(tmp_path / "run").good
            assert portable.load(tmp_path / "run").predict({"a": [1.0], "b": [0.0]}) == ["yes"]
            for command in (
                ("export", tmp_path / "run", "--to", "sklearn"),
                ("predict", tmp_path / "run", tmp_path / "rows.csv", "--out", tmp_path / "p.csv"),
                ("report", tmp_path / "run", "--out", tmp_path / "report"),
                ("run", "--data", "digits", "--out", tmp_path / "new"),
            ):
                done = call(*command)
                assert done.exit_code == 1 and done.stderr.count("\n") == 1, (command, done.output)
                assert "Permission denied" in done.stderr
            with pytest.raises(DiskError, match="cannot be"):
                amsfl.resume(tmp_path / "run", dataset=own_data(), rounds=6)
    finally:
        for folder in (tmp_path, tmp_path / "run"):
            folder.chmod(0o755)
    assert everything(tmp_path) == before


def test_a_folder_that_is_a_link(home: Path, tmp_path: Path) -> None:
    """A link to a folder is that folder: users mount disks so. A link within a record is refused."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    result = amsfl.run(dataset=own_data(), out=tmp_path / "link", details=False, **SMALL)
    assert record.verify(tmp_path / "link").good and (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "model.safetensors").is_file()
    assert portable.load(tmp_path / "link", "last").predict(own_data().x).tolist() == (
        result.predict(own_data().x).tolist()
    )
    outside = tmp_path / "outside.jsonl"
    (tmp_path / "real" / "rounds.jsonl").rename(outside)
    (tmp_path / "real" / "rounds.jsonl").symlink_to(outside)
    before = outside.read_bytes()
    with suppress(DiskError, UserError):
        amsfl.resume(tmp_path / "link", dataset=own_data(), rounds=6)
    assert outside.read_bytes() == before, "nothing is written through a link"


def test_a_folder_of_somebody_elses_files(home: Path, tmp_path: Path) -> None:
    foreign = {"notes.txt": b"mine", "model.safetensors": b"mine too", "report.html": b"and this"}
    for name, content in foreign.items():
        (tmp_path / name).write_bytes(content)
    assert call("export", home / "run", "--to", "sklearn", "--out", tmp_path).exit_code == 2
    assert call("report", home / "run", "--out", tmp_path).exit_code == 2
    with pytest.raises(UserError):
        amsfl.run(dataset=own_data(), out=tmp_path, **SMALL)
    for name, content in foreign.items():
        assert (tmp_path / name).read_bytes() == content


@pytest.mark.parametrize("change", ["a field more", "a field less", "layer", "column"])
def test_models_of_other_versions(home: Path, tmp_path: Path, change: str) -> None:
    """model.json of another amsfl: read if it can be, else a sentence that names both versions."""
    where = shutil.copytree(home / "export", tmp_path / "export")
    about = json.loads((where / "model.json").read_text())
    del about["crc"]
    about["about"]["version"] = "9.9"
    if change == "a field more":
        about["something"] = 1
    elif change == "a field less":
        del about["features"]
    elif change == "layer":
        about["layers"][0]["kind"] = "unheard of"
    else:
        about["recipe"] = {"columns": [{"name": "a"}]}
    (where / "model.json").write_bytes(sealed_text.seal(about))
    if change == "a field more":
        portable.load(where)
    else:
        with pytest.raises(DiskError, match=r"amsfl 9\.9"):
            portable.load(where).predict(own_data().x)


def test_flipped_bits_of_models_and_exports(home: Path, tmp_path: Path, torture: bool) -> None:
    """Predictions are the same as before, or there is a sentence."""
    rows, count = own_data().x, 400 if torture else 40
    for name in ("run", "export"):
        where = shutil.copytree(home / name, tmp_path / name)
        expected = portable.load(where).predict_proba(rows)
        refusals = 0
        for flipped in flips(where, count, seed=4):
            try:
                assert (portable.load(where).predict_proba(rows) == expected).all(), flipped
            except DiskError:
                refusals += 1
        assert refusals
        print(f"{count} flipped bits in a folder with a model ({name}), {refusals} refused")
