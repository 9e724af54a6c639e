"""`amsfl run`, `resume` and the lists: flags, TOML, JSON, a sentence for every mistake, the end."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import refused
from federation_small import SMALL, python
from report_example import trial

from amsfl.cli.progress import lines
from amsfl.record import Manifest, RoundRecord

QUICK = [f"--{name}={value}" for name, value in SMALL.items()]


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """Sixty patients of three hospitals; one column tells the classes apart."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("csv") / "heart.csv"
    lines = ["age,pulse,hospital,label"]
    for row in range(60):
        sick = row % 2
        lines.append(f"{40 + 20 * sick + rng.integers(5)},{rng.integers(60, 90)},{'ABC'[row % 3]},{sick}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_json_is_one_object_and_nothing_else(call):
    result = call("run", "--data", "digits", *QUICK, "--json")
    assert result.exit_code == 0 and result.stderr == ""
    assert result.stdout.count("\n") == 1
    summary = json.loads(result.stdout)
    promised = "method data seed rounds accuracy test_accuracy virtual_seconds seconds_to_target"
    promised += " rounds_to_target steps wall"
    assert set(promised.split()) <= set(summary)
    assert (summary["method"], summary["data"], summary["rounds"]) == ("fedavg", "digits", 4)
    kept = json.loads(Path("runs/digits-fedavg-0/summary.json").read_text())
    of_the_folder = ("crc", "files")  # checksums
    assert {key: kept[key] for key in kept if key not in of_the_folder} == {
        key: summary[key] for key in summary if key not in of_the_folder
    }
    again = json.loads(call("run", "--data", "digits", *QUICK, "--json").stdout)
    assert Path("runs/digits-fedavg-0-2/summary.json").exists(), "a folder of its own, nothing overwritten"
    del summary["wall"], again["wall"]
    assert json.dumps(again) == json.dumps(summary)


def test_sentences_for_people(call):
    """Four lines at most."""
    words = ("run", "--data", "digits", *QUICK, "--target", "0.2", "--out", "here")
    result = call(*words)
    assert result.exit_code == 0 and result.stderr == "" and result.stdout.count("\n") == 3
    for part in ("% interval", "Target 0.2 reached after", "Record: here", "Next: amsfl report here"):
        assert part in result.stdout


def test_resume_prints_the_same_json(call):
    first = json.loads(call("run", "--data", "digits", *QUICK, "--out", "here", "--json").stdout)
    result = call("resume", "here", "--json")
    assert "had ended before; --rounds" in result.stderr
    call("run", "--data", "digits", *QUICK, "--out", "early", "--target", "0.2")
    assert "reached: --no-stop-at-target" in call("resume", "early", "--rounds", "9").stderr
    assert "ended before" not in call("resume", "early", "--rounds", "9", "--no-stop-at-target").stderr
    second = json.loads(result.stdout)
    for summary in (first, second):
        del summary["wall"], summary["files"]  # checksums are in the folder
    assert result.exit_code == 0 and first == second


def test_toml_and_flags(call, tmp_path):
    """A file can hold all settings; flags go first, --option name by name."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in SMALL.items()]
    lines += ['data = "digits"', "seed = 5", "[options]", "mu = 0.5"]
    (tmp_path / "run.toml").write_text("\n".join(lines).replace('"fedavg"', '"fedprox"'))
    arguments = ("run", "--config", "run.toml", "--rounds", 2, "--out", "here", "--json")
    summary = json.loads(call(*arguments).stdout)
    assert (summary["method"], summary["seed"], summary["rounds"]) == ("fedprox", 5, 2)
    assert "mu = 0.5" in Path("here/config.toml").read_text()
    call(*arguments, "--force", "--option", "mu=0.25")
    assert "mu = 0.25" in Path("here/config.toml").read_text()


def test_a_csv_with_a_client_column(call, table):
    """The hospitals are the clients; nobody has to say how many."""
    result = call("run", "--data", table, *QUICK, "--lr", "0.5", "--rounds", "10", "--json")
    summary = json.loads(result.stdout)
    assert summary["data"] == "csv:heart.csv" and set(summary["steps"]) == {"A", "B", "C"}
    assert summary["accuracy"] >= 0.9


def test_a_damaged_checkpoint(call):
    call("run", "--data", "digits", *QUICK, "--out", "here")
    path = Path("here/checkpoint.safetensors")
    path.write_bytes(path.read_bytes()[:-4])
    refused(
        call("resume", "here"),
        "start again with 'amsfl run --config here/config.toml --out here --force'.",
        code=1,
    )
    again = call("run", "--config", "here/config.toml", "--out", "here", "--force")
    assert again.exit_code == 0, "what the sentence says to type must work"


def test_a_folder_that_holds_a_run(call):
    call("run", "--data", "digits", *QUICK, "--out", "here")
    refused(
        call("run", "--data", "digits", *QUICK, "--out", "here"),
        "already holds a run; choose another --out, continue it with 'amsfl resume here', or overwrite it",
    )
    assert call("run", "--data", "digits", *QUICK, "--out", "here", "--force").exit_code == 0
    refused(call("resume", "nothing"), "There is no folder 'nothing'")


def test_mistakes_in_a_settings_file(call, tmp_path):
    (tmp_path / "a.toml").write_text('metod = "fedavg"')
    refused(call("run", "--config", "a.toml"), "Unknown setting 'metod' (did you mean 'method'?).")
    (tmp_path / "b.toml").write_text("rounds = [")
    refused(call("run", "--config", "b.toml"), "is not valid TOML")
    (tmp_path / "c.toml").write_text('rounds = "many"')
    refused(call("run", "--config", "c.toml"), "Setting 'rounds' is 'many'")
    refused(call("run", "--config", "d.toml"), "cannot be read: No such file or directory.")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--method", "scafold"], "Unknown method 'scafold' (did you mean 'scaffold'?)."),
        (["--data", "digits", "--partition", "iid", "--clients", "9999"], "share 1438 training rows"),
        (["--seconds", "-5"], "'seconds' is -5.0"),
        (["--force"], "--out"),
        (["--data", "digit"], "Unknown data 'digit' (did you mean 'digits'?)."),
        (["--data", "none.csv"], "There is no file none.csv."),
        (["--data", "digits", "--profile", "milld"], "Unknown profile 'milld' (did you mean 'mild'?)."),
        (["--clock", "makspan"], "Unknown clock 'makspan' (did you mean 'makespan'?)."),
        (["--data", "digits", "--partition", "dirichlt:1"], "Unknown partition 'dirichlt:1'"),
        (["--data", "digits", "--model", "softmx"], "Unknown model 'softmx' (did you mean 'softmax'?)."),
        (["--method", "fedprox", "--option", "mu"], "--option 'mu' is not NAME=NUMBER, as in mu=0.1."),
        (["--data", "digits", "--method", "fedprox", "--option", "nu=1"], "has no setting 'nu'"),
        (["--data", "digits", "--method", "fedavg", "--option", "mu=1"], "no setting 'mu' (it has none)"),
        (["--engine", "torch"], "Setting 'engine' is 'torch'"),
        (["--data", "digits", "--cohort", "9"], "A cohort of 9 does not fit 5 clients"),
        (["--data", "digits", "--method", "amsfl", "--budget", "0.1"], "below one step"),
    ],
)
def test_other_mistakes(call, arguments, sentence):
    refused(call("run", *arguments), sentence)
    assert not Path("runs").exists(), "a refused run leaves no folder"


def test_a_folder_that_cannot_be_written(call, tmp_path):
    (tmp_path / "file").write_text("")
    refused(call("run", "--data", "digits", *QUICK, "--out", "file/run"), "cannot be made", code=1)


def test_divergence_exits_with_one(call):
    flags = [*QUICK, "--precision", "float32", "--model", "mlp:4", "--lr", "1e30"]
    result = call("run", "--data", "digits", *flags, "--target", "0.01", "--out", "here", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["status"] == "diverged"
    assert "the model stopped being finite in round 1; lower --lr" in result.stderr
    (line,) = Path("here/rounds.jsonl").read_text().splitlines()
    assert json.loads(line, parse_constant=pytest.fail)["metrics"]["holdout"]["loss"] is None
    summary = json.loads(Path("here/summary.json").read_text(), parse_constant=pytest.fail)
    assert summary["rounds_to_target"] is None


def test_the_lists(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")  # of a terminal: nothing that is typed is cut
    methods = call("methods")
    assert methods.exit_code == 0 and "…" not in methods.stdout
    for name in ("delayed-nesterov", "temperature=4", "price", "median", "topk", "wild", "FILE.csv"):
        assert name in methods.stdout
    assert "FedCSDA has no public description" in " ".join(methods.stdout.split())
    assert "FILE.csv" in call("data").stdout


def test_the_command_as_installed(tmp_path):
    """The one smoke test through a real process: the entry point's function, exit code 2."""
    wrong = python("-c", "from amsfl.cli import main; main()", "run", "--method", "fedavgg", cwd=tmp_path)
    assert wrong.returncode == 2 and wrong.stdout == ""
    assert "did you mean 'fedavg'?" in wrong.stderr and "Traceback" not in wrong.stderr


DATA = {"base": {"holdout": {"accuracy": 0.93}}, "eval_rows": {"holdout": 1000}, "note": "made up"}


def ended(
    accuracy: float, auc: float = 0.9, settings: Any = None, remarks: int = 0, **changes: Any
) -> list[str]:
    """The lines of a run whose last round has this score; all rows are predicted as the first class."""
    splits = {"holdout": {"confusion": [[930, 0], [70, 0]], "macro_auc": auc}}
    summary = trial([accuracy]).summary._replace(details={"splits": splits}, **changes)
    rounds = [RoundRecord(n, {}, metrics={"holdout": {"accuracy": n / 10}}) for n in range(1, 10)]
    made = Manifest("run", settings or {}, {}, {}, {}, {"data": DATA})
    return list(lines(summary, rounds, Path("here"), made, remarks))


@pytest.mark.parametrize(
    ("accuracy", "auc", "words"),
    [
        (0.95, 0.9, []),
        (0.93, 0.754, ["AUC of 0.754", "--score auc", "--class-weights"]),
        (0.93, 0.55, ["not surely better", "--lr"]),
    ],
)
def test_a_run_beside_the_base_rate(accuracy, auc, words):
    score, record, after, *wrong = ended(accuracy, auc)
    assert score.startswith(f"Accuracy {accuracy} (95% interval") and "beside 0.93 of" in score
    assert record == "Record: here" and after == "Next: amsfl report here"
    assert len(wrong) == bool(words) and all(word in wrong[0] for word in words)


def test_the_interval_is_wilsons():
    """0.95 of 1,000: (0.95 + z^2 / 2000 -+ z sqrt(0.95 x 0.05 / 1000 + (z / 2000)^2)) / (1 + z^2 / 1000)."""
    assert "95% interval 0.935 to 0.962" in ended(0.95)[0]


def test_the_model_that_predicts_is_that_of_the_best_round():
    best = {"round": 9, "score": 0.1, "by": "loss"}
    assert ended(0.93, best=best)[0].startswith("Accuracy 0.9 ")


def test_a_run_that_gave_up_says_so():
    for asked, said in ((2000, True), (None, True), (102, False)):
        first = ended(0.95, 0.9, {"rounds": asked, "stop_after": 100}, rounds=102, best={"round": 2})[0]
        assert first.endswith("It ended early: the last 100 of 102 rounds were no better.") == said


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"synthetic": True}, "made up"),
        ({"settings": {"class_weights": "balanced"}, "accuracy": 0.93}, "--score auc"),
        ({"target": 0.99}, "The target 0.99 was not reached"),
        ({"remarks": 2}, "2 remarks on how the table was read"),
    ],
)
def test_one_thing_that_is_wrong(changes, words):
    *_, wrong = said = ended(**{"accuracy": 0.96, "target": None} | changes)
    assert len(said) == 4 and words in wrong
