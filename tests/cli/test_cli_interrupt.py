"""Ctrl-C while the command is still being imported, or where nothing is written yet."""

import sys

import pytest

from amsfl import cli


class Interrupted:
    """Finds no module: the user stops the command at the first import."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "amsfl.cli.app":
            raise KeyboardInterrupt


def test_ctrl_c_before_the_command_began_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "amsfl.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130 and "amsfl: stopped" in capsys.readouterr().err


def test_ctrl_c_while_a_table_is_read_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("amsfl.data.load", interrupted)
    monkeypatch.setattr(sys, "argv", ["amsfl", "data", "rows.csv"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130 and "amsfl: stopped" in capsys.readouterr().err
