"""What an operator expects: numbers for Prometheus, lines of JSON, a dry run, sound container files."""

import json
import logging
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import CliRunner

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from amsfl.core import UserError
from amsfl.flower import NumpyTrainer, numpy_client, serve
from amsfl.flower.deploy.recipe import DeploySettings, protection
from amsfl.flower.in_process import InProcessGrid
from amsfl.flower.metrics import Metrics
from amsfl.flower.node import health
from amsfl.flower.node.supernode import free_port, log_as_json
from amsfl.flower.server.telemetry import Telemetry

ROOT = Path(__file__).parents[2]
CONTAINERS = ROOT / "containers"


def get(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
        return str(reply.read().decode())


def test_numbers_are_as_prometheus_reads_them() -> None:
    metrics, port = Metrics("amsfl", {"a_total": "As.", "b": "Bs."}), free_port()
    server = metrics.serve(port)
    try:
        metrics.add("a_total", 2)
        metrics.add("a_total", 1)
        metrics.set("b", 0.5, name='x"\n')
        text = get(port)
        assert "# TYPE amsfl_a_total counter\namsfl_a_total 3\n" in text
        assert 'amsfl_b{name="x\\"\\n"} 0.5' in text and re.search(r"amsfl_memory_bytes \d+", text)
        assert health.answers(f"http://127.0.0.1:{port}/metrics")
        assert not health.answers(f"http://127.0.0.1:{port}/other")
        with pytest.raises(UserError, match="choose another"):
            metrics.serve(port)
    finally:
        server.shutdown()
        server.server_close()
    assert not health.answers(f"http://127.0.0.1:{port}/metrics")


def client(context: Any) -> NumpyTrainer:
    return NumpyTrainer(4, np.zeros(2, np.float32), lambda x, step, order: (1.0, x + 1))


def test_a_server_s_lines_and_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    port, pages = free_port(), list[str]()
    settings = {"method": "fedavg", "clients": 2, "rounds": 3, "poll": 0.01, "lr": 0.1, "steps": 2}

    def evaluate(model: Any, buffers: Any) -> Any:
        pages.append(get(port))
        return {"holdout": {"accuracy": 0.5, "loss": 1.0}}

    grid = InProcessGrid(numpy_client(client), [{"partition-id": place} for place in range(2)])
    serve(grid, {**settings, "log": "json", "metrics_port": port}, evaluate)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["round"] for line in lines if line["event"] == "round"] == [1, 2, 3]
    assert lines[0]["steps"] == {"0": 2, "1": 2} and lines[0]["scores"]["accuracy"] == 0.5
    assert "amsfl_server_rounds_total 2\n" in pages[2] and "amsfl_server_steps_total 8\n" in pages[2]
    assert not health.answers(f"http://127.0.0.1:{port}/metrics")  # it ends with the run


def test_refusals_are_lines_too() -> None:
    lines = list[str]()
    Telemetry(write=lines.append).on_refusal(3, "north", "late")
    Telemetry("json", write=lines.append).on_refusal(None, None, 'a "name"')
    assert lines[0] == "  refused client 3 (north): late" and json.loads(lines[1])["reason"] == 'a "name"'
    with pytest.raises(UserError, match="text"):
        Telemetry("xml")


def test_a_node_s_log_lines_are_json() -> None:
    """Those of Flower's own handler, which formats by itself."""
    import flwr.app  # noqa: F401  (its logger has handlers from then on)

    record = logging.LogRecord("flwr", logging.INFO, "", 0, "Received %s", ("a",), None)
    handlers = logging.getLogger("flwr").handlers
    before = [handler.format for handler in handlers]
    try:
        log_as_json()
        assert handlers and all(json.loads(each.format(record))["text"] == "Received a" for each in handlers)
    finally:
        for handler, format_ in zip(handlers, before, strict=True):
            setattr(handler, "format", format_)  # noqa: B010


def test_a_dry_run_starts_nothing(tmp_path: Path) -> None:
    from amsfl.cli.app import app

    words = ["deploy", "--dry-run", "--clients", "2", "--data", "digits", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*words, "--slowdowns", "1,3"])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert (
        lines[0].startswith("flower-superlink")
        and sum("flower.node.supernode" in line for line in lines) == 2
    )
    assert "slowdown=3.0" in done.output and "flwr run TEMPORARY/app" in done.output
    assert not (tmp_path / "out").exists()


def documents(path: Path) -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    return list(yaml.safe_load_all(path.read_text()))


def test_the_compose_file_is_sound() -> None:
    (compose,) = documents(CONTAINERS / "compose.yaml")
    services = compose["services"]
    assert set(services) == {"superlink", "site-0", "site-1"}
    for name, service in services.items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["user"] == "10001:10001", (
            name
        )
        assert "AMSFL_HEALTH" in service["environment"]
        assert "--insecure" not in service["command"]
        held = [each.partition(":")[0] for each in service["volumes"] if not each.startswith("./")]
        assert set(held) <= set(compose["volumes"])
    assert all(port.startswith("127.0.0.1:") for port in services["superlink"]["ports"])


@pytest.mark.parametrize("name", ["superlink.yaml", "site.yaml"])
def test_kubernetes_manifests_are_sound(name: str) -> None:
    """Of the kinds and fields that a cluster asks for; every mount has a volume, nobody is root."""
    for document in documents(CONTAINERS / "kubernetes" / name):
        assert {"apiVersion", "kind", "metadata", "spec"} <= set(document)
        if document["kind"] not in ("Deployment", "StatefulSet"):
            continue
        spec = document["spec"]
        pod = spec["template"]["spec"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
        assert pod["securityContext"]["runAsNonRoot"]
        claims = [each["metadata"]["name"] for each in spec.get("volumeClaimTemplates", [])]
        volumes = {*claims, *(each["name"] for each in pod["volumes"])}
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] and container["livenessProbe"]
            assert {each["name"] for each in container["volumeMounts"]} == volumes


def test_the_commands_in_container_files_are_commands_that_exist() -> None:
    """Their flags are those of the programs themselves."""
    helped = {
        name: subprocess.run(
            [str(Path(sys.executable).with_name(name)), "--help"], capture_output=True, text=True
        )
        for name in ("flower-superlink", "flower-supernode")
    }
    (compose,) = documents(CONTAINERS / "compose.yaml")
    for service in compose["services"].values():
        program = service["command"][0]
        page = helped["flower-superlink" if program == "flower-superlink" else "flower-supernode"].stdout
        own = ("--metrics-port", "--log", "--poll") if program == "amsfl" else ()
        flags = [word.partition("=")[0] for word in service["command"] if word.startswith("--")]
        assert [flag for flag in flags if flag not in page and flag not in own] == []


def test_the_image_runs_as_nobody_in_particular() -> None:
    text = (CONTAINERS / "Dockerfile").read_text()
    assert re.search(r"^USER 10001:10001$", text, re.M) and "HEALTHCHECK" in text
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.M)
    assert all((ROOT / name).exists() for line in copied for name in line.split())


def test_a_site_s_own_seconds_end_its_steps(tmp_path: Path) -> None:
    """The order allows more; site.toml does not, and the first step is always run."""
    (tmp_path / "site.toml").write_text("most_seconds = 0.0")
    app = numpy_client(
        lambda context: NumpyTrainer(10, np.zeros(2, np.float32), lambda x, step, order: (1.0, x + 1))
    )
    nodes = [{"partition-id": 0, "state-dir": str(tmp_path)}, {"partition-id": 1}]
    settings = {"method": "fedavg", "clients": 2, "rounds": 1, "steps": 5, "poll": 0.001}
    _, records = serve(InProcessGrid(app, nodes), settings)
    assert records[0].steps == [1, 5]


def test_a_deployment_says_what_it_protects_against() -> None:
    plain = protection(DeploySettings({}, [], 0.0, False))
    assert "outsized" in plain.split("; not against ")[0]
    assert all(word in plain.split("; not against ")[1] for word in ("lie", "--robust", "--tls", "--epsilon"))
    whole = protection(DeploySettings({"robust": "median", "epsilon": 2.0}, [], 0.0, True))
    assert "by median" in whole and "not against" not in whole
