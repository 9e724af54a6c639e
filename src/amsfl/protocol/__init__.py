"""One round between a client and the server, written once: simulated and real ones run the same lines.

A client: begin, first_step, local_step ..., look_back, finish, then encode. The server: decode, settle.
Operators only, so vectors may be of numpy, jax or torch.
"""

from amsfl.protocol.client import (
    FLAT,
    LocalState,
    VectorLayout,
    begin,
    finish,
    first_step,
    local_step,
    look_back,
)
from amsfl.protocol.server import (
    CohortWork,
    combine_uploads,
    compares_uploads,
    forge,
    measured,
    remembers,
    sent_state,
    settle,
    sum_uploads,
    weigh_by_age,
)
from amsfl.protocol.wire import (
    FLOAT,
    decode,
    empty_upload,
    encode,
    encode_and_decode,
    initial_client_state,
    upload_bytes,
)

__all__ = [
    "FLAT",
    "FLOAT",
    "CohortWork",
    "LocalState",
    "VectorLayout",
    "begin",
    "combine_uploads",
    "compares_uploads",
    "decode",
    "empty_upload",
    "encode",
    "encode_and_decode",
    "finish",
    "first_step",
    "forge",
    "initial_client_state",
    "local_step",
    "look_back",
    "measured",
    "remembers",
    "sent_state",
    "settle",
    "sum_uploads",
    "upload_bytes",
    "weigh_by_age",
]
