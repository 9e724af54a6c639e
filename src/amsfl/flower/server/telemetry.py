"""What a running server prints and publishes: a line a round, refusals at once, numbers for Prometheus.

Lines are text, or with `log="json"` one JSON object each, with the time and what kind of event it is.
"""

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from amsfl.core import UserError
from amsfl.core.scores import describe_scores
from amsfl.flower.metrics import Metrics
from amsfl.flower.server.scoring import deciding_split
from amsfl.record import RoundRecord

HELP = {
    "rounds_total": "Rounds that were finished.",
    "steps_total": "Local steps whose work was taken.",
    "seconds_total": "Seconds by phase: waiting for clients, and everything else.",
    "bytes_total": "Bytes of models and uploads by direction.",
    "refusals_total": "Replies and nodes that were refused.",
    "clients": "Clients in the last round.",
}
PRINT = partial(print, flush=True)


class Telemetry:
    """`on_round` and `on_refusal` are called by the server."""

    def __init__(self, log: str = "text", port: int = 0, write: Callable[[str], None] = PRINT):
        if log not in ("text", "json"):
            raise UserError(f"log is {log!r}; it may be 'text' or 'json'.")
        self.json, self.write = log == "json", write
        self.metrics = Metrics("amsfl_server", HELP)
        self.page = self.metrics.serve(port) if port else None

    def on_round(self, record: RoundRecord, names: Sequence[str]) -> None:
        waited, whole = record.round_seconds["makespan"], record.wall.get("seconds", 0.0)
        self.metrics.add("rounds_total")
        self.metrics.add("steps_total", sum(record.steps))
        self.metrics.add("seconds_total", waited, phase="clients")
        self.metrics.add("seconds_total", max(whole - waited, 0.0), phase="server")
        self.metrics.add("bytes_total", record.bytes_up, direction="up")
        self.metrics.add("bytes_total", record.bytes_down, direction="down")
        self.metrics.set("clients", len(record.cohort))
        called = [names[who] if who < len(names) else str(who) for who in record.cohort]
        scores = deciding_split(record.metrics)
        if self.json:
            seconds = {"seconds": waited, "planned": record.predicted_seconds}
            plain = {name: value for name, value in scores.items() if isinstance(value, int | float)}
            steps = dict(zip(called, record.steps, strict=True))
            self._event("round", round=record.round, scores=plain, steps=steps, **seconds)
            return
        text = describe_scores(scores)
        steps_text = " ".join(f"{name}:{count}" for name, count in zip(called, record.steps, strict=True))
        self.write(
            f"round {record.round}  {text + '  ' if text else ''}steps {steps_text}  "
            f"took {waited:.1f} s (planned {record.predicted_seconds:.1f})"
        )

    def on_refusal(self, client: int | None, name: str | None, reason: str) -> None:
        self.metrics.add("refusals_total")
        if self.json:
            self._event("refusal", client=client, name=name, reason=reason)
            return
        sender = "somebody" if client is None else f"client {client}"
        named = "" if name in (None, str(client)) else f" ({name})"
        self.write(f"  refused {sender}{named}: {reason}")

    def close(self) -> None:
        if self.page is not None:
            self.page.shutdown()
            self.page.server_close()

    def _event(self, event: str, **fields: Any) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.write(json.dumps({"time": at, "event": event, **fields}, default=str))
