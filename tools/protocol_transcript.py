"""Write every message as it travels into docs/protocol.md; --check says whether the page is up to date."""

import contextlib
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Message

from amsfl.flower import NumpyTrainer, numpy_client, serve
from amsfl.flower.in_process import InProcessGrid
from amsfl.flower.messages import GlobalModel, Order, arrays, pack_order
from amsfl.privacy import Terms

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

    def scores(x: Any) -> dict[str, float]:
        return {"loss": gradient(x, 0, None)[0], "rows": 3.0}

    return NumpyTrainer(len(b), np.zeros(2, np.float32), gradient, scores)


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


def overhear(**settings: Any) -> list[tuple[Message, Message]]:
    """What client 0 was sent and answered in a run of two rounds."""
    grid = Overheard(numpy_client(client), [{"partition-id": 0}, {"partition-id": 1}])
    common = {"policy": "fixed", "steps": 2, "clients": 2, "rounds": 2, "poll": 0.01, "give_up": 60.0}
    with contextlib.redirect_stdout(io.StringIO()):
        serve(grid, {**common, **settings})
    return [pair for pair in grid.heard if pair[0].metadata.dst_node_id == 1000]


def private_order() -> list[str]:
    order = Order("r", 0, -1, 0, 2, 9.0, 0.1, True, 64, 0, "fedavg", {}, "", False)
    order = order._replace(terms=Terms("record", 1.0, 1.1, 2.0, 1e-5))
    content = pack_order(order, GlobalModel(*[np.zeros(0, np.float32)] * 3, {}))
    return [line for line in told("", content) if "privacy." in line]


def transcript() -> str:
    amsfl = overhear(method="amsfl", evaluate_clients=1)
    trains, scores = (
        [pair for pair in amsfl if pair[0].metadata.message_type == kind] for kind in ("train", "evaluate")
    )
    hello = next(pair for pair in amsfl if "ask" in pair[0].content and pair[0].content["ask"]["model"])
    second = [pair for pair in overhear(method="scaffold", lr=0.1) if "order" in pair[0].content][1]
    shown = {
        "query": hello,
        "train, AMSFL's first round: no rate is known": trains[0],
        "train, AMSFL's second round: the last global step is known": trains[1],
        "evaluate": scores[0],
        "train, SCAFFOLD's second round: a second vector each way": second,
    }
    lines = []
    for title, (asked, answer) in shown.items():
        lines += told(title, asked.content) + told("its reply", answer.content)
    lines += ["of an order under privacy, besides", *private_order()]
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
