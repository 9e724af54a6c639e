"""`python -m amsfl.flower.node.health`: exit code 0 if the address AMSFL_HEALTH answers; for containers."""

import os
import ssl
import sys
import urllib.request

SECONDS = 4.0


def answers(url: str, authority: str | None = None) -> bool:
    """Whether a request is answered with 200; `authority`: the certificate that https is checked by."""
    trusted = ssl.create_default_context(cafile=authority) if url.startswith("https:") else None
    try:
        with urllib.request.urlopen(url, timeout=SECONDS, context=trusted) as reply:
            return bool(reply.status == 200)
    except (OSError, ValueError):
        return False


if __name__ == "__main__":
    address = os.environ.get("AMSFL_HEALTH", "")
    sys.exit(0 if not address or answers(address, os.environ.get("AMSFL_HEALTH_CA")) else 1)
