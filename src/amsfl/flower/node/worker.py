"""A process that runs a run's messages one after another: imports and compiled programs are paid once.

It is told of each message by a line on its standard input (address and token, by which it asks the SuperNode
for the rest) and says "done" or "failed". When that input closes, the SuperNode is gone, and so is this
process, whatever it is doing. What an app prints goes to the SuperNode's log.
"""

import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any, TextIO


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # an app may print; the pipe is ours
    import flwr.supernode.runtime.run_clientapp  # noqa: F401  (while nobody waits)

    import amsfl.flower.client.app  # noqa: F401

    apps: dict[str, Any] = {}
    try:
        for line in lines(sys.stdin):
            fine = serve(apps, **json.loads(line))
            print("done" if fine else "failed", file=answers, flush=True)
            if not fine:
                break  # whatever the app has left half done ends with this process
    except KeyboardInterrupt:  # Flower's way to say that the run was stopped
        pass
    os._exit(0)  # threads of the app's own may still run


def lines(source: TextIO) -> Iterator[str]:
    """Lines as they come. At their end the process ends, in the middle of a message too."""
    found: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in source:
            found.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield found.get()


def serve(apps: dict[str, Any], address: str, token: str) -> bool:
    """One message, from the SuperNode and back to it; whether the app did not raise."""
    from flwr.app import Error, Message
    from flwr.common.constant import ErrorCode, SubStatus
    from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
    from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, RuntimeVersionHttpInterceptor
    from flwr.supercore.retry import make_simple_http_retry_invoker
    from flwr.supercore.runtime import RuntimeHttpClient
    from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

    client = RuntimeHttpClient.from_server_address(
        server_address=address,
        insecure=True,
        root_certificates=None,
        interceptors=[
            RuntimeVersionHttpInterceptor(component_name="flwr-clientapp"),
            RuntimeTokenHttpInterceptor(token),
        ],
        retry_invoker=make_simple_http_retry_invoker(),
    )
    alive = HeartbeatSender(make_task_heartbeat_fn_http(client))
    alive.start()
    message = context = None
    status, why = SubStatus.COMPLETED, ""
    try:
        message, context, run, fab = pull_task_input(client)
        if fab.hash_str not in apps:
            apps[fab.hash_str] = load(run, fab)
        reply = apps[fab.hash_str](message=message, context=context)
    except Exception as error:
        traceback.print_exc()
        status, why = SubStatus.FAILED, f"{type(error).__name__}: {error}"
        reply = (
            Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, why), reply_to=message) if message else None
        )
    try:
        if reply is not None and context is not None:
            push_message(client, reply, context)
    finally:
        push_task_output(client, context, status, why)
        alive.stop()
        client.close()
    return status == SubStatus.COMPLETED


def load(run: Any, fab: Any) -> Any:
    """The ClientApp of an app bundle, installed where Flower installs it."""
    from flwr.cli.install import install_from_fab
    from flwr.clientapp.utils import get_load_client_app_fn

    install_from_fab(fab.content, skip_prompt=True)
    return get_load_client_app_fn("", None, multi_app=True)(run.fab_id, run.fab_version, fab.hash_str)


if __name__ == "__main__":
    main()
