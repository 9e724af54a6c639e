"""What is not as it was written is noticed: one bit, one line, another format, somebody else's file."""

import shutil
import warnings
from contextlib import suppress

import pytest
from crashes import everything, flips
from record_small import manifest, model, one_round, resume, run, run_study, study_manifest

from amsfl import record
from amsfl.core import DiskError, Remark, UserError
from amsfl.record import FORMAT, RoundRecord, Summary, disk, study
from amsfl.record.disk import checksum_arrays
from amsfl.record.folder import check_same
from amsfl.settings.parse import merge_settings


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr("os.fsync", lambda file: None)


def test_a_flipped_bit_never_changes_how_a_run_ends(tmp_path):
    """Resumed from a spoiled folder: the same bits as without, or a sentence."""
    run(tmp_path / "whole")
    whole = everything(tmp_path / "whole")
    with record.create(tmp_path / "half", manifest()) as writer:
        for number in (1, 2):
            writer.append(one_round(number))
        writer.checkpoint(record.Checkpoint(2, {"x": model(2)}, {"far": float("inf"), "n": 2}))
        writer.append(one_round(3))
    ended = {"same": 0, "sentence": 0}
    for flipped in flips(tmp_path / "half", 80, seed=2):
        where = shutil.copytree(tmp_path / "half", tmp_path / "run")
        try:
            resume(where)
            assert everything(where) == whole, flipped
            ended["same"] += 1  # a round after the checkpoint: it is run again
        except DiskError:
            ended["sentence"] += 1
        shutil.rmtree(where)
    assert ended["same"] and ended["sentence"]


def test_a_damaged_end_is_left_out_with_a_word(tmp_path):
    """Lines that were changed, lost, doubled or moved: what stands before them is read."""
    with record.create(tmp_path, manifest()) as writer:
        for number in range(1, 6):
            writer.append(one_round(number))
    lines = (tmp_path / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "rounds.jsonl").write_bytes(b"".join(lines)[:-7])  # the process was killed while it wrote
    assert len(record.read_run(tmp_path).rounds) == 4
    for bad in (
        [*lines[:3], lines[3].replace(b"1", b"2", 1), lines[4]],
        [*lines[:3], lines[4]],
        [*lines[:3], lines[2], *lines[3:]],
        [*lines[:3], b"\xff\n"],
    ):
        (tmp_path / "rounds.jsonl").write_bytes(b"".join(bad))
        with pytest.warns(Remark, match="line 4.*3 rounds before it are read; 'amsfl resume"):
            assert len(record.read_run(tmp_path).rounds) == 3


def test_another_format_is_refused(tmp_path):
    run(tmp_path / "run")
    path = tmp_path / "run" / "record.json"
    found = disk.unseal(path.read_bytes())
    for other in (FORMAT - 1, FORMAT + 1, None, "2"):
        path.write_bytes(disk.seal(found | {"format": other}))
        for reader in (record.read_run, resume):
            with pytest.raises(DiskError, match=f"has format {other!r}, and this amsfl reads and writes"):
                reader(tmp_path / "run")
    path.unlink()
    with pytest.raises(UserError, match=r"holds no record: it has no record\.json"):
        resume(tmp_path / "run")
    with pytest.raises(UserError, match=r"has a file '\S+' that is no record's of this amsfl"):
        run(tmp_path / "run", force=True)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[" * 50_000, b"{}", b"null", b'{"format": 2}'])
@pytest.mark.parametrize(
    "name", ["record.json", "config.toml", "rounds.jsonl", "checkpoint.safetensors", "summary.json"]
)
def test_garbage_is_a_sentence(tmp_path, name, content):
    """Not UTF-8, nested too deep, no object: each in place of each file; and a directory in its place."""
    run(tmp_path / "run")
    (tmp_path / "run" / name).write_bytes(content)
    _refused(tmp_path / "run")
    (tmp_path / "run" / name).unlink()
    (tmp_path / "run" / name).mkdir()
    _refused(tmp_path / "run")


def _refused(where):
    for reader in (record.read_run, resume):
        # a checkpoint does not bother a reader, nor a summary or settings one who goes on
        with suppress(DiskError), warnings.catch_warnings():
            warnings.simplefilter("ignore", Remark)
            reader(where)


def test_an_ended_run_without_its_checkpoint_is_not_run_anew(tmp_path):
    run(tmp_path)
    (tmp_path / "checkpoint.safetensors").unlink()
    before = everything(tmp_path)
    with pytest.raises(DiskError, match=r"the run has ended, and it is gone.*start again with"):
        resume(tmp_path)
    assert everything(tmp_path) == before


def test_damage_in_a_study(tmp_path):
    """A trial's file cut short, swapped with another, or full of noise; the way out works."""
    run_study(tmp_path)
    one, two = (tmp_path / "trials" / entry / "0001-0001.jsonl" for entry in ("one", "two"))
    whole, good = everything(tmp_path), two.read_bytes()
    for bad in (b"", good[:-1], good[:40], good + good, one.read_bytes(), b"\x80\n", b"[" * 9999 + b"\n"):
        two.write_bytes(bad)
        with pytest.raises(DiskError, match=r"0001-0001\.jsonl' is damaged .*: remove it, and the study's"):
            record.read_study(tmp_path)
    two.unlink()
    run_study(tmp_path)
    assert everything(tmp_path) == whole


NAMES = ["../../x", "/tmp/x", "a/b", "..", ".", "", " ", ".hidden", "a\\b", "a\nb", "a\0b", "x" * 101, "C:x"]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_written_outside_of_the_folder(tmp_path, name):
    where = tmp_path / "deep" / "study"
    bad = study_manifest()._replace(methods={name: study_manifest().methods["one"]})
    lock = record.Lock(where)
    with lock, pytest.raises(UserError, match="cannot name a folder"):
        study.create(where, bad, lock)
    assert [path.name for path in tmp_path.rglob("*")] == ["deep", "study"]
    assert record.safe_name("FedAvg, lr=0.5 (50%) é", "The entry")


@pytest.mark.parametrize("name", ["summary.json", "config.toml", "checkpoint.safetensors"])
def test_files_that_are_not_ours_are_left_alone(tmp_path, name):
    (tmp_path / name).write_text("mine")
    for force in (False, True):
        with pytest.raises(UserError, match=f"has a file '{name}' that is no record's of this amsfl"):
            run(tmp_path, force=force)
    assert everything(tmp_path) == {name: b"mine"}


def test_a_report_leaves_files_alone_that_are_not_its_own(tmp_path):
    (tmp_path / "summary.json").write_text("mine")
    with pytest.raises(UserError, match=r"has a file 'summary\.json' that is no report's"):
        record.publish(tmp_path, {"report.html": b"", "summary.json": b"{}"})
    assert everything(tmp_path) == {"summary.json": b"mine"}
    (tmp_path / "summary.json").rename(tmp_path / "mine.json")
    record.publish(tmp_path, {"report.html": b"1", "old.csv": b"2"})
    record.publish(tmp_path, {"report.html": b"3"})
    assert set(everything(tmp_path)) == {"mine.json", "old.csv", "report.html", "report.json"}


def test_what_may_change_is_a_short_list(tmp_path):
    own = manifest()
    assert merge_settings(own, {"rounds": 9, "seconds": 5.0})["rounds"] == 9
    with pytest.raises(UserError, match=r"began with lr 0\.1 and cannot go on with 0\.2; what may change is"):
        merge_settings(own, {"lr": 0.2})
    check_same(own, own.made_from, {}, False)
    with pytest.raises(UserError, match="began with model 'one number' and would continue with 'two'"):
        check_same(own, own.made_from | {"model": "two"}, {}, True)
    moved = own._replace(machine={"workers": 2})
    with pytest.raises(UserError, match=r"began with workers 2 and would continue with 1: .* pass --anyway"):
        check_same(moved, own.made_from, {"workers": 1}, False)
    check_same(moved, own.made_from, {"workers": 1}, True)


def test_a_record_and_back(tmp_path):
    """Every field through JSON; what is not finite is null, and a checkpoint's is kept to the bit."""
    full = RoundRecord(1, {"sum": 1.0}, {"sum": 1.0}, 2.0, {"h": {"a": 1.0}}, [0], [3], None, 1.0, 2.0,
                       {"loss": [0.5]}, {"why": ["cap"]}, {"seconds": 0.1}, [1.0])  # fmt: skip
    assert RoundRecord.of(disk.unseal_lines(disk.seal(full._asdict()))[0][0]) == full
    for value in ({}, {"a": {"b": {}}}):
        assert disk.unseal(disk.seal(value, 1)) == disk.unseal(disk.seal(value)) == value
    numbers = __import__("numpy").zeros((2, 3))
    assert (
        checksum_arrays(numbers) != checksum_arrays(numbers.T.copy()) != checksum_arrays(numbers.astype("f4"))
    )
    run(tmp_path / "run")
    found = record.read_run(tmp_path / "run")
    assert isinstance(found.summary, Summary) and found.method["title"] == "Fake" and len(found.rounds) == 6
