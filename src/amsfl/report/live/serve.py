"""A local server with two answers: the page, and what is new. It reads one folder and writes nothing.

No part of a request is ever made into a path. Only this machine can reach it, and a page of another site that
leads its name to this machine (DNS rebinding) is told apart by the Host header.
"""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from urllib.parse import parse_qs, urlsplit

from amsfl.core import UserError
from amsfl.record import dumps
from amsfl.report.live.follow import Follower
from amsfl.report.write import html

LOOPBACK = "127.0.0.1"
LONGEST = 64  # letters of a cursor


class Server(ThreadingHTTPServer):
    """`with Server(folder, 0) as server: server.serve_forever()`; port 0 is any that is free."""

    daemon_threads = True

    def __init__(self, where: Path, port: int):
        try:
            super().__init__((LOOPBACK, port), Answer)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise UserError(f"Port {port} cannot be used: {why}; --port 0 takes any that is free.") from None
        self.follower, self.lock = Follower(where), Lock()
        self.page = html.page("live.html", ["page.css", "live.css"], ["chart.js", "live.js"], asks=True)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/"

    def news(self, cursor: str) -> str:
        with self.lock:  # one look at the disk at a time
            return dumps(self.follower.news(cursor))


class Answer(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "amsfl", ""
    timeout = 30  # seconds that somebody may take to ask

    def do_GET(self) -> None:
        hosts = {f"{name}:{self.server.port}" for name in (LOOPBACK, "localhost")}
        asked = urlsplit(self.path)
        if self.headers.get("Host", "") not in hosts:
            self._send(403, "text/plain", "This page answers to its own address alone.\n")
        elif asked.path == "/":
            self._send(200, "text/html", self.server.page.text, self.server.page.policy)
        elif asked.path == "/news":
            since = parse_qs(asked.query[: 4 * LONGEST]).get("since", [""])[0][:LONGEST]
            self._send(200, "application/json", self.server.news(since))
        else:
            self._send(404, "text/plain", "There is nothing here but the page itself: /\n")

    do_HEAD = do_GET

    def _send(self, status: int, kind: str, text: str, policy: str = "default-src 'none'") -> None:
        content = text.encode()
        self.send_response(status)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(content))),
            ("Content-Security-Policy", f"{policy}; frame-ancestors 'none'"),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads a line a second."""
