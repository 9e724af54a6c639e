"""`python -m amsfl.flower.node.health`: exit code 0 if the address AMSFL_HEALTH answers; for containers."""

import os
import ssl
import sys
import urllib.request
from typing import Any

SECONDS = 4.0


def opened(url: str, authority: str | None = None) -> Any:
    """`authority`: the certificate that https is checked by."""
    trusted = ssl.create_default_context(cafile=authority) if url.startswith("https:") else None
    return urllib.request.urlopen(url, timeout=SECONDS, context=trusted)


def answers(url: str, authority: str | None = None) -> bool:
    """Whether a request is answered with 200."""
    try:
        with opened(url, authority) as reply:
            return bool(reply.status == 200)
    except (OSError, ValueError):
        return False


if __name__ == "__main__":
    address = os.environ.get("AMSFL_HEALTH", "")
    sys.exit(0 if not address or answers(address, os.environ.get("AMSFL_HEALTH_CA")) else 1)
