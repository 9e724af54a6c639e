"""A local server with two answers: the page, and what is new. It reads one folder and writes nothing.

Only this machine can reach it, and only with the token of the printed address: other users of the machine
and other sites' pages do not have it. No part of a request becomes a path on disk. The Host header is
checked, too, against sites that resolve their own name to this machine (DNS rebinding).
"""

import secrets
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from urllib.parse import parse_qs, urlsplit

from amsfl.core import UserError
from amsfl.record import dumps
from amsfl.report.live.follow import Follower
from amsfl.report.write import html

LOOPBACK = "127.0.0.1"
CURSOR_AT_MOST = 64  # letters


class WatchServer(ThreadingHTTPServer):
    """`with WatchServer(folder, 0) as server: server.serve_forever()`; port 0 is any free one."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int):
        try:
            super().__init__((LOOPBACK, port), WatchHandler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise UserError(f"Port {port} cannot be used: {why}; --port 0 takes any that is free.") from None
        self.follower, self.lock, self.token = Follower(folder), Lock(), secrets.token_urlsafe(16)
        self.page = html.page("live.html", ["page.css", "live.css"], ["chart.js", "live.js"], connects=True)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/{self.token}/"

    def news(self, cursor: str) -> str:
        with self.lock:  # one reader of the disk at a time
            return dumps(self.follower.news(cursor))


class WatchHandler(BaseHTTPRequestHandler):
    server: WatchServer
    server_version, sys_version = "amsfl", ""
    timeout = 30  # seconds for a request to arrive

    def do_GET(self) -> None:
        hosts = {f"{name}:{self.server.port}" for name in (LOOPBACK, "localhost")}
        try:
            asked = urlsplit(self.path)
        except ValueError:
            self._send(400, "text/plain", "The address cannot be read.\n")
            return
        _, token, *rest = (*asked.path.split("/", 2), "")
        if self.headers.get("Host", "") not in hosts:
            self._send(403, "text/plain", "This server answers at 127.0.0.1 and localhost only.\n")
        elif not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self._send(403, "text/plain", "Open the whole address that 'amsfl watch' printed.\n")
        elif rest[0] == "":
            self._send(200, "text/html", self.server.page.text, self.server.page.policy)
        elif rest[0] == "news":
            since = parse_qs(asked.query[: 4 * CURSOR_AT_MOST]).get("since", [""])[0][:CURSOR_AT_MOST]
            self._send(200, "application/json", self.server.news(since))
        else:
            self._send(404, "text/plain", "There is only the page itself.\n")

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
        """A request a second is not worth a log."""
