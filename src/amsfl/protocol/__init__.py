"""One round between a client and the server, written once: simulated and real ones run the same lines.

A client: begin, first, step ..., close, finish; then `sent`. The server: `received`, then `settle`.
Operators only, so vectors may be numpy, jax or torch; whoever brings gradients brings nothing else.
"""

from amsfl.protocol.client import (
    FLAT,
    LastStep,
    LocalState,
    VectorLayout,
    begin,
    close,
    finish,
    first_step,
    local_step,
)
from amsfl.protocol.server import combine_uploads, mean_loss, private_sum, settle, weigh_by_age
from amsfl.protocol.wire import (
    decode,
    empty_parts,
    encode,
    encode_and_decode,
    initial_client_state,
    part_bytes,
    upload_bytes,
)

__all__ = [
    "FLAT",
    "LastStep",
    "LocalState",
    "VectorLayout",
    "begin",
    "close",
    "combine_uploads",
    "decode",
    "empty_parts",
    "encode",
    "encode_and_decode",
    "finish",
    "first_step",
    "initial_client_state",
    "local_step",
    "mean_loss",
    "part_bytes",
    "private_sum",
    "settle",
    "upload_bytes",
    "weigh_by_age",
]
