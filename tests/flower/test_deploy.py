"""`amsfl deploy`: a table in this process or as a project; any Flower app in one; `supernode --check`."""

import http.server
import re
import socket
import ssl
import subprocess
import threading
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import invoke

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from amsfl.core import UserError
from amsfl.flower import site_check
from amsfl.flower.deploy import deploy, write_project
from amsfl.flower.in_process import rehearse
from amsfl.record import read_run

DOCS = Path(__file__).parents[2] / "docs"
SMALL: dict[str, Any] = {"data": "digits", "clients": 3, "model": "softmax", "rounds": 3}


def typed(text: str, *more: object) -> Any:
    return invoke(*text.split(), *more)


def test_a_table_is_trained_on_in_this_process(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    pairs = [(a, b) for a in range(10) for b in range(10)] * 2
    lines = [f"{a},{b},{'AB'[a % 2]},{'yes' if a + b > 9 else 'no'}" for a, b in pairs]
    table.write_text("\n".join(["a,b,site,label", *lines]))
    words = "deploy --label label --client-column site --model softmax --rounds 6"
    done = typed(words, table, "--out", tmp_path / "run")
    assert done.exit_code == 0 and "round 6" in done.output and "record in" in done.output, done.output
    found = read_run(tmp_path / "run")
    assert found.summary.rounds == 6 and {*found.summary.steps} == {"A", "B"}  # type: ignore[union-attr]
    report = typed("report", tmp_path / "run").output
    assert report.startswith("One method") and "AMSFL ends at" in report and "always predicting" in report
    typed("calibrate", tmp_path / "run", "--out", tmp_path / "sites.csv")
    own = ("--label", "label", "--profile", tmp_path / "sites.csv", "--clock", "makespan", "--rounds", "1")
    said = typed("run --out", tmp_path / "again", table, *own)
    assert said.exit_code == 0, said.output
    scored = typed("predict", tmp_path / "run", table, "--out", tmp_path / "new.csv")
    assert scored.exit_code == 0, scored.output
    again = typed(f"{words} --json --force --rounds 1", table, "--out", tmp_path / "run")
    assert again.exit_code == 0 and again.output.lstrip().startswith("{"), again.output


def test_a_run_goes_on(tmp_path: Path) -> None:
    deploy(SMALL, tmp_path / "run")
    assert deploy(SMALL | {"rounds": 5, "resume": True}, tmp_path / "run").rounds == 5


def test_a_project_is_whole_and_runs(tmp_path: Path) -> None:
    done = typed("deploy --data digits --clients 3 --model softmax --write", tmp_path / "mine")
    assert done.exit_code == 0, done.output
    where = tmp_path / "mine"
    files = {str(path.relative_to(where)) for path in where.rglob("*.*")}
    assert {"pyproject.toml", "README.md", "federation/client_app.py", "federation/server_app.py"} <= files
    assert {f"data/shard-{place}.npz" for place in range(3)} | {"data/server.npz"} <= files
    done = typed("deploy --rounds 2 --run-config lr=0.25", where, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    rounds = read_run(tmp_path / "run").rounds
    assert len(rounds) == 2 and rounds[0].lr == 0.25 and rounds[-1].metrics["holdout"]["accuracy"] > 0.2
    with pytest.raises(UserError, match="already"):
        write_project(where, SMALL)


def test_a_run_config_has_every_key_that_the_pages_name(tmp_path: Path) -> None:
    """Flower takes no others: --run-config 'resume=true' ended in "Invalid run configuration"."""
    write_project(tmp_path / "mine", SMALL)
    project = tomllib.loads((tmp_path / "mine" / "pyproject.toml").read_text())
    config = project["tool"]["flwr"]["app"]["config"]
    pages = "".join((DOCS / name).read_text() for name in ("flower.md", "protocol.md"))
    named = {*re.findall(r"--run-config '([a-z-]+)=", pages), "resume", "out", "slowdowns", "epsilon"}
    assert {*named, "step-seconds"} <= {*config} and all(value is not None for value in config.values())


WRONG = {
    "a folder without an app": ("", "no pyproject.toml"),
    "no app in it": ("[project]\nname = 'a'\n", "no Flower app"),
    "half an app": ("[tool.flwr.app.components]\nserverapp = 'a:b'\n", "both a serverapp"),
    "no such module": ("[tool.flwr.app.components]\nserverapp = 'none:b'\nclientapp = 'a:b'\n", "none:b"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_folder_that_is_no_app_is_told(case: str, tmp_path: Path) -> None:
    text, word = WRONG[case]
    if text:
        (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(UserError, match=word):
        rehearse(tmp_path, [{}])


QUICKSTART = """
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
import numpy as np
from amsfl.flower import AMSFL

client, server = ClientApp(), ServerApp()

@client.train()
def train(message: Message, context: Context) -> Message:
    x = message.content["arrays"]["x"].numpy()
    for _ in range(message.content["config"]["local-steps"]):
        x = x - 0.1 * (x - context.node_config["pull"])
    arrays = ArrayRecord({"x": Array(x.astype(np.float32))})
    content = RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 10})})
    return Message(content, reply_to=message)

@server.main()
def main(grid: Grid, context: Context) -> None:
    strategy = AMSFL(lr=0.1, fraction_evaluate=0.0, min_available_nodes=5, min_train_nodes=5)
    start = ArrayRecord({"x": Array(np.zeros(2, np.float32))})
    strategy.start(grid=grid, initial_arrays=start, num_rounds=context.run_config["num-server-rounds"])
"""


@pytest.fixture
def stock(tmp_path: Path) -> Path:
    """An app as Flower's quickstart has it, whose server waits for five nodes."""
    folder = tmp_path / "stock"
    folder.mkdir()
    (folder / "stock_app.py").write_text(QUICKSTART)
    parts = 'components = {serverapp = "stock_app:server", clientapp = "stock_app:client"}\n'
    text = f"[tool.flwr.app]\n{parts}config = {{num-server-rounds = 30}}\n"
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_a_site_is_checked_by_a_round_of_the_user_s_own_app(stock: Path) -> None:
    assert "5 replies" in site_check.try_round(stock, {"pull": 1.0, "epsilon": 3.0})
    with pytest.raises(UserError, match="pull"):
        site_check.try_round(stock, {})
    done = typed("supernode --node-config pull=1.0 --check", stock)
    assert done.exit_code == 0 and "ok  round: 5 replies" in done.output and "ok  versions" in done.output
    assert typed("supernode --check", stock).exit_code == 1


def test_a_record_is_a_run_s_own(stock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The app says where its is; a check leaves none; what another run left in `--out` is not told."""
    monkeypatch.chdir(tmp_path)
    deploy(SMALL, tmp_path / "runs" / "deploy")
    app, site = stock / "stock_app.py", {"pull": 1.0}
    app.write_text(app.read_text().replace("AMSFL(", "AMSFL(out='mine', "))
    assert "5 replies" in site_check.try_round(stock, site) and not Path("mine").exists()
    app.write_text(app.read_text().replace('context.node_config["pull"]', "1.0"))
    done = typed("deploy --clients 5", stock)
    assert done.exit_code == 0 and "where the app says" in done.output and len(read_run("mine").rounds) == 30
    assert "5 replies" in site_check.try_round(stock, site)


def test_the_example_runs(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'amsfl[torch]'")
    config = {"rounds": 2, "clients": 2, "out": str(tmp_path / "run")}
    rehearse(DOCS.parent / "examples" / "flower-app", [{"partition-id": i} for i in range(2)], config)
    rounds = read_run(tmp_path / "run").rounds
    assert len(rounds) == 2 and rounds[-1].metrics["holdout"]["accuracy"] > 0.15
    assert rounds[-1].plan["held_loss"] is not None


def test_help_says_what_there_is() -> None:
    text = typed("supernode --help").output
    assert all(word in text for word in ("--superlink", "--node-config", "--poll", "--check"))
    gone = "deploy --tls --dry-run", "verify runs", "watch runs"  # what they said was wrong
    assert all(typed(words).exit_code for words in gone)


class Health(http.server.BaseHTTPRequestHandler):
    late = 0.0

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def date_time_string(self, timestamp: Any = None) -> str:
        return super().date_time_string(time.time() - self.late)

    def log_message(self, *arguments: Any) -> None: ...


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A certificate for localhost and a site's key, as docs/flower.md makes them."""
    where = tmp_path_factory.mktemp("keys")
    made = SimpleNamespace(ca=where / "ca.pem", key=where / "link.key", node=where / "node")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"]
    openssl("req", "-x509", *ec, "-keyout", str(made.key), "-out", str(made.ca), *names)
    ssh = ["ssh-keygen", "-t", "ecdsa", "-b", "384", "-N", "", "-f", str(made.node)]
    try:
        subprocess.run(ssh, check=True, capture_output=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("ssh-keygen is not installed")
    return made


@pytest.fixture
def link(keys: SimpleNamespace) -> Iterator[str]:
    """Something that answers as a SuperLink's /health does, with TLS."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Health)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys.ca, keys.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"localhost:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_port_certificate_clock_and_key(link: str, keys: SimpleNamespace, tmp_path: Path) -> None:
    assert re.search(r"answers, is believed for 30 days more, .* \d s from", site_check.link(link, keys.ca))
    stranger, open_ = tmp_path / "other.pem", tmp_path / "open.key"
    stranger.write_bytes(keys.ca.read_bytes().replace(b"A", b"B", 40))
    with pytest.raises(UserError, match="not believed"):
        site_check.link(link, stranger)
    Health.late = 3600.0
    try:
        with pytest.raises(UserError, match="NTP"):
            site_check.link(link, keys.ca)
    finally:
        Health.late = 0.0
    assert "only its owner reads" in site_check.key(keys.node)
    open_.write_bytes(keys.node.read_bytes())
    open_.chmod(0o644)
    others = (tmp_path / "none.key", "private key"), (keys.node.with_suffix(".pub"), "private")
    for path, word in ((open_, "chmod 600"), *others):
        with pytest.raises(UserError, match=word):
            site_check.key(path)


def test_nobody_there_and_versions() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and nobody listens
        with pytest.raises(UserError, match="start the SuperLink"):
            site_check.link(f"127.0.0.1:{taken.getsockname()[1]}", None)
    with pytest.raises(UserError, match="HOST:PORT"):
        site_check.link("nowhere", None)
    assert site_check.versions("1.41.0") and site_check.versions("1.42.1")
    for wrong in ("1.43.0", "0.9"):
        with pytest.raises(UserError, match="pip install"):
            site_check.versions(wrong)
