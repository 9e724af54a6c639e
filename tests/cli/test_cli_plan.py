"""`amsfl plan`: a table of sites in, a plan out; every mistake is one sentence and exit code 2."""

import json
from pathlib import Path

import pytest
from command_line import Outcome, invoke

SITES = """client,weight,step_seconds,comm_seconds,gain,fading
Oslo,0.3,0.010,0.05,1.0,0.05
Lyon,0.1,0.015,0.05,0.8,0.10
Graz,0.3,0.020,0.10,1.2,0.04
Cork,0.1,0.012,0.05,0.9,0.30
Faro,0.2,0.030,0.15,1.1,0.02
"""


@pytest.fixture
def run(tmp_path: Path):

    def call(text: str, *options: str) -> Outcome:
        file = tmp_path / "clients.csv"
        file.write_text(text, encoding="utf-8")
        return invoke("plan", file, *options)

    return call


def record(result: Outcome) -> dict:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_json_has_what_the_contract_says(run) -> None:
    made = record(run(SITES, "--budget", "2.0", "--json"))
    assert {*made} == {"policy", "clock", "budget", "steps", "seconds", "worth", "why"}
    assert list(made["steps"]) == ["Oslo", "Lyon", "Graz", "Cork", "Faro"]
    assert made["seconds"] <= 2.0 and (made["policy"], made["clock"]) == ("price", "makespan")


def test_the_table_is_for_people(run, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = run(SITES, "--budget", "2.0")
    assert result.exit_code == 0
    for word in ("client", "steps", "stopped by", "Oslo", "Faro", "5 clients take", "of the 2 s allowed"):
        assert word in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_without_readings_and_weights_all_clients_are_equal(run) -> None:
    made = record(run("client,step_seconds\na,0.01\nb,0.01\nc,0.02\n", "--json"))
    # Free communication: a round of one step each already has the best rate for equal clients ...
    assert made["steps"]["a"] == made["steps"]["b"] >= made["steps"]["c"]
    dear = record(run("client,step_seconds,comm_seconds\na,0.01,1\nb,0.01,1\nc,0.02,1\n", "--json"))
    # ... and dear communication makes longer rounds worth it.
    assert all(t > 10 for t in dear["steps"].values())


def test_settings_reach_the_policy(run) -> None:
    made = record(run(SITES, "--policy", "fixed", "--steps", "7", "--json"))
    assert set(made["steps"].values()) == {7}
    assert set(made["why"].values()) == {"fixed"}
    capped = record(run(SITES, "--policy", "fixed", "--steps", "7", "--most", "3", "--json"))
    assert set(capped["steps"].values()) == {3}


def test_spreadsheet_exports_are_read(run) -> None:
    # A byte-order mark and blanks after the commas, as spreadsheets leave them.
    made = record(
        run("\ufeffclient, step_seconds, weight\nx, 0.1, 1\ny, 0.2, 1\n", "--budget", "1", "--json")
    )
    assert list(made["steps"]) == ["x", "y"]
    # Semicolons and decimal commas, as they leave them where a comma is no point.
    other = run("client;step_seconds;weight\nx;0,1;1\n1,5;0,2;1\n", "--budget", "1", "--json")
    assert list(record(other)["steps"].values()) == list(made["steps"].values())
    assert list(record(other)["steps"]) == ["x", "1,5"]  # a name, though it looks like a number


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("client,step_seconds\n,1\n", (), "line 2: the client has no name"),
        ("client,step_seconds\n", (), "no clients"),
        ("step_seconds\n1\n", (), "no column 'client'; the columns there are: step_seconds"),
        (SITES, ("--policy", "printed"), "add --budget"),
        (SITES, ("--most", "0"), "most steps"),
    ],
)
def test_mistakes_are_one_sentence(run, text: str, options: tuple[str, ...], sentence: str) -> None:
    result = run(text, *options)
    assert result.exit_code == 2
    assert result.stderr.startswith("amsfl: ") and result.stderr.count("\n") == 1
    assert sentence in result.stderr
    assert result.stdout == ""
