"""A result's face, sweeps and trackers: tables of what is on record, and runs that no tracker can lose."""

import sys
import warnings

import numpy as np
import pytest
import record_small
from federation_small import SMALL, own_data

import amsfl
from amsfl.core import Remark, UserError
from amsfl.study import sweep as sweeps
from amsfl.track import RunCallbacks, RunInfo, numbers, trackers_of, tracking

pandas = pytest.importorskip("pandas", reason="pip install 'amsfl[frames]'")


@pytest.fixture(scope="module")
def result():
    sites = np.arange(60, dtype=np.int32) % 3 // 2
    data = own_data(sites=sites, site_names=("big", "small"))
    changes = {"profile": "mild", "method": "amsfl", "policy": "price", "clock": "sum"}
    return amsfl.run(dataset=data, **SMALL | changes)


def test_clients_have_names_rows_steps_and_seconds(result):
    big, small = result.clients
    assert (big.name, big.rows, small.name, small.rows) == ("big", 40, "small", 20)
    for place, each in enumerate(result.clients):
        assert each.steps == sum(r.steps[r.cohort.index(place)] for r in result.rounds)
    # on the clock `sum` the round is the clients' seconds one after another
    assert sum(each.seconds for each in result.clients) == pytest.approx(result.summary.virtual_seconds)
    costs = result.parts.costs[0]
    wanted = costs.step_seconds[1] * small.steps + 4 * costs.comm_seconds[1]
    assert small.seconds == pytest.approx(wanted)


def test_rounds_as_a_frame(result):
    frame = result.to_frame()
    assert list(frame.index) == [1, 2, 3, 4] and frame.index.name == "round"
    assert frame["holdout_accuracy"].iloc[-1] == result.accuracy
    assert frame["seconds"].iloc[-1] == result.summary.virtual_seconds
    assert frame["steps"].sum() == sum(result.summary.steps.values())
    assert pandas.DataFrame(result.clients)["name"].tolist() == ["big", "small"]


OVER = {"method": ["fedavg", "fedprox"], "lr": [0.1, 0.5], "seed": range(2)}
FIXED = {key: value for key, value in SMALL.items() if key not in OVER}


def test_a_sweep_is_its_runs_in_as_few_batches_as_can_be(tmp_path, monkeypatch):
    batches, real = [], sweeps.run_batch

    def counted(configs, own):
        batches.append(len(configs))
        return real(configs, own)

    monkeypatch.setattr(sweeps, "run_batch", counted)
    data, seen = own_data(), []
    found = amsfl.sweep(OVER, out=tmp_path, dataset=data, watch=lambda *at: seen.append(at), **FIXED)
    assert batches == [4, 4] and seen == [(4, 8), (8, 8)]  # lr and seed share a batch, methods do not
    assert list(found.columns[:3]) == ["method", "lr", "seed"] and len(found) == 8
    alone = amsfl.run(dataset=data, method="fedprox", lr=0.1, seed=1, **FIXED)
    row = found[(found.method == "fedprox") & (found.lr == 0.1) & (found.seed == 1)].iloc[0]
    assert row["holdout_loss"] == pytest.approx(alone.summary.metrics["holdout"]["loss"], rel=1e-9)
    assert row["client_steps"] == sum(alone.summary.steps.values()) and row["status"] == "finished"

    batches.clear()
    again = amsfl.sweep(OVER, out=tmp_path, dataset=data, **FIXED)
    assert batches == []
    pandas.testing.assert_frame_equal(again, found)
    amsfl.sweep(OVER | {"seed": range(3)}, out=tmp_path, dataset=data, **FIXED)
    assert batches == [2, 2]  # what is new, and nothing else
    other = own_data(rows=66)
    amsfl.sweep({"seed": [0]}, out=tmp_path, dataset=other, method="fedavg", lr=0.1, **FIXED)
    assert batches == [2, 2, 1]  # other rows: another run


def test_a_sweep_that_makes_no_sense_is_refused_before_it_runs():
    with pytest.raises(UserError, match=r"give a list, as in \['fedavg'\]"):
        amsfl.sweep({"method": "fedavg"})
    with pytest.raises(UserError, match="nothing to sweep 'seed' over"):
        amsfl.sweep({"seed": []})
    with pytest.raises(UserError, match="swept over and fixed"):
        amsfl.sweep({"lr": [0.1]}, lr=0.2)
    with pytest.raises(UserError, match="Unknown setting 'lrr'"):
        amsfl.sweep({"lrr": [0.1]})
    with pytest.raises(UserError, match="runs, and a sweep has"):
        amsfl.sweep({"seed": range(1000), "steps": range(1, 1000)})


def test_tensorboard_reads_what_a_run_says(tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    result = amsfl.run(dataset=own_data(), out=tmp_path / "run", track="tensorboard", **SMALL)
    (home,) = (tmp_path / "run" / "tensorboard").iterdir()
    found = reader.EventAccumulator(str(home))
    found.Reload()
    for tag in ("holdout/accuracy", "holdout/loss", "time/virtual_seconds", "plan/lr", "plan/steps_mean"):
        assert tag in found.Tags()["scalars"]
    told = [(each.step, each.value) for each in found.Scalars("holdout/loss")]
    wanted = [(r.round, np.float32(r.metrics["holdout"]["loss"])) for r in result.rounds]
    assert told == wanted
    assert (
        amsfl.resume(tmp_path / "run", dataset=own_data(), rounds=5, track="tensorboard").summary.rounds == 5
    )


def test_mlflow_keeps_what_a_run_says(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="pip install 'amsfl[mlflow]'")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Remark)
        result = amsfl.run(dataset=own_data(), track="mlflow", **SMALL)
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("amsfl")
    (run,) = client.search_runs([experiment.experiment_id])
    losses = client.get_metric_history(run.info.run_id, "holdout/loss")
    assert [(m.step, m.value) for m in losses] == [
        (r.round, r.metrics["holdout"]["loss"]) for r in result.rounds
    ]
    assert run.data.params["method"] == "fedavg" and run.info.status == "FINISHED"


def test_a_tracker_that_fails_does_not_lose_the_run():
    heard = []

    def shaky(begun: RunInfo) -> RunCallbacks:
        def on_round(record):
            heard.append(record.round)
            if record.round == 2:
                raise ConnectionError("the server is down\nand more")

        return RunCallbacks(on_round, heard.append)

    def absent(begun: RunInfo) -> RunCallbacks:
        raise OSError("no such place")

    with pytest.warns(Remark) as said:
        result = amsfl.run(dataset=own_data(), track=[shaky, absent], **SMALL)
    assert result.summary.status == "finished" and heard == [1, 2]
    ours = [str(each.message) for each in said if "tracker" in str(each.message)]
    assert ours == [
        "The tracker absent failed (OSError: no such place); the run goes on without it.",
        "The tracker shaky failed (ConnectionError: the server is down); the run goes on without it.",
    ]


def test_a_stopped_run_is_closed_and_a_user_may_stop_it():
    ends = []

    def tracker(info):
        return RunCallbacks(lambda record: None, ends.append)

    def stop(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        amsfl.run(dataset=own_data(), track=tracker, watch=stop, **SMALL)
    assert ends == [None]
    result = amsfl.run(dataset=own_data(), track=tracker, **SMALL)
    assert ends == [None, result.summary]


def test_trackers_by_name(tmp_path, monkeypatch):
    (tmp_path / "mine_tracks.py").write_text(
        "from amsfl.track import RunCallbacks\n"
        "heard = []\n"
        "def mine(info):\n"
        "    return RunCallbacks(lambda record: heard.append(record.round), heard.append)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert trackers_of("") == trackers_of(None) == []
    amsfl.run(dataset=own_data(), track="mine_tracks:mine", **SMALL)
    assert sys.modules["mine_tracks"].heard[:4] == [1, 2, 3, 4]
    with pytest.raises(UserError, match=r"Unknown tracker 'tensorbord' .did you mean 'tensorboard'"):
        amsfl.run(data="digits", track="tensorbord")


def test_servers_of_real_clients_have_trackers(tmp_path):
    flower = pytest.importorskip("amsfl.flower", reason="Flower is not installed")
    apps = pytest.importorskip("flwr.app", reason="Flower is not installed")
    data, opened = own_data(), []

    def shard(context):
        mine = slice(int(context.node_config["partition-id"]), None, 2)
        return flower.Shard(data.x[mine], data.y[mine], 2, "softmax")

    def begin(begun):
        opened.append(begun)
        return RunCallbacks(lambda record: opened.append(numbers(record, begun.clock)), opened.append)

    def score(server_round, arrays):
        return apps.MetricRecord({"mine": 0.25, "accuracy": 0.5})

    settings = {"method": "fedavg", "clients": 2, "rounds": 2, "batch": 16, "steps": 1}
    grid = flower.InProcessGrid(flower.jax_client(shard), [{"partition-id": place} for place in range(2)])
    flower.serve(
        grid,
        settings | {"out": str(tmp_path / "run"), "track": begin},
        np.zeros(2 * data.x.shape[1] + 2),
        evaluate=score,
    )
    begun, *rounds, summary = opened
    assert begun.out == tmp_path / "run" and begun.clock == "makespan" and begun.settings["clients"] == 2
    assert [each["holdout/mine"] for each in rounds] == [0.25, 0.25]
    assert all(each["time/elapsed_seconds"] > 0 for each in rounds) and summary.rounds == 2


def test_what_trackers_are_told():
    record = record_small.one_round(3)._replace(
        bytes_up=2e6, wall={"elapsed": 9.0}, plan={"refused": [{"client": 1, "reason": "late"}]}
    )
    record = record._replace(
        metrics={"clients": {"auc": 0.5, "recall": [1.0], "note": "x", "bad": float("nan")}}
    )
    assert numbers(record, "sum") == {
        "clients/auc": 0.5,
        "time/virtual_seconds": 4.5,
        "time/elapsed_seconds": 9.0,
        **{"plan/lr": 0.1, "plan/steps_mean": 2.5, "plan/steps_most": 3.0, "plan/steps_least": 2.0},
        **{"plan/clients": 2.0, "cost/megabytes": 2.0, "cost/refused": 1.0},
    }
    with tracking([], RunInfo("t", {}, "sum")) as told:
        told.on_round(record)


def test_a_notebook_shows_how_far_a_run_has_come():
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "import amsfl\nfrom federation_small import SMALL, own_data\n"
        "amsfl.run(dataset=own_data(), **SMALL)"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    shown, result = [each for each in notebook.cells[0].outputs if each.output_type != "stream"]
    assert shown["data"]["text/plain"].startswith("█" * 20 + " round 4, ")
    assert ", accuracy " in shown["data"]["text/plain"]
    assert result["data"]["text/plain"].startswith("<Result: fedavg on mine")


def test_a_data_frame_is_data_too() -> None:
    """As `dataset` or as `data`, with the settings of tables, in runs and sweeps; one row may stand alone."""
    rows = 60
    ages = [7 * place % rows // 2 * 2 for place in range(rows)]  # each twice, or they would be identifiers
    frame = pandas.DataFrame({"age": ages, "ward": ["A", "B"] * 30, "id": range(rows)})
    frame["ill"] = ["yes" if age > 29 else "no" for age in frame.age]
    small = {"model": "softmax", "engine": "loop", "rounds": 2, "clients": 2, "label": "ill", "drop": "ward"}
    found = [amsfl.run(dataset=frame, **small), amsfl.run(data=frame, **small)]
    np.testing.assert_array_equal(found[0].params, found[1].params)
    assert found[0].parts.data.features == ("age",)
    one = {"age": 55}
    assert found[0].predict(one).tolist() == found[0].predict([one]).tolist() == ["yes"]
    assert found[0].predict({"age": "55"}).tolist() == ["yes"]  # a text is one cell, not letters
    swept = amsfl.sweep({"seed": [0, 1]}, dataset=frame, **small)
    assert swept["holdout_accuracy"][0] == found[0].accuracy
    with pytest.raises(UserError, match=r"data frame .* not a tuple"):
        amsfl.run(dataset=([[1.0]], [0]))
    with pytest.raises(ValueError, match="Row 1 has no group"):
        amsfl.FederatedClassifier().fit([[1.0], [2.0]] * 9, [0, 1] * 9, groups=["a", None] * 9)
