"""Peak memory of the server by the number of clients, with a large model.

    python tools/server_memory.py [NUMBERS] [METHOD]

A grid without network or processes. Its clients compute nothing: every reply has the same upload, whose bytes
are there before the first round, so that what is measured is the server's own; then once more, with each
reply made by Flower of the pieces that it receives. Each count of clients runs in a process of its own
(Linux); memory is what it held at most beyond that before its first round, checkpoints and the files of the
last and the best model included.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROUNDS = 2


def federation(
    numbers: int, clients: int, method: str, out: Path, through_flower: bool = False
) -> Callable[[], object]:
    """What runs it, once the clients' bytes are there."""
    import numpy as np
    from flwr.app import Message
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
    from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

    from amsfl.flower import NumpyTrainer, messages, numpy_client, serve
    from amsfl.flower.in_process import InProcessGrid

    upload = messages.pack_arrays({"delta": np.linspace(-1e-3, 1e-3, numbers, dtype=np.float32)})
    stored = {key: part.deflate() for key, part in get_all_nested_objects(upload).items()}
    name = upload.object_id
    reading = messages.Reading(*[1e-3] * len(messages.Reading._fields))

    def received() -> Any:
        """As Flower makes it of what comes over the network, all of it in memory."""
        return inflate_object_from_contents(name, {key: part[:1] + part[1:] for key, part in stored.items()})

    class ConstantGrid(InProcessGrid):
        """Answers orders with the same upload."""

        def answer(self, message: Message) -> Message:
            if message.metadata.message_type != "train":
                return super().answer(message)
            order = message.content["order"]
            echo = (str(order["run"]), int(order["round"]), int(order["client"]))
            reply = messages.Reply(*echo, {}, {}, reading, int(order["steps"]), 10, 0.01, 0.01, False)
            content = messages.pack_reply(reply)
            content["upload"] = received() if through_flower else upload
            return Message(content, reply_to=message)

    small = np.zeros(1, np.float32)
    app = numpy_client(lambda context: NumpyTrainer(10, small, lambda x, step, order: (1.0, x)))
    nodes = [{"partition-id": place, "known-step-seconds": 0.01} for place in range(clients)]
    settings: dict[str, Any] = {"method": method, "clients": clients, "rounds": ROUNDS, "poll": 0.001}
    settings |= {"policy": "fixed", "steps": 1, "patience": 600.0}
    settings["out"] = str(out)
    scores = {"holdout": {"accuracy": 0.5, "loss": 1.0}}

    def start(config: Any) -> Any:
        return np.zeros(numbers, np.float32)

    return lambda: serve(ConstantGrid(app, nodes), settings, lambda *model: scores, start)


def peak(numbers: int, clients: int, method: str, through_flower: bool) -> float:
    """Megabytes beyond what is there before the first round."""
    with tempfile.TemporaryDirectory(prefix="amsfl-memory-") as folder:
        run = federation(numbers, clients, method, Path(folder) / "run", through_flower)
        federation(10, clients, method, Path(folder) / "small", through_flower)()  # imports are memory, too
        Path("/proc/self/clear_refs").write_text("5")  # what was held at most so far counts no more
        before = held()["VmRSS"]
        run()
        return (held()["VmHWM"] - before) / 1024


def held() -> dict[str, int]:
    """Kilobytes, now and at most."""
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return {name.rstrip(":"): int(value[0]) for name, *value in lines if name.startswith("Vm")}


def main() -> None:
    numbers = int(sys.argv[1]) if len(sys.argv) > 1 else 25_000_000
    method = sys.argv[2] if len(sys.argv) > 2 else "fedavg"
    if len(sys.argv) > 3:
        print(f"{peak(numbers, int(sys.argv[3]), method, sys.argv[4] == 'flower'):.0f}")
        return
    model = 4 * numbers / 2**20
    print(f"{method}, a model of {numbers:,} numbers, {model:.0f} MB")
    for clients in (1, 6, 20):
        texts = []
        for way in ("alone", "flower"):
            command = [sys.executable, __file__, str(numbers), method, str(clients), way]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            megabytes = float(done.stdout.split()[-1])
            texts.append(f"{megabytes:6.0f} MB, {megabytes / model:.1f} models")
        print(f"{clients:3} clients: {texts[0]}; with Flower's replies {texts[1]}", flush=True)


if __name__ == "__main__":
    main()
