"""Numbers for Prometheus, at http://127.0.0.1:PORT/metrics. Off unless a port is chosen, loopback only.

metrics = Metrics("amsfl_server", {"rounds_total": "Rounds that were finished."})
metrics.add("rounds_total"); metrics.set("bytes", 3, direction="up"); metrics.serve(9100)
"""

import mmap
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from amsfl.core import UserError

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters (names that end in _total) and gauges, by name and labels."""

    def __init__(self, prefix: str, help_texts: Mapping[str, str]):
        self.prefix, self.help = prefix, {**help_texts, "memory_bytes": "Resident memory of this process."}
        self.values: dict[str, dict[Labels, float]] = {name: {} for name in help_texts}
        self.lock = threading.Lock()

    def add(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        key = tuple(sorted(labels.items()))
        with self.lock:
            self.values[name][key] = self.values[name].get(key, 0.0) + amount

    def set(self, name: str, value: float, /, **labels: str) -> None:
        with self.lock:
            self.values[name][tuple(sorted(labels.items()))] = value

    def text(self) -> str:
        """As Prometheus reads it."""
        with self.lock:
            values = {name: dict(each) for name, each in self.values.items()}
        values["memory_bytes"] = {(): float(resident_bytes())}
        lines = []
        for name, each in values.items():
            full, kind = f"{self.prefix}_{name}", "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP {full} {self.help[name]}", f"# TYPE {full} {kind}"]
            lines += [f"{full}{_labels(labels)} {value:.17g}" for labels, value in sorted(each.items())]
        return "\n".join(lines) + "\n"

    def serve(self, port: int) -> ThreadingHTTPServer:
        """In a thread of its own, until the process ends or the server is shut down."""
        page = self

        class MetricsHandler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                known = self.path == "/metrics"
                content = page.text().encode() if known else b"see /metrics\n"
                self.send_response(200 if known else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments: Any) -> None: ...

        try:
            server = ThreadingHTTPServer(("127.0.0.1", port), MetricsHandler)
        except (OSError, OverflowError) as error:
            raise UserError(
                f"Port {port} cannot be used for metrics ({error}); choose another, or leave it out."
            ) from None
        threading.Thread(target=server.serve_forever, name="amsfl-metrics", daemon=True).start()
        return server


def _labels(labels: Labels) -> str:
    escaped = [
        (key, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")) for key, value in labels
    ]
    return "{" + ",".join(f'{key}="{value}"' for key, value in escaped) + "}" if labels else ""


def resident_bytes() -> int:
    """Of this process; 0 where there is no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * mmap.PAGESIZE
