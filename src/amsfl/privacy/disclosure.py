"""What leaves a client, all of it, in one place: how often, and what protects it.

`amsfl explain RUN --leaves`, docs/privacy.md and the tests of what really travels go by this list.
"""

from typing import NamedTuple

from amsfl.core import Reading
from amsfl.methods import Federation

OPEN = "nothing: it is sent as it is"
NOISED = "clipped rows and noise, counted in epsilon"
DERIVED = "made of nothing but what is noised and counted already"


class Leaf(NamedTuple):
    """One quantity that the server, or whoever reads its wires, learns of a client."""

    name: str
    what: str
    when: str
    protected: str
    fields: tuple[str, ...] = ()  # where it stands in a Flower message: record.key, or record.* for all keys


BY_SERVER = "the server, which is trusted with it: cut, summed and noised before anybody else sees it"
ORDERED = "nothing: the server ordered them"
UNCOUNTED = "nothing, and not counted in epsilon: under privacy only what is declared public"
HARMLESS = "nothing: no row has a part in it"
READING = tuple(f"report.{name}" for name in Reading._fields)


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
    leaves = [Leaf("delta", "how the model changed", every, protected, ("upload.*",))]
    if federation.method.facts.vectors_up > 1:
        extra = DERIVED if private else OPEN
        leaves.append(Leaf("extra", "the method's second vector", every, extra, ("upload.*",)))
    if readings and private:
        what = "its size and its way along the last global step; the server works them out of delta"
        leaves.append(Leaf("reading", what, every, DERIVED))
    elif readings:
        names = ", ".join(Reading._fields)
        what = f"scalars of one minibatch and of the rows that are held back: {names}"
        leaves.append(Leaf("reading", what, every, OPEN, READING))
    timed = ("report.step_seconds", "report.compute_seconds", "hello.step_seconds")
    load = "nothing: load changes it, data hardly"
    if private:
        load = "rounded up to marks a fifth apart, replies held until then; batches padded to one size"
    counted = ("report.rows", "hello.rows", "report.held_rows")
    size = "nothing: shares and epsilon go by it"
    leaves += [
        Leaf("steps", "how many local steps were run", every, ORDERED, ("report.steps", "report.taken")),
        Leaf("seconds", "how long they took", every, load, timed),
        Leaf("rows", "how many rows the client has", "once", size, counted),
    ]
    if table:
        what = "words, ranges, medians and class names of a table's columns, by which it is read"
        leaves.append(Leaf("columns", what, "once, before training", UNCOUNTED))
    if holdout:
        what = "scores of the model on hold-out rows, which are taken from the same tables"
        leaves.append(Leaf("holdout", what, every, "nothing: epsilon covers training rows alone"))
    return leaves


def on_flower(readings: bool, private: bool, scores: int) -> list[Leaf]:
    """What travels besides through Flower; `scores`: every so many rounds clients score the model."""
    every, once = "every round", "once"
    name = ("hello.name", "hello.own_optimizer", "hello.open", "echo.*")
    who = "what the client calls itself, of which make it is, which order it answers"
    first = "the first model, drawn from a seed, and its layers' names"
    left = "nothing: it follows from orders"
    leaves = [
        Leaf("name", who, every, HARMLESS, name),
        Leaf("state", "whether it had lost its own state", every, HARMLESS, ("report.lost_state",)),
        Leaf("model", first, once, HARMLESS, ("model.*", "tensors.*")),
        Leaf("budget", "what its own epsilon has left", once, left, ("hello.epsilon",)),
    ]
    if private or not readings:
        leaves.append(Leaf("zeros", "in a reading's place", every, HARMLESS, READING))
    if private:
        kept = "nothing: they go back as they came, and are not trained"
        said = "what went wrong stays in the client's log: a sentence says that something did"
        return [
            *leaves,
            Leaf("buffers", "arrays beside the model", every, kept, ("buffers.*",)),
            Leaf("errors", "that a client's work failed", "when it does", said),
        ]
    own = "numbers of the client's own (on_step), how far its own optimizer went, batches left out"
    leaves += [
        Leaf("buffers", "running statistics beside the model", every, OPEN, ("buffers.*",)),
        Leaf("metrics", own, every, OPEN, ("metrics.*", "report.moved", "report.skipped")),
        Leaf("errors", "what went wrong at a client, as text", "when it does", OPEN),
    ]
    if scores:
        what = "scores of the model on its own test rows"
        leaves.append(Leaf("scores", what, f"every {scores} rounds", OPEN, ("scores.*",)))
    return leaves
