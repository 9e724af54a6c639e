"""What a command says where the system has no memory left."""

import pytest

from amsfl.cli.output import sentences


@pytest.mark.parametrize("trouble", [MemoryError(), RuntimeError("can't start new thread")])
def test_no_memory_is_a_sentence(trouble: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), sentences():
        raise trouble
    said = capsys.readouterr().err
    assert said.startswith("amsfl: ") and "memory" in said and said.count("\n") == 1


def test_other_troubles_are_ours() -> None:
    with pytest.raises(RuntimeError, match="a bug"), sentences():
        raise RuntimeError("a bug")


def test_nobody_reads_on_is_said_to_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    """As of `amsfl ... | head`: it ends quietly."""
    with pytest.raises(BrokenPipeError), sentences():
        raise BrokenPipeError(32, "Broken pipe")
    assert not capsys.readouterr().err
