"""What may be wrong at a site before it joins: each check returns what it saw, or raises what to do.

`python -m amsfl.flower.site_check` fails if nothing answers at the address AMSFL_HEALTH; for containers.
"""

import contextlib
import io
import os
import socket
import ssl
import stat
import sys
import time
import urllib.request
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from amsfl.core import UserError
from amsfl.core.version import VERSION

SECONDS = 5.0  # for one answer of the SuperLink
CLOCKS = 60.0  # seconds by which clocks may differ: certificates and signatures carry times
TRIED = ("1.41.", "1.42.")  # versions of Flower
SOON = 14 * 24 * 3600.0  # a certificate that ends within two weeks is worth a word
OF_ORDERS = ("state-dir", "policy", "epsilon", "delta")  # of a node-config: what orders meet at the site


def check(
    app: Path,
    say: Callable[[str], None],
    superlink: str = "",
    certificates: Path | None = None,  # None: no TLS
    private_key: Path | None = None,
    node: dict[str, Any] | None = None,
) -> bool:
    """`amsfl supernode --check APP`: whether all is well, of what this site has."""
    checks: dict[str, Callable[[], str]] = {"versions": lambda: versions(flwr())}
    if superlink:
        checks["port"] = lambda: reach(superlink)
        if certificates:
            checks["certificate"] = lambda: certificate(superlink, certificates)
        checks["clock"] = lambda: clock(superlink, certificates)
    if private_key:
        checks["key"] = lambda: key(private_key)
    checks["round"] = lambda: try_round(app, node or {})
    fine = True
    for name, look in checks.items():
        try:
            say(f"ok  {name}: {look()}")
        except UserError as wrong:
            say(f"BAD {name}: {wrong}")
            fine = False
    return fine


def flwr() -> str:
    try:
        return version("flwr")
    except PackageNotFoundError:
        return ""


def versions(flwr: str) -> str:
    text = f"Python {sys.version.split()[0]}, amsfl {VERSION}, Flower {flwr or 'missing'}"
    if not flwr.startswith(TRIED):
        raise UserError(f"{text}: pip install 'amsfl[flower]' brings one that was tried")
    return text


def reach(superlink: str) -> str:
    host, port = address(superlink)
    try:
        with socket.create_connection((host, port), SECONDS):
            return f"{host}:{port} accepts connections"
    except OSError as error:
        advice = "start the SuperLink, open the port in its firewall, or mend the address"
        raise UserError(f"{host}:{port}: {error.strerror or error}; {advice}") from None


def certificate(superlink: str, certificates: Path) -> str:
    host, port = address(superlink)
    try:
        trusted = ssl.create_default_context(cafile=str(certificates))
        plain = socket.create_connection((host, port), SECONDS)
        with plain, trusted.wrap_socket(plain, server_hostname=host) as secure:
            held: Any = secure.getpeercert() or {}
    except (ssl.SSLError, OSError) as error:
        why = getattr(error, "verify_message", "") or error.strerror or str(error)
        advice = "use the server's ca.pem, and the name that the certificate was made for"
        raise UserError(f"{host}:{port} is not believed ({why}); {advice}") from None
    left = ssl.cert_time_to_seconds(held["notAfter"]) - time.time()
    text = f"{host} is believed, for {left / 86400:.0f} days more"
    if left <= SOON:
        raise UserError(f"{text}; make a new one soon")
    return text


def clock(superlink: str, certificates: Path | None) -> str:
    authority = str(certificates) if certificates else None
    try:
        with opened(f"{'https' if authority else 'http'}://{superlink}/health", authority) as reply:
            theirs = parsedate_to_datetime(reply.headers["Date"]).timestamp()
    except (HTTPException, OSError, TypeError, ValueError) as error:
        raise UserError(f"no time from {superlink} ({error}); is that a SuperLink?") from None
    apart = abs(theirs - time.time())
    if apart > CLOCKS:
        advice = "set this clock by NTP (timedatectl set-ntp true)"
        raise UserError(f"{apart:.0f} s from the SuperLink's: {advice}")
    return f"{apart:.0f} s from the SuperLink's"


def key(path: Path) -> str:
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    try:
        load_ssh_private_key(path.expanduser().read_bytes(), None)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: {error}; copy this site's private key here from where it was made"
        ) from None
    if os.name == "posix" and stat.S_IMODE(path.expanduser().stat().st_mode) & 0o077:
        raise UserError(f"others may read {path}: chmod 600 {path}")
    return f"{path} is a private key that only its owner reads"


def try_round(app: Path, node: dict[str, Any]) -> str:
    """One round of the user's own app in this process, all of whose nodes are this site.

    It is nobody's order: what the site keeps, and what it accepts of a server, has no part in it.
    """
    from amsfl.flower.in_process import rehearse

    alone, output = {key: value for key, value in node.items() if key not in OF_ORDERS}, io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            grid = rehearse(app, [alone] * 2, rounds=1)
    except Exception as error:  # whatever a site's own code raises
        raise UserError(f"a round of the app in {app} failed ({type(error).__name__}: {error})") from None
    if grid.shown:
        raise UserError(f"the app in {app} raised {min(grid.shown)}")
    if not grid.answered:
        raise UserError(f"the server of the app in {app} asked nobody to train")
    return f"{grid.answered} replies, {grid.seconds / grid.answered:.3g} s each"


def address(superlink: str) -> tuple[str, int]:
    host, _, port = superlink.rpartition(":")
    if not port.isdigit():
        raise UserError(f"{superlink!r} is no HOST:PORT: write --superlink example.org:8000")
    return host.strip("[]"), int(port)


def opened(url: str, authority: str | None = None) -> Any:
    """`authority`: the certificate that https is checked by."""
    trusted = ssl.create_default_context(cafile=authority) if url.startswith("https:") else None
    return urllib.request.urlopen(url, timeout=SECONDS, context=trusted)


if __name__ == "__main__":
    if where := os.environ.get("AMSFL_HEALTH", ""):
        opened(where, os.environ.get("AMSFL_HEALTH_CA")).close()
