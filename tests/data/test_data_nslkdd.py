"""NSL-KDD: finding and checking the files, parsing them, and the facts of the real ones where they are."""

import gzip
import hashlib
import io
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from amsfl.core import UserError
from amsfl.data import load, nslkdd
from amsfl.data.nslkdd import CLASSES, COLUMNS, FEATURES, LOG, VOCABULARY, traffic_data

real = pytest.mark.skipif(
    not os.environ.get("AMSFL_DATA_DIR"), reason="AMSFL_DATA_DIR does not name a folder with NSL-KDD"
)
ROW = (
    "0,tcp,ftp_data,SF,491,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,2,2,0.00,0.00,0.00,0.00,1.00,0.00,0.00,150,25,"
    "0.17,0.03,0.17,0.00,0.00,0.00,0.05,0.00,normal,20"
)


def encode(*rows: str) -> np.ndarray:
    frame = nslkdd.parse(text(*rows))
    return traffic_data("nslkdd", pd.concat([frame] * 3), frame, 0.5, 0).evals["test"][0]


def with_cell(column: str, value: str) -> str:
    cells = ROW.split(",")
    cells[[*COLUMNS, "attack", "score"].index(column)] = value
    return ",".join(cells)


def text(*rows: str) -> bytes:
    return ("\n".join(rows) + "\n").encode()


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two tiny files, train plain and test gzipped, whose hashes are the expected ones."""
    attacks = ["normal", "neptune", "satan", "guess_passwd", "rootkit"]
    train = text(*[with_cell("attack", name) for name in attacks * 4])
    test = text(*[with_cell("attack", name) for name in attacks])
    (tmp_path / "KDDTrain+.txt").write_bytes(train)
    (tmp_path / "KDDTest+.txt.gz").write_bytes(gzip.compress(test))
    for name, content in (("KDDTrain+.txt", train), ("KDDTest+.txt", test)):
        monkeypatch.setitem(nslkdd.SHA256, name, hashlib.sha256(content).hexdigest())
    return tmp_path


def test_schema_counts() -> None:
    assert len(COLUMNS) == 41 and len(FEATURES) == len(set(FEATURES)) == 122
    assert [len(words) for words in VOCABULARY.values()] == [3, 70, 11]
    assert all(list(words) == sorted(words) for words in VOCABULARY.values())


def test_encoding_of_one_row_by_hand() -> None:
    """The first row of KDDTrain+: 491 bytes out, two connections, 150 and 25 of the host's last 255."""
    x = dict(zip(FEATURES, encode(ROW)[0].tolist(), strict=True))
    expected = {
        "src_bytes": np.log(492) / np.log(1 + LOG["src_bytes"]),
        "count": np.log(3) / np.log(512),
        "srv_count": np.log(3) / np.log(512),
        "same_srv_rate": 1,
        "dst_host_count": 150 / 255,
        "dst_host_srv_count": 25 / 255,
        "dst_host_same_srv_rate": 0.17,
        "dst_host_diff_srv_rate": 0.03,
        "dst_host_same_src_port_rate": 0.17,
        "dst_host_rerror_rate": 0.05,
        "protocol_type=tcp": 1,
        "service=ftp_data": 1,
        "flag=SF": 1,
    }
    assert {name for name, value in x.items() if value} == set(expected)
    for name, value in expected.items():
        assert x[name] == pytest.approx(value, rel=1e-6)


def test_unknown_words_are_zeros_and_values_beyond_the_range_are_cut() -> None:
    x = encode(with_cell("service", "quic_over_pigeons"), with_cell("count", "99999"))
    services = [i for i, name in enumerate(FEATURES) if name.startswith("service=")]
    assert x[0, services].sum() == 0 and x[1, services].sum() == 1
    assert x[1, FEATURES.index("count")] == 1


def test_rows_without_a_score_are_fine() -> None:
    assert nslkdd.parse(text(ROW.rsplit(",", 1)[0]))["attack"].tolist() == ["normal"]


def test_plain_and_gzipped_from_a_named_folder(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMSFL_DATA_DIR", str(small))
    data = load("nslkdd")
    assert list(data.evals) == ["holdout", "test"] and data.classes == CLASSES
    assert np.bincount(data.y).tolist() == [3] * 5 and data.evals["test"][1].tolist() == [0, 1, 2, 3, 4]
    assert nslkdd.find_location() == f"found in {small}"


def test_the_cache_is_filled_by_the_mirror_once(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def reply(url: str, timeout: float) -> io.BytesIO:
        asked.append(url)
        return io.BytesIO(gzip.decompress((small / "KDDTest+.txt.gz").read_bytes()))

    monkeypatch.delenv("AMSFL_DATA_DIR", raising=False)
    monkeypatch.setattr(nslkdd, "user_cache", lambda: small / "cache")
    monkeypatch.setattr("urllib.request.urlopen", reply)
    with pytest.raises(nslkdd.Unavailable, match="UserError"):  # these are the bytes of another file
        nslkdd.download("KDDTrain+.txt")
    assert nslkdd.download("KDDTest+.txt").read_bytes() == reply("", 0).read()
    assert asked[1] == nslkdd.MIRROR + "KDDTest%2B.txt"
    (small / "cache" / "KDDTrain+.txt").write_bytes((small / "KDDTrain+.txt").read_bytes())
    assert load("nslkdd").name == "nslkdd" and len(asked) == 3


def test_a_named_folder_without_the_files_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMSFL_DATA_DIR", str(tmp_path))
    with pytest.raises(UserError, match=r"names the folder .* not hold KDDTrain\+\.txt and KDDTest\+\.txt"):
        load("nslkdd")


def test_wrong_content_names_file_and_both_hashes(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMSFL_DATA_DIR", str(small))
    (small / "KDDTrain+.txt").write_bytes(text(ROW))
    found = hashlib.sha256(text(ROW)).hexdigest()
    with pytest.raises(UserError) as error:
        load("nslkdd")
    for part in ("KDDTrain+.txt", found, nslkdd.SHA256["KDDTrain+.txt"]):
        assert part in str(error.value)


def test_damaged_gzip_is_an_error(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMSFL_DATA_DIR", str(small))
    whole = (small / "KDDTest+.txt.gz").read_bytes()
    (small / "KDDTest+.txt.gz").write_bytes(whole[:-20])
    with pytest.raises(UserError, match=r"KDDTest\+\.txt\.gz cannot be read"):
        load("nslkdd")


@real
def test_facts_of_the_real_files() -> None:
    """Row counts of Tavallaee et al. 2009 by class: normal, dos, probe, r2l, u2r."""
    data = load("nslkdd")
    x, y = data.evals["holdout"]
    test_x, test_y = data.evals["test"]
    assert (np.bincount(data.y) + np.bincount(y)).tolist() == [67343, 45927, 11656, 995, 52]
    assert np.bincount(test_y).tolist() == [9711, 7460, 2421, 2885, 67]
    assert len(set(y)) == 5 and abs(len(y) / 125_973 - 0.2) < 1e-3
    for split in (data.x, x, test_x):
        assert split.shape[1] == 122 and split.dtype == np.float32
        assert split.min() == 0 and split.max() == 1
        assert (split[:, 38:].sum(axis=1) == 3).all()  # every word of both files is in the vocabulary
    assert not data.synthetic and data.note == ""
