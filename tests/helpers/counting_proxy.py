"""A TCP proxy that counts bytes both ways, and can be closed for a while: a link that drops everything."""

import contextlib
import socket
import threading
from typing import Any


class CountingProxy:
    """`with CountingProxy(8000) as proxy:` passes connections to 127.0.0.1:proxy.port on to port 8000."""

    def __init__(self, target: int):
        self.target, self.up, self.down, self.closed = target, 0, 0, False
        self.lock, self.pairs = threading.Lock(), list[tuple[socket.socket, socket.socket]]()
        self.server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self.server.getsockname()[1])

    def __enter__(self) -> "CountingProxy":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
        self.server.close()

    def close(self) -> None:
        """Cut every connection, and take no new one until `open`."""
        with self.lock:
            self.closed = True
            for pair in self.pairs:
                for side in pair:
                    _end(side)
            self.pairs = []

    def open(self) -> None:
        self.closed = False

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.server.accept()
                if self.closed:
                    _end(client)
                    continue
                try:
                    link = socket.create_connection(("127.0.0.1", self.target), 10)
                except OSError:
                    _end(client)
                    continue
                with self.lock:
                    self.pairs.append((client, link))
                for names in ((client, link, "up"), (link, client, "down")):
                    threading.Thread(target=self._pass_on, args=names, daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, way: str) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                with self.lock:
                    setattr(self, way, getattr(self, way) + len(data))
                sink.sendall(data)
        _end(source)
        _end(sink)


def _end(side: socket.socket) -> None:
    with contextlib.suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
    side.close()
