"""A site's audit log: every order and what was sent for it, one line of JSON each, only ever appended.

`orders-NAME.jsonl` in the site's `state-dir`, readable by its owner alone.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flwr.app import Context

from amsfl.core import UserError
from amsfl.flower.client.privacy_ledger import site_folder
from amsfl.flower.client.site_policy import site_name
from amsfl.flower.messages import Order
from amsfl.record import disk


@contextmanager
def logged(context: Context, what: str, order: Order | None = None) -> Iterator[dict[str, Any]]:
    """`with logged(context, "train", order) as entry:`; whatever is put into `entry` is on the line."""
    entry: dict[str, Any] = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "what": what}
    entry |= {"flower_run": context.run_id}
    if order is not None:
        entry["order"] = order._replace(terms=None)._asdict() | {
            "terms": order.terms._asdict() if order.terms else None
        }
    try:
        yield entry
    except UserError as error:
        entry["refused"] = str(error)
        raise
    except Exception as error:
        entry["failed"] = type(error).__name__
        raise
    finally:
        if context.node_config.get("state-dir"):
            _append(context, entry)


def _append(context: Context, entry: dict[str, Any]) -> None:
    folder = site_folder(context)
    disk.make_folder(folder, private=True)
    path = folder / f"orders-{disk.safe_name(site_name(context), 'The client name')}.jsonl"
    line = (json.dumps(entry, default=str) + "\n").encode()
    with disk.explain_errors("written", path):
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            disk.write_all(file, line)
            os.fsync(file)
        finally:
            os.close(file)
