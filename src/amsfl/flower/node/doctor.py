"""What may be wrong at a site before it joins: each check says what it saw and, if wrong, what to do."""

import argparse
import contextlib
import io
import os
import socket
import ssl
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from amsfl.core import UserError
from amsfl.flower.node import health

SECONDS = 5.0  # for one answer of the SuperLink
CLOCKS = 60.0  # seconds by which clocks may differ: certificates and signatures carry times
HEARTBEAT = 30.0  # seconds; a SuperLink takes no less
TRIED = ("1.41.", "1.42.")  # versions of Flower
SOON = 14 * 24 * 3600.0  # a certificate that ends within two weeks is worth a word


OF_ORDERS = ("state-dir", "policy", "epsilon", "delta")  # of a node-config: what orders meet at the site


class CheckResult(NamedTuple):
    check: str
    fine: bool
    text: str  # what was seen; where it is not fine, what to do as well


def bad(check: str, text: str) -> CheckResult:
    return CheckResult(check, False, text)


class NodeSettings(NamedTuple):
    """What a site's SuperNode is started with."""

    superlink: str = ""
    certificates: Path | None = None  # None: no TLS
    key: Path | None = None
    node: dict[str, Any] = {}  # noqa: RUF012  (never changed)


def check(words: Sequence[str], say: Callable[[str], None]) -> int:
    """`amsfl supernode --check` with the flags of a SuperNode: how many checks found something wrong."""
    parser = argparse.ArgumentParser("amsfl supernode --check", allow_abbrev=False)
    parser.add_argument("--superlink", default="")
    parser.add_argument("--root-certificates", type=Path)
    parser.add_argument("--auth-supernode-private-key", type=Path)
    parser.add_argument("--node-config", default="")
    parser.add_argument("--insecure", action="store_true")
    given, others = parser.parse_known_args(words)
    if given.insecure and given.root_certificates:
        raise UserError("--insecure means without TLS; leave it or --root-certificates out.")
    unknown = [word for word in others if word.startswith("--")]
    if unknown:
        say(f"not checked: {' '.join(unknown)}")
    key, node = given.auth_supernode_private_key, configured(given.node_config)
    wrong = 0
    for finding in examine(NodeSettings(given.superlink, given.root_certificates, key, node)):
        say(f"{'ok ' if finding.fine else 'BAD'} {finding.check}: {finding.text}")
        wrong += not finding.fine
    return wrong


def examine(site: NodeSettings) -> Iterator[CheckResult]:
    """All checks that this site has something for."""
    yield versions(installed("flwr"))
    if site.superlink:
        yield reach(site)
        if site.certificates:
            yield certificate(site)
        yield clock(site)
    if site.key:
        mine = key(site.key)
        yield mine
        if mine.fine and site.superlink:
            yield registered(site)
    if site.node.get("shard"):
        rows = data(site.node)
        yield rows
        if rows.fine:
            yield round_(site.node)


def configured(text: str) -> dict[str, Any]:
    """A node-config as the SuperNode reads it."""
    from amsfl.flower import internals

    return dict(internals.parse_config_args([text])) if text else {}


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def versions(flwr: str) -> CheckResult:
    python = ".".join(map(str, sys.version_info[:3]))
    text = f"Python {python}, amsfl {installed('amsfl') or 'from source'}, Flower {flwr or 'missing'}"
    if flwr.startswith(TRIED):
        return CheckResult("versions", True, text)
    return bad("versions", f"{text}: pip install 'amsfl[flower]' brings one that was tried")


def reach(site: NodeSettings) -> CheckResult:
    host, port = address(site)
    if not port:
        return bad("port", f"{site.superlink!r} is no HOST:PORT: write --superlink example.org:8000")
    try:
        with socket.create_connection((host, port), SECONDS):
            return CheckResult("port", True, f"{host}:{port} accepts connections")
    except OSError as error:
        advice = "start the SuperLink, open the port in its firewall, or mend the address"
        return bad("port", f"{host}:{port}: {error.strerror or error}; {advice}")


def certificate(site: NodeSettings) -> CheckResult:
    host, port = address(site)
    try:
        trusted = ssl.create_default_context(cafile=str(site.certificates))
        with (
            socket.create_connection((host, port), SECONDS) as plain,
            trusted.wrap_socket(plain, server_hostname=host) as secure,
        ):
            held: Any = secure.getpeercert() or {}
    except (ssl.SSLError, OSError) as error:
        why = getattr(error, "verify_message", "") or error.strerror or str(error)
        advice = "use the ca.pem of its make_keys.py, and the name that the certificate was made for"
        return bad("certificate", f"{host}:{port} is not believed ({why}); {advice}")
    left = ssl.cert_time_to_seconds(held["notAfter"]) - time.time()
    text = f"{host} is believed, for {left / 86400:.0f} days more"
    return CheckResult("certificate", left > SOON, text + ("" if left > SOON else "; make a new one soon"))


def clock(site: NodeSettings) -> CheckResult:
    authority = str(site.certificates) if site.certificates else None
    url = f"{'https' if authority else 'http'}://{site.superlink}/health"
    try:
        with health.opened(url, authority) as reply:
            theirs = parsedate_to_datetime(reply.headers["Date"]).timestamp()
    except (HTTPException, OSError, TypeError, ValueError) as error:
        return bad("clock", f"no time from {site.superlink} ({error}); is that a SuperLink?")
    apart = abs(theirs - time.time())
    text = f"{apart:.0f} s from the SuperLink's"
    if apart > CLOCKS:
        return bad("clock", f"{text}: set this clock by NTP (timedatectl set-ntp true)")
    return CheckResult("clock", True, text)


def key(path: Path) -> CheckResult:
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    try:
        load_ssh_private_key(path.expanduser().read_bytes(), None)
    except (OSError, ValueError) as error:
        return bad("key", f"{path}: {error}; copy supernode-I.key here from where it was made")
    if os.name == "posix" and stat.S_IMODE(path.expanduser().stat().st_mode) & 0o077:
        return bad("key", f"others may read {path}: chmod 600 {path}")
    return CheckResult("key", True, f"{path} is a private key that only its owner reads")


def registered(site: NodeSettings) -> CheckResult:
    """Whether the SuperLink takes this key: the node is reported as online, and offline again."""
    import httpx
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

    from amsfl.flower import internals

    assert site.key is not None
    private: Any = load_ssh_private_key(site.key.expanduser().read_bytes(), None)
    public = private.public_key()
    encoded = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    version_ = internals.RuntimeVersionHttpInterceptor(component_name="SuperNode")
    own = [version_, internals.NodeAuthHttpInterceptor(private, public)]
    authority = str(site.certificates.expanduser()) if site.certificates else None
    connect = internals.FleetHttpClient.from_server_address
    try:
        with connect(site.superlink, authority is None, authority, interceptors=own) as client:
            request = internals.ActivateNodeRequest(public_key=encoded, heartbeat_interval=HEARTBEAT)
            node = client.ActivateNode(request).node_id
            client.DeactivateNode(internals.DeactivateNodeRequest(node_id=node))
    except httpx.HTTPStatusError as error:
        why = " ".join(error.response.text.split())[:200]
        advice = (
            f"register it at the server: flwr supernode register {site.key.stem}.pub; if it is registered, "
            "its SuperNode runs already, or ended less than a minute ago"
        )
        return bad("registration", f"the SuperLink does not take {site.key} ({why}); {advice}")
    except (httpx.HTTPError, OSError, ValueError) as error:
        return bad("registration", f"no answer from {site.superlink} ({error})")
    return CheckResult("registration", True, f"the SuperLink knows {site.key} as node {node}")


def data(node: dict[str, Any]) -> CheckResult:
    import numpy as np

    path = Path(str(node["shard"])).expanduser()
    try:
        with np.load(path, allow_pickle=False) as file:
            x, y, classes = file["x"], file["y"], int(file["classes"])
    except (OSError, KeyError, ValueError) as error:
        return bad("data", f"{path}: {error}; deal it again (deal.py) or mend `shard`")
    wrongs = (
        (x.ndim < 2 or len(x) != len(y), f"{x.shape} rows and {y.shape} labels do not belong together"),
        (not len(y), "it has no rows"),
        (not np.isfinite(x).all(), "some numbers are not finite"),
        (bool(len(y)) and not (y.min() >= 0 and y.max() < classes), f"labels are not 0 to {classes - 1}"),
    )
    for wrong, why in wrongs:
        if wrong:
            return bad("data", f"{path}: {why}; deal it again")
    return CheckResult("data", True, f"{len(y)} rows of {x.shape[1:]} numbers, {classes} classes")


def round_(node: dict[str, Any], make: Callable[[], Any] | None = None) -> CheckResult:
    """One round in this process, with this site's own rows as the only client.

    It is nobody's order: what the site keeps, and what it accepts of a server, has no part in it.
    """
    from amsfl.flower import jax_client, serve
    from amsfl.flower.deploy.builtin_app import own_shard
    from amsfl.flower.in_process import InProcessGrid

    settings = {"method": "amsfl", "clients": 1, "rounds": 1, "poll": 0.01, "patience": 0.5}
    output, alone = io.StringIO(), {key: value for key, value in node.items() if key not in OF_ORDERS}
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            _, (record,) = serve(InProcessGrid(make() if make else jax_client(own_shard), [alone]), settings)
    except Exception as error:  # whatever a site's own code raises
        return bad("round", f"a round in this process failed ({error}); try the client in an InProcessGrid")
    step = record.plan["step_seconds"][0]
    text = f"{record.steps[0]} steps of {step:.3g} s; known-step-seconds={step:.3g}"
    return CheckResult("round", True, text)


def address(site: NodeSettings) -> tuple[str, int]:
    host, _, port = site.superlink.rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else 0
