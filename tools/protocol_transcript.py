"""Write one round as it travels into docs/protocol.md; --check only says whether the page is up to date."""

import contextlib
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Message

from amsfl.flower import NumpyTrainer, numpy_client, serve
from amsfl.flower.in_process import InProcessGrid
from amsfl.flower.messages import arrays

PAGE = Path(__file__).parents[1] / "docs" / "protocol.md"
START, END = "<!-- transcript -->\n", "<!-- end -->"
MEASURED = {
    "run": "(16 hex digits)",
    "time_limit": "(seconds)",
    "step_seconds": "(measured)",
    "compute_seconds": "(measured)",
}


class Overheard(InProcessGrid):
    """A rehearsal that writes down what passes."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.heard: list[tuple[Message, Message]] = []

    def answer(self, message: Message) -> Message:
        reply = super().answer(message)
        self.heard.append((message, reply))
        return reply


def client(context: Any) -> NumpyTrainer:
    a = np.array([[1, 0], [0, 2], [1, 1]], float) + context.node_config["partition-id"]
    b = np.array([1.0, 2.0, 3.0])

    def gradient(x: Any, step: int, order: Any) -> tuple[float, Any]:
        left = a @ x - b
        return float((left**2).mean() / 2), a.T @ left / len(b)

    return NumpyTrainer(len(b), np.zeros(2, np.float32), gradient)


def told(title: str, content: Any) -> list[str]:
    lines = [title]
    for name, record in content.items():
        if name in ("model", "upload", "buffers"):
            for key, part in arrays(content, name).items():
                shown = ", ".join(f"{float(value):.4g}" for value in part)
                lines.append(f"  {name}.{key} = float32 [{shown}]")
            continue
        for key, value in record.items():
            shown = f"{value:.4g}" if isinstance(value, float) else repr(value)
            lines.append(f"  {name}.{key} = {MEASURED.get(key, shown)}")
    return lines


def transcript() -> str:
    grid = Overheard(numpy_client(client), [{"partition-id": 0}, {"partition-id": 1}])
    settings = {"method": "amsfl", "policy": "fixed", "steps": 2, "clients": 2, "rounds": 2, "poll": 0.01}
    with contextlib.redirect_stdout(io.StringIO()):
        serve(grid, settings | {"give_up": 60.0})
    hello = next(pair for pair in grid.heard if "ask" in pair[0].content and pair[0].content["ask"]["model"])
    trained = [pair for pair in grid.heard if "order" in pair[0].content][2:]
    lines = told("query to client 0", hello[0].content) + told("its reply", hello[1].content)
    for number, (order, reply) in enumerate(trained):
        lines += told(f"train to client {number}", order.content) + told("its reply", reply.content)
    return "```\n" + "\n".join(lines) + "\n```\n"


def main() -> None:
    text = PAGE.read_text()
    before, rest = text.split(START)
    new = before + START + transcript() + END + rest.split(END)[1]
    if "--check" in sys.argv:
        sys.exit(0 if new == text else "docs/protocol.md is stale: python tools/protocol_transcript.py")
    PAGE.write_text(new)


if __name__ == "__main__":
    main()
