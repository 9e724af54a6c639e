"""One round between a client and the server, written once: simulated and real ones run the same lines.

A client: begin, first_step, local_step ..., close, finish, then encode. The server: decode, then settle.
Operators only, so vectors may be of numpy, jax or torch.
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
    open_rate,
    trial_step,
)
from amsfl.protocol.server import (
    CohortWork,
    agreement,
    combine_uploads,
    combine_work,
    compares_uploads,
    forge,
    mean_slopes,
    remembers,
    sent_state,
    settle,
    weigh_by_age,
)
from amsfl.protocol.wire import (
    FLOAT,
    decode,
    empty_parts,
    empty_upload,
    encode,
    encode_and_decode,
    initial_client_state,
    part_bytes,
    upload_bytes,
)

__all__ = [
    "FLAT",
    "FLOAT",
    "CohortWork",
    "LastStep",
    "LocalState",
    "VectorLayout",
    "agreement",
    "begin",
    "close",
    "combine_uploads",
    "combine_work",
    "compares_uploads",
    "decode",
    "empty_parts",
    "empty_upload",
    "encode",
    "encode_and_decode",
    "finish",
    "first_step",
    "forge",
    "initial_client_state",
    "local_step",
    "mean_slopes",
    "open_rate",
    "part_bytes",
    "remembers",
    "sent_state",
    "settle",
    "trial_step",
    "upload_bytes",
    "weigh_by_age",
]
