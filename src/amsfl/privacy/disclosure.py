"""What leaves a client, all of it, in one place: how often, and what protects it.

`amsfl explain RUN --leaves` and docs/privacy.md go by this list.
"""

from typing import NamedTuple

from amsfl.core import Reading
from amsfl.methods import Federation

OPEN = "nothing: it is sent as it is"
NOISED = "clipped rows and noise, counted in epsilon"
DERIVED = "made of nothing but what is noised and counted already"
BY_SERVER = "the server, which is trusted with it: cut, summed and noised before anybody else sees it"
UNCOUNTED = "nothing, and not counted in epsilon: under privacy only what is declared public"


class Leaf(NamedTuple):
    """One quantity that the server, or whoever reads its wires, learns of a client."""

    name: str
    what: str
    when: str
    protected: str


def leaves(
    federation: Federation,
    readings: bool,
    private: bool,
    table: bool,
    clients: bool = False,
    holdout: bool = False,
) -> list[Leaf]:
    """The list for a federation; `readings`: they are taken; `private`: by record; `table`: data from a file;
    `clients`: whole clients are kept private; `holdout`: the run scores rows of the clients' own tables."""
    every = "every round"
    way = f"{DERIVED}; then {federation.transmit.name}" if private and federation.transmit else ""
    protected = way or (NOISED if private else BY_SERVER if clients else OPEN)
    leaves = [Leaf("delta", "how the model changed", every, protected)]
    if federation.method.facts.vectors_up > 1:
        leaves.append(Leaf("extra", "the method's second vector", every, DERIVED if private else OPEN))
    if readings and private:
        what = "its size and its way along the last global step; the server works them out of delta"
        leaves.append(Leaf("reading", what, every, DERIVED))
    elif readings:
        what = "scalars of one minibatch and of the rows that are held back: "
        leaves.append(Leaf("reading", what + ", ".join(Reading._fields), every, OPEN))
    load = "nothing: load changes it, data hardly"
    if private:
        load = "rounded up to marks a fifth apart, replies held until then; batches padded to one size"
    leaves += [
        Leaf("steps", "how many local steps were run", every, "nothing: the server ordered them"),
        Leaf("seconds", "how long they took", every, load),
        Leaf("rows", "how many rows the client has", "once", "nothing: shares and epsilon go by it"),
    ]
    if table:
        what = "words, ranges, medians and class names of a table's columns, by which it is read"
        leaves.append(Leaf("columns", what, "once, before training", UNCOUNTED))
    if holdout:
        what = "scores of the model on hold-out rows, which are taken from the same tables"
        leaves.append(Leaf("holdout", what, every, "nothing: epsilon covers training rows alone"))
    return leaves


def on_flower(private: bool, scores: int) -> list[Leaf]:
    """What travels besides through Flower; `scores`: whether clients score the model."""
    every = "every round"
    if private:
        kept = "nothing: they go back as they came, and are not trained"
        log = "what went wrong stays in the client's log: a sentence says that something did"
        return [
            Leaf("budget", "the epsilon that it has spent", every, "nothing: it follows from orders"),
            Leaf("buffers", "arrays beside the model", every, kept),
            Leaf("errors", "that a client's work failed", "when it does", log),
        ]
    leaves = [
        Leaf("buffers", "running statistics beside the model", every, OPEN),
        Leaf("metrics", "numbers of the client's own", every, OPEN),
        Leaf("errors", "what went wrong at a client, as text", "when it does", OPEN),
    ]
    return leaves + [Leaf("scores", "scores of the model on its own test rows", every, OPEN)] * bool(scores)
