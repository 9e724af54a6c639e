"""What clients are asked before the first round: the initial model, of which nobody's word alone decides, and
how long an exchange takes them."""

from collections import Counter
from collections.abc import Sequence
from math import prod

import numpy as np

from amsfl.core import UserError
from amsfl.flower.messages import Hello, TensorSpec
from amsfl.flower.server.clients import RegisteredClient
from amsfl.flower.server.registration import HELLO_SECONDS, Registration
from amsfl.flower.vector_files import finite, kept, largest, square

MODELS_ASKED = 3  # clients that are asked for the first model
LARGEST = 1e6  # number in it
MOST, LONGEST = 100_000, 300  # names of tensors, and characters of one


def first_model(registration: Registration, registered: list[RegisteredClient]) -> Hello:
    """Of a form that most of them have, and of usual length. All draw it from the same seed, so honest ones
    send the same."""
    models: list[tuple[int, Hello]] = []
    for who, client in enumerate(registered):
        asked = registration.ask([client.node], model=True)
        for arrival in registration.transport.collect(asked, HELLO_SECONDS):
            hello = registration.hello(arrival) if arrival.sent.node == client.node else None
            why = None if hello is None else unfit_model(hello)
            if why:
                registration.refuse(who, f"first model: {why}")
            elif hello is not None:
                models.append((who, hello._replace(model=kept(hello.model))))
        if len(models) == MODELS_ASKED:
            break
    if not models:
        raise UserError(
            f"No client could give the first model{registration.first_reason()}; look into the SuperNodes' "
            "logs."
        )
    hello, others = choose_model(models)
    for who in others:
        registration.refuse(who, "first model: its form is not the others'")
    wrong = unfit_names(hello.tensors, hello.model.size) if hello.tensors else None
    if wrong is None:
        return hello
    registration.notes.append(f"the names of the model's tensors are not kept: {wrong}")
    return hello._replace(tensors=())


def choose_model(models: Sequence[tuple[int, Hello]]) -> tuple[Hello, list[int]]:
    """Of a form that most clients have, and of usual length; and the clients whose form is another."""
    forms = []  # what models must have in common to be averaged
    for _, hello in models:
        buffers = sorted((name, part.shape, str(part.dtype)) for name, part in hello.buffers.items())
        forms.append((hello.model.size, hello.tensors, tuple(buffers)))
    form, votes = Counter(forms).most_common(1)[0]
    if len(models) > 1 and votes == 1:
        sizes = ", ".join(f"client {who} {hello.model.size:,}" for who, hello in models)
        raise UserError(
            f"Clients do not agree on the model's form ({sizes} numbers): run the same model at all, or "
            "give the server the first one."
        )
    agreeing = [hello for (_, hello), each in zip(models, forms, strict=True) if each == form]
    by_length = sorted(agreeing, key=lambda hello: square(hello.model))
    others = [who for (who, _), each in zip(models, forms, strict=True) if each != form]
    return by_length[(len(by_length) - 1) // 2], others


def unfit_model(hello: Hello) -> str | None:
    """Why a first model cannot be used; None where it can."""
    floats = [hello.model, *(part for part in hello.buffers.values() if part.dtype.kind == "f")]
    if not hello.model.size or hello.model.ndim != 1 or hello.model.dtype != np.float32:
        return "it is no flat vector of float32"
    if not all(finite(flat) and largest(flat) <= LARGEST for flat in map(np.ravel, floats)):
        return f"it holds numbers that are not finite, or beyond {LARGEST:g}"
    return None


def unfit_names(leaves: tuple[TensorSpec, ...], size: int) -> str | None:
    """Why these names are not those of a model of that size, if they are not."""
    names = [leaf.name for leaf in leaves]
    if len(names) > MOST or len({*names}) < len(names):
        return f"{len(names)} tensors, some of one name" if len(names) <= MOST else f"{len(names)} tensors"
    if not all(0 < len(name) <= LONGEST and name.isprintable() for name in names):
        return f"a tensor's name has 1 to {LONGEST} printable characters"
    own = {leaf.name: leaf.shape for leaf in leaves if not leaf.alias}
    if any(leaf.alias and own.get(leaf.alias) != leaf.shape for leaf in leaves):
        return "a tensor is tied to one that is not there"
    if sum(prod(shape) for shape in own.values()) != size or any(min(s, default=0) < 0 for s in own.values()):
        return "the tensors' shapes do not add up to the model"
    return None


def ping(registration: Registration, registered: list[RegisteredClient]) -> list[float]:
    """Seconds of an exchange in which nothing is done, so that the first plan need not guess them.

    Everybody has just measured a step, so processes are up, and answers come soon. 0 for who sends none.
    """
    seconds = dict[int, float]()
    ids = registration.ask([client.node for client in registered])
    for arrival in registration.transport.collect(ids, HELLO_SECONDS):
        if registration.hello(arrival) is not None:
            seconds[arrival.sent.node] = arrival.seconds
    return [seconds.get(client.node, 0.0) for client in registered]
