"""TLS certificates for a SuperLink and key pairs for SuperNodes, for a first deployment or a test.

For real sites let your own authority sign; Flower only needs PEM files of the same kinds.
"""

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from amsfl.core import UserError

DAYS = 365
AUTHORITY = "amsfl federation authority"
HERE = ("localhost", "127.0.0.1")


class Keys(NamedTuple):
    """Where the files are. Only `ca` and its own private key go to a SuperNode's machine."""

    ca: Path  # the authority's certificate: clients check the SuperLink by it
    certificate: Path  # the SuperLink's
    key: Path
    nodes: tuple[Path, ...]  # one private key a SuperNode; beside each its .pub, to be registered


def make(folder: Path, nodes: int, hosts: Sequence[str] = ("localhost",)) -> Keys:
    """Write an authority, a certificate of the SuperLink for `hosts`, and one key pair a SuperNode.

    The certificate is also good for this machine's own names: Flower's SuperExec, which runs beside the
    SuperLink, reaches it by 127.0.0.1. Keys that are there already are never written over.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    now = datetime.datetime.now(datetime.UTC)

    def name(text: str) -> Any:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def certificate(subject: str, key: Any, signer: Any, extensions: list[tuple[Any, bool]]) -> Any:
        builder = (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name(AUTHORITY))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))  # clocks differ
            .not_valid_after(now + datetime.timedelta(days=DAYS))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
            )
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(signer, hashes.SHA256())

    authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    other = "digital_signature content_commitment key_encipherment data_encipherment key_agreement"
    usage = dict.fromkeys([*other.split(), "encipher_only", "decipher_only"], False)
    top = (x509.BasicConstraints(ca=True, path_length=0), True)
    signs = (x509.KeyUsage(**usage, key_cert_sign=True, crl_sign=True), True)
    root = certificate(AUTHORITY, authority, authority, [top, signs])
    names = (x509.SubjectAlternativeName([_host(host) for host in dict.fromkeys([*hosts, *HERE])]), False)
    end = (x509.BasicConstraints(ca=False, path_length=None), True)
    leaf = certificate(hosts[0], server, authority, [names, end])
    link = (folder / "ca.pem", folder / "superlink.pem", folder / "superlink.key")
    keys = Keys(*link, tuple(folder / f"supernode-{number}.key" for number in range(nodes)))
    taken = [path for path in (*link, *keys.nodes) if path.exists()]
    if taken:
        raise _in_the_way(taken[0])
    private = server.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    _write(keys.ca, root.public_bytes(Encoding.PEM))
    _write(keys.certificate, leaf.public_bytes(Encoding.PEM))
    _write(keys.key, private, secret=True)
    for path in keys.nodes:
        node_key(path)
    return keys


def node_key(path: Path) -> Path:
    """One SuperNode's key pair: PATH (keep it there) and PATH.pub (register it with the SuperLink)."""
    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    _write(path, private, secret=True)
    _write(path.with_suffix(".pub"), public + b"\n")
    return path


def _host(host: str) -> Any:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(path: Path, content: bytes, secret: bool = False) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        file = os.open(path, flags, 0o600 if secret else 0o644)
    except FileExistsError:
        raise _in_the_way(path) from None
    with os.fdopen(file, "wb") as opened:
        opened.write(content)


def _in_the_way(path: Path) -> UserError:
    return UserError(
        f"{str(path)!r} is there already, and sites may be using it; choose another folder, or move it away."
    )
