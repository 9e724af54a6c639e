"""What may be wrong at a site before it joins: each check returns what it saw, or raises what to do.

`python -m amsfl.flower.site_check` fails if nothing answers at the address AMSFL_HEALTH; for containers.
"""

import contextlib
import io
import os
import ssl
import stat
import sys
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from importlib.metadata import version
from pathlib import Path
from typing import Any

from amsfl.core import VERSION, UserError

SECONDS = 5.0  # for an answer of the SuperLink
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
    checks: dict[str, Callable[[], str]] = {"versions": lambda: versions(version("flwr"))}
    if superlink:
        checks["superlink"] = lambda: link(superlink, certificates)
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


def versions(flwr: str) -> str:
    text = f"Python {sys.version.split()[0]}, amsfl {VERSION}, Flower {flwr}"
    if not flwr.startswith(TRIED):
        raise UserError(f"{text}: pip install 'amsfl[flower]' brings one that was tried")
    return text


def link(superlink: str, certificates: Path | None) -> str:
    """Its port, its certificate and its clock."""
    host, _, port = superlink.rpartition(":")
    if not port.isdigit():
        raise UserError(f"{superlink!r} is no HOST:PORT: write --superlink example.org:8000")
    host, ends = host.strip("[]"), ""
    try:
        if certificates is None:
            held: Any = HTTPConnection(host, int(port), timeout=SECONDS)
        else:
            trusted = ssl.create_default_context(cafile=str(certificates))
            held = HTTPSConnection(host, int(port), timeout=SECONDS, context=trusted)
        held.connect()
        if certificates is not None:
            ends = held.sock.getpeercert()["notAfter"]
        held.request("GET", "/health")
        apart = abs(parsedate_to_datetime(held.getresponse().headers["Date"]).timestamp() - time.time())
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", "") or error.reason
        advice = "use the server's ca.pem, and the name that the certificate was made for"
        raise UserError(f"{superlink} is not believed ({why}); {advice}") from None
    except OSError as error:
        advice = "start the SuperLink, open the port in its firewall, or mend the address"
        raise UserError(f"{superlink}: {error.strerror or error}; {advice}") from None
    except (HTTPException, TypeError, ValueError) as error:
        raise UserError(f"no time from {superlink} ({error}); is that a SuperLink?") from None
    left = ssl.cert_time_to_seconds(ends) - time.time() if ends else SOON + 1
    believed = f", is believed for {left / 86400:.0f} days more" if ends else ""
    text = f"{superlink} answers{believed}, and its clock is {apart:.0f} s from ours"
    if apart > CLOCKS:
        raise UserError(f"{text}: set this one by NTP (timedatectl set-ntp true)")
    if left <= SOON:
        raise UserError(f"{text}: make a new certificate soon")
    return text


def key(path: Path) -> str:
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    try:
        load_ssh_private_key(path.expanduser().read_bytes(), None)
    except (OSError, ValueError) as error:
        advice = "copy this site's private key here from where it was made"
        raise UserError(f"{path}: {error}; {advice}") from None
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


if __name__ == "__main__":
    if where := os.environ.get("AMSFL_HEALTH", ""):
        ours = os.environ.get("AMSFL_HEALTH_CA")
        link(where, Path(ours) if ours else None)
