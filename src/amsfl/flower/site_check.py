"""What may be wrong at a site before it joins: each check says what it saw and, if wrong, what to do.

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
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from amsfl.core.version import VERSION

SECONDS = 5.0  # for one answer of the SuperLink
CLOCKS = 60.0  # seconds by which clocks may differ: certificates and signatures carry times
TRIED = ("1.41.", "1.42.")  # versions of Flower
SOON = 14 * 24 * 3600.0  # a certificate that ends within two weeks is worth a word
OF_ORDERS = ("state-dir", "policy", "epsilon", "delta")  # of a node-config: what orders meet at the site


class CheckResult(NamedTuple):
    fine: bool
    text: str  # what was seen; where it is not fine, what to do as well


class NodeSettings(NamedTuple):
    """What a site's SuperNode is started with."""

    superlink: str = ""
    certificates: Path | None = None  # None: no TLS
    key: Path | None = None
    node: dict[str, Any] = {}  # noqa: RUF012  (never changed)


def check(site: NodeSettings, app: Path, say: Callable[[str], None]) -> bool:
    """`amsfl supernode --check APP`: whether all is well."""
    found = []
    for name, result in examine(site, app):
        say(f"{'ok ' if result.fine else 'BAD'} {name}: {result.text}")
        found.append(result.fine)
    return all(found)


def examine(site: NodeSettings, app: Path) -> Iterator[tuple[str, CheckResult]]:
    """All checks that this site has something for."""
    yield "versions", versions(flwr())
    if site.superlink:
        yield "port", reach(site)
        if site.certificates:
            yield "certificate", certificate(site)
        yield "clock", clock(site)
    if site.key:
        yield "key", key(site.key)
    yield "round", round_(app, site.node)


def flwr() -> str:
    try:
        return version("flwr")
    except PackageNotFoundError:
        return ""


def versions(flwr: str) -> CheckResult:
    python, fine = ".".join(map(str, sys.version_info[:3])), flwr.startswith(TRIED)
    text = f"Python {python}, amsfl {VERSION}, Flower {flwr or 'missing'}"
    return CheckResult(
        fine, text + ("" if fine else ": pip install 'amsfl[flower]' brings one that was tried")
    )


def reach(site: NodeSettings) -> CheckResult:
    host, port = address(site)
    if not port:
        return CheckResult(False, f"{site.superlink!r} is no HOST:PORT: write --superlink example.org:8000")
    try:
        with socket.create_connection((host, port), SECONDS):
            return CheckResult(True, f"{host}:{port} accepts connections")
    except OSError as error:
        advice = "start the SuperLink, open the port in its firewall, or mend the address"
        return CheckResult(False, f"{host}:{port}: {error.strerror or error}; {advice}")


def certificate(site: NodeSettings) -> CheckResult:
    host, port = address(site)
    try:
        trusted = ssl.create_default_context(cafile=str(site.certificates))
        plain = socket.create_connection((host, port), SECONDS)
        with plain, trusted.wrap_socket(plain, server_hostname=host) as secure:
            held: Any = secure.getpeercert() or {}
    except (ssl.SSLError, OSError) as error:
        why = getattr(error, "verify_message", "") or error.strerror or str(error)
        advice = "use the ca.pem of its make_keys.py, and the name that the certificate was made for"
        return CheckResult(False, f"{host}:{port} is not believed ({why}); {advice}")
    left = ssl.cert_time_to_seconds(held["notAfter"]) - time.time()
    advice = "" if left > SOON else "; make a new one soon"
    return CheckResult(not advice, f"{host} is believed, for {left / 86400:.0f} days more{advice}")


def clock(site: NodeSettings) -> CheckResult:
    authority = str(site.certificates) if site.certificates else None
    url = f"{'https' if authority else 'http'}://{site.superlink}/health"
    try:
        with opened(url, authority) as reply:
            theirs = parsedate_to_datetime(reply.headers["Date"]).timestamp()
    except (HTTPException, OSError, TypeError, ValueError) as error:
        return CheckResult(False, f"no time from {site.superlink} ({error}); is that a SuperLink?")
    apart = abs(theirs - time.time())
    advice = ": set this clock by NTP (timedatectl set-ntp true)" if apart > CLOCKS else ""
    return CheckResult(not advice, f"{apart:.0f} s from the SuperLink's{advice}")


def key(path: Path) -> CheckResult:
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    try:
        load_ssh_private_key(path.expanduser().read_bytes(), None)
    except (OSError, ValueError) as error:
        return CheckResult(False, f"{path}: {error}; copy supernode-I.key here from where it was made")
    if os.name == "posix" and stat.S_IMODE(path.expanduser().stat().st_mode) & 0o077:
        return CheckResult(False, f"others may read {path}: chmod 600 {path}")
    return CheckResult(True, f"{path} is a private key that only its owner reads")


def round_(app: Path, node: dict[str, Any]) -> CheckResult:
    """One round of the user's own app in this process, all of whose nodes are this site.

    It is nobody's order: what the site keeps, and what it accepts of a server, has no part in it.
    """
    from amsfl.flower.in_process import rehearse

    alone, output = {key: value for key, value in node.items() if key not in OF_ORDERS}, io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            grid = rehearse(app, [alone] * 2, rounds=1)
    except Exception as error:  # whatever a site's own code raises
        return CheckResult(False, f"a round of the app in {app} failed ({type(error).__name__}: {error})")
    if grid.shown:
        return CheckResult(False, f"the app in {app} raised {min(grid.shown)}")
    if not grid.answered:
        return CheckResult(False, f"the server of the app in {app} asked nobody to train")
    return CheckResult(True, f"{grid.answered} replies, {grid.seconds / grid.answered:.3g} s each")


def address(site: NodeSettings) -> tuple[str, int]:
    host, _, port = site.superlink.rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else 0


def opened(url: str, authority: str | None = None) -> Any:
    """`authority`: the certificate that https is checked by."""
    trusted = ssl.create_default_context(cafile=authority) if url.startswith("https:") else None
    return urllib.request.urlopen(url, timeout=SECONDS, context=trusted)


if __name__ == "__main__":
    if where := os.environ.get("AMSFL_HEALTH", ""):
        opened(where, os.environ.get("AMSFL_HEALTH_CA")).close()
