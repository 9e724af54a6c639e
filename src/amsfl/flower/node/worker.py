"""A process that runs a run's messages one after another: imports and compiled programs are paid once.

It is told of each message by a line on its standard input (address and token, by which it asks the SuperNode
for the rest) and says "fetched" when it has the message, then "done" or "failed". When that input closes, the
SuperNode is gone, and so is this process, whatever it is doing. What an app prints goes to the SuperNode's
log.
"""

import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TextIO


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # an app may print; the pipe is ours
    import amsfl.flower.client.app  # noqa: F401  (while nobody waits)
    from amsfl.flower import internals

    internals.pull_task_input  # noqa: B018  (the same)

    apps: dict[str, Any] = {}
    say = partial(print, file=answers, flush=True)
    try:
        for line in lines(sys.stdin):
            fine = serve(apps, partial(say, "fetched"), **json.loads(line))
            say("done" if fine else "failed")
            if not fine:
                break  # whatever the app has left half done ends with this process
    except KeyboardInterrupt:  # Flower's way to say that the run was stopped
        pass
    os._exit(0)  # threads of the app's own may still run


def lines(source: TextIO) -> Iterator[str]:
    """Lines as they come. At their end the process ends, in the middle of a message too."""
    received: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in source:
            received.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield received.get()


def serve(apps: dict[str, Any], on_fetched: Callable[[], None], address: str, token: str) -> bool:
    """One message, from the SuperNode and back to it; whether the app did not raise."""
    from flwr.app import Error, Message

    from amsfl.flower import internals

    status_of = internals.SubStatus
    client = internals.RuntimeHttpClient.from_server_address(
        server_address=address,
        insecure=True,
        root_certificates=None,
        interceptors=[
            internals.RuntimeVersionHttpInterceptor(component_name="flwr-clientapp"),
            internals.RuntimeTokenHttpInterceptor(token),
        ],
        retry_invoker=internals.make_simple_http_retry_invoker(),
    )
    alive = internals.HeartbeatSender(internals.make_task_heartbeat_fn_http(client))
    alive.start()
    message: Any = None
    context: Any = None
    reply: Any = None
    status, why = status_of.COMPLETED, ""
    try:
        message, context, run, fab = internals.pull_task_input(client)
        on_fetched()
        if fab.hash_str not in apps:
            apps[fab.hash_str] = load(run, fab)
        reply = apps[fab.hash_str](message=message, context=context)
    except Exception as error:
        traceback.print_exc()
        status, why = status_of.FAILED, f"{type(error).__name__}: {error}"
        if message:
            reply = Message(Error(internals.ErrorCode.CLIENT_APP_RAISED_EXCEPTION, why), reply_to=message)
    try:
        if reply is not None and context is not None:
            internals.push_message(client, reply, context)
    finally:
        internals.push_task_output(client, context, status, why)
        alive.stop()
        client.close()
    return bool(status == status_of.COMPLETED)


def load(run: Any, fab: Any) -> Any:
    """The ClientApp of an app bundle, installed where Flower installs it."""
    from amsfl.flower import internals

    internals.install_from_fab(fab.content, skip_prompt=True)
    load_app = internals.get_load_client_app_fn("", None, multi_app=True)
    return load_app(run.fab_id, run.fab_version, fab.hash_str)


if __name__ == "__main__":
    main()
