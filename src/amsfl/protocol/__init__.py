"""One round between a client and the server, written once: simulated and real ones run the same lines.

A client: begin, first, step ..., close, finish; then `sent`. The server: `received`, then `settle`.
Operators only, so vectors may be numpy, jax or torch; whoever brings gradients brings nothing else.
"""

from amsfl.protocol.client import FLAT, Carry, Layout, Past, begin, close, finish, first, step
from amsfl.protocol.server import aged, combined, mean_loss, private_sum, settle
from amsfl.protocol.wire import delivered, fresh, received, sent, sent_bytes, travelling, weight

__all__ = [
    "FLAT",
    "Carry",
    "Layout",
    "Past",
    "aged",
    "begin",
    "close",
    "combined",
    "delivered",
    "finish",
    "first",
    "fresh",
    "mean_loss",
    "private_sum",
    "received",
    "sent",
    "sent_bytes",
    "settle",
    "step",
    "travelling",
    "weight",
]
