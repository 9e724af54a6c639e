"""No input ends in a traceback, a hang or invalid JSON. Seeds are fixed; `pytest --torture` tries thousands.

What happens before training is real; training itself is left out, since it compiles. Inputs that once failed
stand in KNOWN, with what they must say.
"""

import gzip
import json
import signal
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace

import fuzzing
import numpy as np
import pytest
import typer
from federation_small import python
from typer.testing import CliRunner

import amsfl.data
from amsfl.cli.app import app
from amsfl.cli.plan import read as read_clients
from amsfl.clock.profile import read_profile
from amsfl.core import UserError
from amsfl.data import load
from amsfl.simulation import make_config, read_toml
from amsfl.study import read_study

SECONDS = 30  # nothing that is refused may take longer
SITES = "client,weight,step_seconds,comm_seconds,gain,drift\n" + "".join(
    f"{name},0.{place + 1},0.0{place + 1},0.05,1,0.05\n"
    for place, name in enumerate(("Oslo [north]", "[/b]", "Å"))
)
ROWS = "age,pulse,site,label\n" + "".join(
    f"{40 + i % 7},{60 + i},{'abc'[i % 3]},{i % 2}\n" for i in range(30)
)
SPEEDS = "step_seconds,latency,up_mbps,down_mbps\n" + "0.01,0.05,20,100\n" * 5
RUN = 'method = "fedprox"\nrounds = 3\ndata = "digits"\nseed = 5\nlr = 0.1\n[options]\nmu = 0.5\n'
STUDY = 'trials = 2\n[run]\ndata = "digits"\nseconds = 5\n[methods.fedavg]\nsteps = 3\n[methods.amsfl]\n'
GOOD = {
    "clients.csv": SITES.encode(),
    "rows.csv": ROWS.encode(),
    "rows.csv.gz": ROWS.encode(),
    "speeds.csv": SPEEDS.encode(),
    "run.toml": RUN.encode(),
    "study.toml": STUDY.encode(),
}


class Hang(Exception):
    pass


@contextmanager
def within(seconds: float):
    """Raise where the work stands when the time is over."""

    def over(*_):
        raise Hang(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def call(tmp_path, monkeypatch):
    """The command up to where training would begin, in a folder of its own."""
    digits = load("digits")

    def begins(*_, **__):
        raise typer.Exit(0)

    first = SimpleNamespace(anchor=np.zeros(1))
    engine = SimpleNamespace(
        start=lambda: first, from_host=begins, round=begins, models_to_host=np.asarray, max_span=1
    )

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for place in ("load_nslkdd", "load_synth"):
        monkeypatch.setattr(amsfl.data, place, lambda *_, **__: digits)
    monkeypatch.setattr("amsfl.engines.make", lambda *_, **__: engine)
    for place in ("amsfl.study.open_folder", "amsfl.flower.deploy.run.deal"):
        try:
            monkeypatch.setattr(place, begins)
        except ImportError:  # without Flower, deploy says so
            continue
    return lambda words: CliRunner().invoke(app, words)


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


def test_command_lines(call, tmp_path, torture, capsys):
    rng, outcomes, failed = Random(1), Counter(), []
    count = 6000 if torture else 100
    paths = list(fuzzing.files(rng, tmp_path, GOOD, 40))
    for name, content in GOOD.items():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    for _ in range(count):
        words = fuzzing.command_line(rng, paths)
        with within(SECONDS):
            result = call(words)
        outcomes[words[0] if words[0] in fuzzing.OWN else "another", result.exit_code] += 1
        if wrong := sound(words, result):
            failed.append((wrong, words))
    with capsys.disabled():
        print(f"\n{count} command lines tried: {_counts(outcomes)}")
    assert not failed, "\n".join(map(str, failed))


READERS = {
    "clients.csv": read_clients,
    "rows.csv": lambda path: load(str(path)),
    "rows.csv.gz": lambda path: load(str(path)),
    "speeds.csv": lambda path: read_profile(path, 5),
    "run.toml": lambda path: make_config(read_toml(path)),
    "study.toml": read_study,
}


def test_files(tmp_path, torture, capsys):
    rng, outcomes, failed = Random(2), Counter(), []
    count = 4000 if torture else 300
    for path in fuzzing.files(rng, tmp_path, GOOD, count):
        name = path.name.partition("-")[2]
        try:
            with within(SECONDS):
                READERS[name](path)
            outcomes[name, "read"] += 1
        except UserError:
            outcomes[name, "refused"] += 1
        except Exception as error:
            failed.append(
                (path.name, f"{type(error).__name__}: {error}", path.is_file() and path.read_bytes())
            )
    with capsys.disabled():
        print(f"\n{count} files tried: {_counts(outcomes)}")
    assert not failed, "\n".join(map(str, failed))


def _counts(outcomes: Counter) -> str:
    return ", ".join(f"{what} {how}: {times}" for (what, how), times in sorted(outcomes.items(), key=str))


PLAN = ["plan", "clients.csv", "--policy"]
LOSSES = ["--set", "loss=1", "--set", "loss0=1"]
EXTREME = [word for name in ("lr", "rho", "beta", "delta", "left") for word in ("--set", f"{name}=1e308")]
KNOWN = [  # each of them once gave a traceback, a wrong answer or no end
    (["run", "--data", "digits", "--model", "mlp:²"], 2, "hidden sizes are numbers"),
    (["run", "--data", "digits", "--model", "mlp:9999999"], 2, "hidden sizes are numbers from 1 to 100,000"),
    (["run", "--data", "digits", "--model", "mlp:100000-100000"], 2, "numbers, more than 200,000,000"),
    (["run", "--data", "digits", "--clients", "1000000000000"], 2, "less than or equal to 1000000"),
    (["run", "--data", "digits", "--steps", "700000"], 2, "less than or equal to 100000"),
    (["run", "--data", "digits", "--target", "95"], 2, "for 95% write 0.95"),
    (["run", "--data", "digits", "--profile", "lognormal:1e-300,0"], 2, "the median goes from"),
    (["run", "--data", "digits", "--target", "1.0"], 0, "at the target, or after 1,000 rounds"),
    (["run", "--data", "digits", "--lr", "0.1"], 0, "'lr' has no effect: amsfl sets its own learning rate"),
    (["run", "--data", "digits", "--label", "x"], 2, "--label is for"),
    (["run", "--data", "digits", "--give-up", "3"], 2, "'give_up' is about real clients"),
    (["plan", "clients.csv", "--t-max", "9223372036854775807"], 2, "t_max is more than 1,000,000,000 steps"),
    (["plan", "clients.csv", "--policy", "printed", "--budget", "1e6"], 2, "one step at a time"),
    (["plan", "clients.csv", "--budget", "inf", "--json"], 2, "finite number"),
    (["plan", "clients.csv", "--policy", "fixed", "--set", "steps=1e30"], 2, "1,000,000 for steps"),
    ([*PLAN, "adacomm", "--set", "initial=0", *LOSSES], 2, "for initial, not 0"),
    ([*PLAN, "wang", *EXTREME], 0, ""),
    (["plan", "clients.csv", "--policy", "exact", "--set", "limit_s=-1"], 2, "limit_s"),
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
    (tmp_path / "clients.csv").write_text("client,step_seconds,drift\na,1e-9,1e9\n", encoding="utf-8")
    words = ["plan", "clients.csv", "--policy", "fill", "--budget", "1e12", "--t-max", "1000000000", "--json"]
    assert sound(words, result := call(words)) == "" and result.exit_code == 0


def test_many_clients_are_summed_up(call, tmp_path):
    rows = "".join(f"c{i},0.0{1 + i % 9}\n" for i in range(100_000))
    (tmp_path / "clients.csv").write_text("client,step_seconds\n" + rows, encoding="utf-8")
    with within(SECONDS):
        lines = call(["plan", "clients.csv"]).stdout.splitlines()
    assert len(lines) < 60 and "40 of 100,000 clients are shown" in lines[-1]
    assert any(line.startswith("c99999 ") for line in lines) and any("99,960 more" in line for line in lines)


def test_trouble_of_the_machine_is_a_sentence_and_exit_code_1(call):
    result = call(["run", "--data", "digits", "--config", "a" * 300 + ".toml"])
    assert result.exit_code == 2 and "File name too long" in result.stderr
    result = call(["report", "a" * 300])
    assert result.exit_code in (1, 2) and sound([], result) == ""


def test_an_ascii_terminal(tmp_path, monkeypatch):
    """Names that it cannot show are spelled out; help and tables as well."""
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    (tmp_path / "clients.csv").write_text(SITES, encoding="utf-8")
    start = "from amsfl.cli import main; main()"
    shown = python("-c", start, "plan", "clients.csv", cwd=tmp_path)
    assert shown.returncode == 0 and "\\xc5" in shown.stdout and shown.stderr == ""
    for words in (["--help"], ["methods"], ["run", "--help"]):
        done = python("-c", start, *words, cwd=tmp_path)
        assert done.returncode == 0 and done.stderr == "", done.stderr


def test_the_files_are_good_before_they_are_damaged(tmp_path):
    for name, content in GOOD.items():
        path = Path(tmp_path / name)
        if name.endswith(".gz"):
            continue
        path.write_bytes(content)
        READERS[name](path)
