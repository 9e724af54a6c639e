"""`amsfl supernode --check`: every check passes where all is well, and fails where it is not, with advice."""

import http.server
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import CliRunner

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from amsfl.flower.deploy import certificates
from amsfl.flower.node import doctor
from amsfl.flower.node.doctor import NodeSettings


class Health(http.server.BaseHTTPRequestHandler):
    late = 0.0

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def date_time_string(self, timestamp: Any = None) -> str:
        import time

        return super().date_time_string(time.time() - self.late)

    def log_message(self, *arguments: Any) -> None: ...


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> certificates.Keys:
    return certificates.make(tmp_path_factory.mktemp("keys") / "k", 1, ["localhost"])


@pytest.fixture
def link(keys: certificates.Keys) -> Iterator[str]:
    """Something that answers as a SuperLink's /health does, with TLS."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Health)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys.certificate, keys.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"localhost:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def shard(path: Path, **changed: Any) -> dict[str, Any]:
    x = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    parts = {"x": x, "y": (np.arange(20) % 3).astype(np.int32), "classes": np.array(3)}
    np.savez(path, **{**parts, **changed})
    return {"partition-id": 0, "shard": str(path)}


def test_versions() -> None:
    assert doctor.versions("1.41.0").fine
    assert doctor.versions("1.42.1").fine
    for wrong in ("", "1.43.0", "0.9"):
        assert not doctor.versions(wrong).fine and "pip install" in doctor.versions(wrong).text


def test_port_certificate_and_clock(link: str, keys: certificates.Keys, tmp_path: Path) -> None:
    site = NodeSettings(link, keys.ca)
    assert doctor.reach(site).fine and doctor.certificate(site).fine and doctor.clock(site).fine
    stranger = certificates.make(tmp_path / "other", 0)
    refused = doctor.certificate(NodeSettings(link, stranger.ca))
    assert not refused.fine and "not believed" in refused.text
    assert not doctor.clock(NodeSettings(link, stranger.ca)).fine
    Health.late = 3600.0
    try:
        assert "NTP" in doctor.clock(site).text and not doctor.clock(site).fine
    finally:
        Health.late = 0.0


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and nobody listens
        found = doctor.reach(NodeSettings(f"127.0.0.1:{taken.getsockname()[1]}"))
    assert not found.fine and "start the SuperLink" in found.text
    assert not doctor.reach(NodeSettings("nowhere")).fine


def test_key(keys: certificates.Keys, tmp_path: Path) -> None:
    own = keys.nodes[0]
    assert doctor.key(own).fine
    assert not doctor.key(tmp_path / "none.key").fine
    assert not doctor.key(own.with_suffix(".pub")).fine  # the public half
    open_ = tmp_path / "open.key"
    open_.write_bytes(own.read_bytes())
    open_.chmod(0o644)
    assert "chmod 600" in doctor.key(open_).text


BROKEN: dict[str, dict[str, Any]] = {
    "labels": {"y": np.full(20, 7, np.int32)},
    "lengths": {"y": np.zeros(3, np.int32)},
    "not finite": {"x": np.full((20, 4), np.nan, np.float32)},
    "no rows": {"x": np.zeros((0, 4), np.float32), "y": np.zeros(0, np.int32)},
}


@pytest.mark.parametrize("kind", BROKEN)
def test_data_that_is_broken(kind: str, tmp_path: Path) -> None:
    assert doctor.data(shard(tmp_path / "good.npz")).fine
    assert not doctor.data(shard(tmp_path / "bad.npz", **BROKEN[kind])).fine
    assert not doctor.data({"shard": str(tmp_path / "none.npz")}).fine


def test_one_round(tmp_path: Path) -> None:
    from amsfl.flower import NumpyTrainer, numpy_client

    def client(gradient: Any) -> Any:
        return lambda: numpy_client(lambda context: NumpyTrainer(4, np.zeros(2, np.float32), gradient))

    node = {"partition-id": 0}
    assert doctor.round_(node, client(lambda x, step, order: (float(x @ x) + 1, 2 * x + 1))).fine

    # a site that takes private orders only is not asked by its own doctor, and keeps nothing of the round
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "site.toml").write_text('mechanisms = ["record"]\nepsilon = 1.0\n')
    private = {**node, "state-dir": str(kept)}
    assert doctor.round_(private, client(lambda x, step, order: (float(x @ x) + 1, 2 * x + 1))).fine
    assert [path.name for path in kept.iterdir()] == ["site.toml"]

    def raises(x: Any, step: int, order: Any) -> Any:
        raise ValueError("no such column")

    found = doctor.round_(node, client(raises))
    assert not found.fine and "no such column" in found.text


def test_the_command(tmp_path: Path, keys: certificates.Keys) -> None:
    from amsfl.cli.app import app

    words = ["supernode", "--check", "--auth-supernode-private-key", str(keys.nodes[0])]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0 and "ok  key" in done.output, done.output
    done = CliRunner().invoke(app, [*words, "--node-config", f'shard="{tmp_path / "none.npz"}"'])
    assert done.exit_code == 1 and "BAD data" in done.output and "round" not in done.output, done.output


def test_a_key_that_the_superlink_does_not_know_is_found(link: str, keys: certificates.Keys) -> None:
    """The test's own server answers no such request, as a SuperLink refuses a key that is not registered."""
    node = certificates.node_key(keys.ca.with_name("another.key"))
    result = doctor.registered(NodeSettings(link, keys.ca, node))
    assert not result.fine and "flwr supernode register another.pub" in result.text


def test_the_flags_of_a_supernode_are_those_of_the_doctor() -> None:
    from amsfl.cli.app import app

    flags = ["--insecure", "--superlink", "127.0.0.1:1", "--poll", "0.5", "--max-retries", "3"]
    done = CliRunner().invoke(app, ["supernode", "--check", *flags])
    assert done.exit_code == 1 and "not checked: --poll --max-retries" in done.output
    assert "BAD port" in done.output
