"""What one client wins by each lie, before and after: simulated, and on Flower's messages in one process.

    python tools/lies.py

Before: no rule stands over the uploads, and everything is believed. After: a rule does (docs/robust.md).
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import amsfl
from amsfl import attack, data, methods
from amsfl.attack.false_reports import TARGET, marked
from amsfl.core import Reading
from amsfl.engines import metrics, models, task
from amsfl.engines.loop_engine import LoopEngine
from amsfl.flower import Shard, jax_client, messages
from amsfl.flower.in_process import InProcessGrid
from amsfl.flower.server.server import FlowerServer, ServerOptions
from amsfl.simulation import serve_config

CLIENTS, ROUNDS, LIAR = 8, 12, 7
RULE = "cap:0.13,clip,nnm:1,geomedian"
SIMULATED = {"nobody": ""} | {name: f"{name}:1" for name in attack.names()}


class Damage(NamedTuple):
    share: float  # of all steps, that the liar has
    least: int  # steps of the honest client that has the fewest, in the last round
    lr: float | None  # at the end
    accuracy: float
    refused: str = ""  # why, where a reply was
    marked: float | None = None  # of rows with a backdoor's mark, what part is called its class


def simulated(lie: str, rule: str) -> Damage:
    """AMSFL on digits, equal clients."""
    digits = data.load("digits")
    x, y = digits.evals["holdout"]
    digits.evals["marked"] = marked(x[y != TARGET]), np.full((y != TARGET).sum(), TARGET)
    told = {
        "dataset": digits,
        "method": "amsfl",
        "clients": CLIENTS,
        "partition": "iid",
        "profile": "uniform",
    }
    result = amsfl.run(**told, rounds=ROUNDS, robust=rule, attack=SIMULATED[lie])
    liar = int(np.flatnonzero(result.parts.attackers.who[0])[0]) if SIMULATED[lie] else LIAR
    found = damage(result.rounds, liar)
    return found._replace(marked=result.rounds[-1].metrics["marked"]["accuracy"])


def damage(rounds: Any, liar: int) -> Damage:
    """Over all rounds the liar's share of the steps; in the last one the rest."""
    mine = sum(n for each in rounds for who, n in zip(each.cohort, each.steps, strict=True) if who == liar)
    others = [n for who, n in zip(rounds[-1].cohort, rounds[-1].steps, strict=True) if who != liar]
    whole = sum(sum(each.steps) for each in rounds)
    return Damage(mine / whole, min(others), rounds[-1].lr, rounds[-1].metrics["holdout"]["accuracy"])


Lie = Callable[[str, Any], None]  # what becomes of an answer of this kind


class Lying(InProcessGrid):
    """The last node's answers are changed before the server sees them."""

    def __init__(self, lie: Lie, *arguments: Any):
        super().__init__(*arguments)
        self.lie = lie

    def answer(self, message: Any) -> Any:
        answer = super().answer(message)
        if message.metadata.dst_node_id == 1000 + LIAR and not answer.has_error():
            self.lie(message.metadata.message_type, answer)
        return answer


def in_hello(**changes: Any) -> Lie:
    def lie(kind: str, answer: Any) -> None:
        if kind == "query":
            answer.content = messages.pack_hello(messages.unpack_hello(answer.content)._replace(**changes))

    return lie


def in_reply(change: Callable[[messages.Reply], messages.Reply]) -> Lie:
    def lie(kind: str, answer: Any) -> None:
        if kind == "train":
            answer.content = messages.pack_reply(change(messages.unpack_reply(answer.content)))

    return lie


def reading(told: Callable[[Reading], Reading]) -> Lie:
    return in_reply(lambda reply: reply._replace(reading=told(reply.reading)))


def told_by(name: str) -> Lie:
    """A simulated attack's false readings, in a real reply."""
    (made,) = attack.make(SIMULATED[name])
    assert made.falsify is not None
    return reading(made.falsify)


ON_FLOWER: dict[str, Lie] = {
    "nobody": lambda kind, answer: None,
    "rows": in_hello(rows=10**12),
    "gain": told_by("gain"),
    "drift": told_by("drift"),
    "loss": told_by("loss"),
    "seconds": in_reply(lambda reply: reply._replace(step_seconds=reply.step_seconds * 1e-6)),
    "readings": told_by("readings"),
    "names": in_hello(name="0"),
}


def on_flower(lie: str, rule: str) -> Damage:
    """The same on Flower's messages; one who takes another's name is a ninth."""
    digits = data.load("digits")
    parts = data.partition("iid", digits.y, CLIENTS, 0)

    def shard(context: Any) -> Shard:
        rows = parts[int(context.node_config["partition-id"]) % CLIENTS]
        return Shard(digits.x[rows], digits.y[rows], 10, "mlp:32")

    network = models.make("mlp:32", 64, 10)
    start = np.asarray(task.make(digits, network, [parts], [0]).start()[0])
    scored = LoopEngine(task.make(digits, network, [parts], [0]), methods.make("fedavg"), 16)

    def evaluate(params: Any, buffers: Any) -> Any:
        return {"holdout": metrics(scored.evaluate(params[None], "holdout"), 0)}

    nodes = [{"partition-id": place} for place in range(CLIENTS)]
    if lie == "names":
        nodes = [*nodes[:LIAR], {"partition-id": CLIENTS}, *nodes[LIAR:]]
    settings = {"method": "amsfl", "clients": CLIENTS, "rounds": ROUNDS, "batch": 32, "poll": 0.001}
    config = serve_config(settings | {"robust": rule, "patience": 60.0})
    said: list[str] = []
    grid = Lying(ON_FLOWER[lie], jax_client(shard), nodes)
    _, records = FlowerServer(
        grid, config, ServerOptions(evaluate, start, on_refusal=lambda *words: said.append(str(words[-1])))
    ).run()
    return damage(records, LIAR)._replace(refused=said[0].strip() if said else "")


def table(title: str, run: Callable[[str, str], Damage], lies: Any) -> None:
    print(f"\n{title}\n")
    print(
        "| lie of one in eight | its share of all steps, before | after | least steps of the others | after "
        "| learning rate | after | accuracy | after | marked rows taken in | after | refused |"
    )
    print("| --- " + "| ---: " * 10 + "| --- |")
    for lie in lies:
        before, after = run(lie, ""), run(lie, RULE)
        cells = [
            *(f"{each.share:.2f}" for each in (before, after)),
            *(str(each.least) for each in (before, after)),
            *("none" if each.lr is None else f"{each.lr:.3g}" for each in (before, after)),
            *(f"{each.accuracy:.3f}" for each in (before, after)),
            *("" if each.marked is None else f"{each.marked:.2f}" for each in (before, after)),
            after.refused,
        ]
        print(f"| {lie} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    table("In a simulation", simulated, SIMULATED)
    table("On Flower's messages", on_flower, ON_FLOWER)
