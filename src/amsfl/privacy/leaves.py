"""What leaves a client, all of it, in one place: how often, and what protects it.

`amsfl check --leaves`, docs/privacy.md and the tests of what really travels go by this list.
"""

from typing import NamedTuple

from amsfl.core import Reading
from amsfl.methods import Method

OPEN = "nothing: it is sent as it is"
NOISED = "clipped rows and noise, counted in epsilon"
DERIVED = "made of nothing but what is noised and counted already"


class Leaf(NamedTuple):
    """One quantity that the server, or whoever reads its wires, learns of a client."""

    name: str
    what: str
    when: str
    protected: str


BY_SERVER = "the server, which is trusted with it: cut, summed and noised before anybody else sees it"


def leaves(method: Method, readings: bool, private: bool, table: bool, clients: bool = False) -> list[Leaf]:
    """The list for a method; `readings`: they are taken; `private`: by record; `table`: data from a file;
    `clients`: whole clients are kept private."""
    way = f"{DERIVED}; then {method.transmit.name}" if private and method.transmit else ""
    found = [
        Leaf(
            "delta",
            "how the model changed",
            "every round",
            way or (NOISED if private else BY_SERVER if clients else OPEN),
        ),
    ]
    if method.vectors_up > 1:
        found.append(Leaf("extra", "the method's second vector", "every round", DERIVED if private else OPEN))
    if readings and not private:
        names = ", ".join(Reading._fields)
        found.append(Leaf("reading", f"scalars of one minibatch: {names}", "every round", OPEN))
    if readings and private:
        what = "its size and its way along the last global step; the server works them out of delta"
        found.append(Leaf("reading", what, "every round", DERIVED))
    found += [
        Leaf("steps", "how many local steps were run", "every round", "nothing: the server ordered them"),
        Leaf("seconds", "how long they took", "every round", "nothing: data do not change it, load does"),
        Leaf("rows", "how many rows the client has", "once", "nothing: shares and epsilon go by it"),
    ]
    if table:
        what = "sums over its rows by which a table's columns are filled and scaled (impute: shared)"
        found.append(Leaf("recipe", what, "once, before training", f"{OPEN}; not counted in epsilon"))
    return found
