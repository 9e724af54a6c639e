"""No input ends in a traceback, a hang or invalid JSON; what once did stands in KNOWN, with what it must say.

What happens before training is real; training itself is left out, since it compiles.
"""

import json
import signal
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from command_line import invoke
from federation_small import python

from amsfl import cli
from amsfl.cli.output import sentences
from amsfl.data import load

SECONDS = 20  # of the processor: nothing that is refused may take longer
SITES = "client,weight,step_seconds,comm_seconds,gain,fading\n" + "".join(
    f"{name},0.{place + 1},0.0{place + 1},0.05,1,0.05\n"
    for place, name in enumerate(("Oslo [north]", "[/b]", "Å"))
)


class Hang(Exception):
    pass


@contextmanager
def within(seconds: float):
    """Raise where the work stands when the time is over."""

    def over(*_):
        raise Hang(f"more than {seconds} s")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.fixture
def call(tmp_path, monkeypatch):
    """The command up to where training would begin, in a folder of its own."""
    digits = load("digits")

    def begins(*_, **__):
        raise SystemExit(0)

    engine = SimpleNamespace(work=begins, evaluate=begins, ahead=None)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for place in ("load_nslkdd", "load_synth"):
        monkeypatch.setattr(f"amsfl.data.sources.{place}", lambda *_, **__: digits)
    monkeypatch.setattr("amsfl.engines.make", lambda *_, **__: engine)
    for place in ("amsfl.study.run.open_folder", "amsfl.flower.deploy.deal"):
        try:
            monkeypatch.setattr(place, begins)
        except ImportError:  # without Flower, deploy says so
            continue
    return lambda words: invoke(*words)


def refuse(constant):
    raise AssertionError(f"{constant} is no JSON")


def sound(words, result) -> str:
    """What is wrong with an outcome, or nothing."""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return f"{type(result.exception).__name__}: {result.exception}"
    if result.exit_code not in (0, 1, 2):
        return f"exit code {result.exit_code}"
    if "Traceback" in result.output:
        return "a traceback is printed"
    if result.exit_code and not result.stderr:
        return "nothing is said"
    if result.exit_code == 0 and "--json" in words and result.stdout:
        json.loads(result.stdout, parse_constant=refuse)
    return ""


KNOWN = [  # each of them once gave a traceback, a wrong answer or no end
    (["run", "--data", "digits", "--model", "mlp:²"], 2, "hidden sizes are numbers"),
    (["run", "--data", "digits", "--model", "mlp:9999999"], 2, "hidden sizes are numbers from 1 to 100,000"),
    (["run", "--data", "digits", "--model", "mlp:100000-100000"], 2, "numbers, more than 200,000,000"),
    (["run", "--data", "digits", "--profile", "lognormal:1e-300,0"], 2, "the median goes from"),
    (["run", "--data", "digits", "--target", "1.0"], 0, "at the target, or after 1,000 rounds"),
    (["run", "--data", "digits", "--label", "x"], 2, "--label is for"),
    (["plan", "clients.csv", "--most", "9223372036854775807"], 2, "from 1 to 100,000"),
    (["plan", "clients.csv", "--policy", "printed", "--budget", "1e6"], 2, "one step at a time"),
    (["plan", "clients.csv", "--budget", "inf", "--json"], 2, "finite number"),
    (["plan", "clients.csv", "--policy", "fixed", "--steps", "1000000"], 2, "100000"),
    (["report", "nowhere", "--target", "95"], 2, "for 95% write 0.95"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "code", "says"), KNOWN, ids=lambda value: str(value)[:40])
def test_what_was_found(call, tmp_path, words, code, says):
    (tmp_path / "clients.csv").write_text(SITES, encoding="utf-8")
    with within(SECONDS):
        result = call(words)
    assert sound(words, result) == "" and result.exit_code == code, result.output
    assert says in " ".join(result.stderr.split())


def test_names_are_printed_as_they_are(call, tmp_path):
    (tmp_path / "clients.csv").write_text(SITES + "\x1b[31mred,0.1,0.1,0,1,0\n", encoding="utf-8")
    shown = call(["plan", "clients.csv"]).stdout
    assert "Oslo [north]" in shown and "[/b]" in shown and "\x1b" not in shown


def test_fill_says_nothing_infinite(call, tmp_path):
    (tmp_path / "clients.csv").write_text("client,step_seconds,fading\na,1e-9,1e9\n", encoding="utf-8")
    words = ["plan", "clients.csv", "--policy", "fill", "--budget", "1e12", "--most", "100000", "--json"]
    assert sound(words, result := call(words)) == "" and result.exit_code == 0


def test_many_clients_are_summed_up(call, tmp_path):
    rows = "".join(f"c{i},0.0{1 + i % 9}\n" for i in range(20_000))
    (tmp_path / "clients.csv").write_text("client,step_seconds\n" + rows, encoding="utf-8")
    with within(SECONDS):
        lines = call(["plan", "clients.csv"]).stdout.splitlines()
    assert len(lines) < 60 and "40 of 20,000 clients are shown" in lines[-1]
    assert any(line.startswith("c19999 ") for line in lines) and any("19,960 more" in line for line in lines)


def test_trouble_of_the_machine_is_a_sentence_and_exit_code_1(call):
    result = call(["run", "--data", "digits", "--config", "a" * 300 + ".toml"])
    assert result.exit_code == 2 and "File name too long" in result.stderr
    result = call(["report", "a" * 300])
    assert result.exit_code in (1, 2) and sound([], result) == ""


def test_an_ascii_terminal(tmp_path, monkeypatch):
    """Names that it cannot show are spelled out; help and tables as well."""
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    (tmp_path / "clients.csv").write_text(SITES, encoding="utf-8")
    both = "import sys; from amsfl.cli import main\n"
    both += "for sys.argv[1:] in (['plan', 'clients.csv'], ['methods']):\n"
    both += "    try: main()\n    except SystemExit as end: assert not end.code"
    shown = python("-c", both, cwd=tmp_path)
    assert shown.returncode == 0 and "\\xc5" in shown.stdout and shown.stderr == "", shown.stderr


@pytest.mark.parametrize("trouble", [MemoryError(), RuntimeError("can't start new thread")])
def test_no_memory_is_a_sentence(trouble: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), sentences():
        raise trouble
    said = capsys.readouterr().err
    assert said.startswith("amsfl: ") and "memory" in said and said.count("\n") == 1


def test_other_troubles_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amsfl.core.names._own_files", {})
    with pytest.raises(RuntimeError, match="a bug"), sentences():
        raise RuntimeError("a bug")


def test_nobody_reads_on_is_said_to_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    """As of `amsfl ... | head`: it ends quietly."""
    with pytest.raises(BrokenPipeError), sentences():
        raise BrokenPipeError(32, "Broken pipe")
    assert not capsys.readouterr().err


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
