"""`amsfl deploy APP`: what is said of folders that are no apps, what is copied, and one real run."""

import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest
from command_line import CliRunner
from flower_project import project

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from amsfl.cli.app import app as commands
from amsfl.core import UserError
from amsfl.flower.deploy import run as deploying
from amsfl.flower.deploy import user_app
from amsfl.flower.deploy.recipe import DeploySettings, client_speeds, recall, remember
from amsfl.record import read_run

CONFIG = """\
clients = 2
rounds = 50
scale = 1.0
options.mu = 0.5
"""
PROJECT = project("mine", "server:app", "client:app", CONFIG)
CLIENT = """
    import numpy as np
    from amsfl.flower import NumpyTrainer, numpy_client

    def make(context):
        goal = np.float32([context.node_config["partition-id"], context.run_config["scale"]])
        return NumpyTrainer(10, np.zeros(2, np.float32), lambda x, step, order: (0.0, x - goal))

    app = numpy_client(make)
"""
SERVER = """
    from amsfl.flower import server_app

    app = server_app(method="fedprox", lr=0.5)
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    (folder / "mine").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PROJECT)
    for name, text in {"__init__": "", "client": CLIENT, "server": SERVER}.items():
        (folder / "mine" / f"{name}.py").write_text(textwrap.dedent(text))
    (folder / "rows.npz").write_bytes(b"x" * 100)
    return folder


def test_what_is_no_app_is_a_sentence(mine: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no pyproject.toml"):
        user_app.read(tmp_path)
    (mine / "mine" / "client.py").write_text("other = 1\n")
    with pytest.raises(UserError, match=r"mine\.client:app as its clientapp, but mine.client has no app"):
        user_app.read(mine)
    (mine / "mine" / "client.py").write_text("from other import app\n__all__ = ['app']\n")
    assert user_app.read(mine).config["clients"] == 2
    (mine / "mine" / "client.py").write_text("app, more = 1, 2\n")
    with pytest.raises(UserError, match=r"write `app = ...`, on its own"):
        user_app.read(mine)
    (mine / "mine" / "client.py").write_text("app =\n")
    with pytest.raises(UserError, match=r"not Python that can be read"):
        user_app.read(mine)
    (mine / "mine" / "client.py").unlink()
    (mine / "pyproject.toml").write_text(PROJECT.replace("mine.client", "mime.client"))
    with pytest.raises(UserError, match=r"there is no module mime.client"):
        user_app.read(mine)
    (mine / "pyproject.toml").write_text("[project]\nname = 'x'\nversion = '1'\n")
    with pytest.raises(UserError, match=r"no Flower app that can be run"):
        user_app.read(mine)
    (mine / "pyproject.toml").write_text("[[[")
    found = CliRunner().invoke(commands, ["deploy", str(mine), "--out", str(tmp_path / "out")])
    assert found.exit_code == 2 and "no Flower app" in found.output and "Traceback" not in found.output


def test_the_copy_is_what_flower_bundles_with_the_settings_in_it(mine: Path, tmp_path: Path) -> None:
    app = user_app.read(mine)
    user_app.copy(app, tmp_path / "copy", {"rounds": 3, "evaluate-clients": 1, "scale": 2.0})
    config = tomllib.loads((tmp_path / "copy" / "pyproject.toml").read_text())["tool"]["flwr"]["app"][
        "config"
    ]
    assert config == {
        "clients": 2,
        "rounds": 3,
        "scale": 2.0,
        "options.mu": 0.5,
        "evaluate-clients": 1,
    }
    assert (tmp_path / "copy" / "mine" / "client.py").read_text() == textwrap.dedent(CLIENT)
    assert not (tmp_path / "copy" / "rows.npz").exists()
    assert user_app.read(tmp_path / "copy").config == config, "the copy is an app itself"
    assert "rounds = 50" in (mine / "pyproject.toml").read_text(), "the user's own stays as it is"


def test_how_many_clients_and_which_keys(mine: Path) -> None:
    app = user_app.read(mine)
    assert user_app.clients(app, {}, {}) == 2
    assert user_app.clients(app, {}, {"clients": 4}) == 4
    assert user_app.clients(app, {"clients": 3}, {}) == 3
    with pytest.raises(UserError, match=r"--clients 3"):
        user_app.clients(app._replace(config={}), {}, {})
    assert user_app.parse("scale=3.5", app) == {"scale": 3.5}
    wider = app._replace(config={"shards": "", "on": False})
    assert user_app.parse('shards="/a b" on=true', wider) == {"shards": "/a b", "on": True}
    with pytest.raises(UserError, match=r"no scal; its keys are: clients, options.mu, rounds, scale"):
        user_app.parse("scal=1", app)
    for wrong in ("scale", "scale=[", "nowhere.toml"):
        with pytest.raises(UserError, match=r"run-config is written as"):
            user_app.parse(wrong, app)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--slowdowns", "1,2,4"], "3 slowdowns for 2 clients"),
        (["--rounds", "-1"], "rounds"),
        (["--run-config", "scal=1"], "has no scal"),
        (["--profile", "two.csv", "--clients", "3"], "2 slowdowns for 3 clients"),
        (["--profile", "named.csv"], "those of your own app have numbers"),
    ],
)
def test_mistakes_are_said_before_anything_starts(
    mine: Path, tmp_path: Path, monkeypatch: Any, flags: list[str], sentence: str
) -> None:
    monkeypatch.setattr(deploying, "loopback", None)
    monkeypatch.chdir(tmp_path)
    Path("two.csv").write_text("step_seconds\n0.1\n0.4\n")
    Path("named.csv").write_text("client,step_seconds\na,0.1\nb,0.4\n")
    assert client_speeds(Path("two.csv")) == ([1.0, 4.0], 0.1, [])
    found = CliRunner().invoke(commands, ["deploy", str(mine), "--out", str(tmp_path / "out"), *flags])
    assert found.exit_code == 2 and sentence in " ".join(found.output.split())


def test_going_on_is_with_the_same_app(tmp_path: Path) -> None:
    begun = DeploySettings({"rounds": 4}, [1.0, 2.0], 0.1, False, app="/a", run_config="scale=2.0")
    remember(tmp_path, begun)
    again = DeploySettings({"rounds": 9, "resume": True}, [], 0.0, False)
    assert recall(tmp_path, again) == begun._replace(settings={"rounds": 9, "resume": True})
    with pytest.raises(UserError, match=r"holds a deployment of /a; leave /b out"):
        recall(tmp_path, again._replace(app="/b"))


@pytest.mark.slow
def test_an_app_of_ones_own_runs_on_slowed_nodes(mine: Path, tmp_path: Path) -> None:
    """A client of least squares in numpy, our server: slowed as asked, on record, and gone on with."""
    said: list[str] = []
    recipe = DeploySettings(
        {"rounds": 2, "steps": 2}, [1.0, 3.0], 0.1, False, app=str(mine), run_config="scale=2.0"
    )
    summary = deploying.launch(recipe, tmp_path / "out", said.append)
    assert summary is not None and summary.rounds == 2
    rounds = read_run(tmp_path / "out").rounds
    fast, slow = rounds[-1].plan["step_seconds"]
    assert fast >= 0.1 and slow >= 0.3
    assert any(line.startswith("round 2") for line in said)
    again = recipe._replace(settings={"rounds": 3, "resume": True}, app="")
    summary = deploying.launch(again, tmp_path / "out", said.append)
    assert summary is not None and summary.rounds == 3, "the folder knows which app it was"
