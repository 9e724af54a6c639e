"""A transmission of one's own: every number in two bytes."""

from amsfl.core import Transmit, namespace
from amsfl.transmit import floats


def halves() -> Transmit:
    """float16 on the way."""

    def encode(key, parts, memory):
        small = {f"{name}.half": namespace(part).astype(part, "float16") for name, part in floats(parts)}
        return {"like": memory[:0], **small, **{n: p for n, p in parts.items() if not p.size}}, memory

    def decode(parts):
        kind = parts["like"].dtype
        whole = {n.removesuffix(".half"): p.astype(kind) for n, p in parts.items() if n.endswith(".half")}
        return {**{n: p for n, p in parts.items() if n in ("delta", "extra")}, **whole}

    return Transmit("halves", encode, decode)
