"""What clients are asked before the first round: the initial model, of which nobody's word alone decides, and
how long an exchange takes them."""

from amsfl.core import UserError
from amsfl.flower.messages import Hello
from amsfl.flower.server import best_model, clients
from amsfl.flower.server.clients import RegisteredClient
from amsfl.flower.server.registration import HELLO_SECONDS, Registration
from amsfl.flower.vector_files import kept


def first_model(registration: Registration, registered: list[RegisteredClient]) -> Hello:
    """Of a form that most of them have, and of usual length. All draw it from the same seed, so honest ones
    send the same."""
    models: list[tuple[int, Hello]] = []
    for who, client in enumerate(registered):
        asked = registration.ask([client.node], model=True)
        for arrival in registration.transport.collect(asked, HELLO_SECONDS):
            hello = registration.hello(arrival) if arrival.sent.node == client.node else None
            why = None if hello is None else clients.unfit_model(hello)
            if why:
                registration.refuse(who, f"first model: {why}")
            elif hello is not None:
                models.append((who, hello._replace(model=kept(hello.model))))
        if len(models) == clients.MODELS_ASKED:
            break
    if not models:
        raise UserError(
            f"No client could give the first model{registration.first_reason()}; look into the SuperNodes' "
            "logs."
        )
    hello, others = clients.choose_model(models)
    for who in others:
        registration.refuse(who, "first model: its form is not the others'")
    wrong = best_model.check(hello.tensors, hello.model.size) if hello.tensors else None
    if wrong is None:
        return hello
    registration.notes.append(f"the names of the model's tensors are not kept: {wrong}")
    return hello._replace(tensors=())


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
