"""A free TCP port of loopback, for whoever is started next."""

import random
import socket

FROM, TO = 20_000, 32_000  # below those that systems hand out to outgoing connections, which may take one


def free_port() -> int:
    """One that nobody listens on; drawn, so that several federations which start at once seldom meet."""
    for port in random.SystemRandom().sample(range(FROM, TO), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port between {FROM} and {TO} on loopback")
