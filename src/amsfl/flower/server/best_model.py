"""The best model so far: by which score, when to stop for want of a better one; what of it leaves, and the
summary of a run."""

from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from amsfl.core import scores as core_scores
from amsfl.core.records import Json
from amsfl.core.scores import shown_score
from amsfl.core.version import VERSION
from amsfl.flower import vector_files
from amsfl.flower.messages import Buffers, TensorSpec, Vector
from amsfl.flower.server.server_state import ServerState
from amsfl.methods import Method
from amsfl.portable import PortableModel
from amsfl.portable.model import folder_files as model_files
from amsfl.record import Metrics, RoundRecord, Summary
from amsfl.record.disk import Content
from amsfl.simulation import ServeConfig
from amsfl.simulation.summary import run_notes, run_numbers, verdict

if TYPE_CHECKING:
    from amsfl.flower.server.server import FlowerServer


class NetworkDescription(NamedTuple):
    """What a server that knows the network itself says of it: then its file runs without clients' code."""

    like: PortableModel  # layers, classes, features, preprocessing; its tensors are not looked at
    tensors: Callable[[Vector], Mapping[str, Vector]]  # a flat vector's, by the names that the layers have


MOST, LONGEST = 100_000, 300  # names of tensors, and characters of one


def judged_by(scores: Mapping[str, Any], config: ServeConfig) -> tuple[str, bool]:
    """The name of the score that rounds are compared by, and whether more of it is better; "" for none."""
    return core_scores.judged_by(scores, config.judge_by, shown_score(config.score, scores))


def score(metrics: Mapping[str, dict[str, Any]], config: ServeConfig) -> float | None:
    """What rounds are compared by, more is better; None where this round has none."""
    scores = deciding_split(dict(metrics))
    return core_scores.worth(scores, config.judge_by, shown_score(config.score, scores))


def judge(state: ServerState, scored: Vector, metrics: Mapping[str, Any], config: ServeConfig) -> bool:
    """Keep the model if it is the best so far; whether there was no better one for too long."""
    enough = core_scores.judge_round(state, score(metrics, config), config.stop_after)
    if state.best_round == state.round:
        state.best = vector_files.kept(scored)
        state.best_buffers = {name: part.copy() for name, part in state.buffers.items()}
    return enough


def check(leaves: tuple[TensorSpec, ...], size: int) -> str | None:
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


def named(leaves: list[TensorSpec], flat: Vector, buffers: Buffers) -> dict[str, Vector]:
    """A state_dict: parameters by name, tied ones under each of theirs, and buffers."""
    if not leaves:
        return {"parameters": flat, **buffers}
    tensors, place = dict[str, Vector](), 0
    for leaf in leaves:
        if not leaf.alias:
            tensors[leaf.name] = flat[place : place + prod(leaf.shape)].reshape(leaf.shape)
            place += prod(leaf.shape)
    return tensors | {leaf.name: tensors[leaf.alias] for leaf in leaves if leaf.alias} | buffers


def files(
    config: ServeConfig,
    state: ServerState,
    method: Method,
    summary: Summary,
    form: NetworkDescription | None = None,
) -> dict[str, Content]:
    """What of a federation's folder leaves: the last model and the best, by name, and a card."""
    about: dict[str, Any] = {
        "title": method.title,
        "data": config.data,
        "model": config.model if form else "own",
        "version": VERSION,
        "rounds": state.round,
        "clients": len(state.clients),
        "metrics": summary.metrics,
        "notes": [summary.note] if summary.note else [],
        "settings": config.model_dump(exclude_none=True, exclude={"data_dir"}),
    }
    if summary.best:
        about |= {"score": summary.best["by"], "best": {key: summary.best[key] for key in ("round", "score")}}
    models = [(method.arithmetic.model(state.anchor, state.server), state.buffers)]
    models += [(state.best, state.best_buffers)] if state.best_score is not None else []
    like = form.like if form else PortableModel((), {}, (), ())
    last, *best = (
        dict(form.tensors(flat)) if form else named(state.tensors, flat, buffers) for flat, buffers in models
    )
    return model_files(like._replace(tensors=last, about=about), best[0] if best else None)


def summary(server: "FlowerServer", state: ServerState, rounds: list[RoundRecord]) -> Summary:
    """summary.json, as a simulated run's."""
    config, ledger, how = server.config, server.privacy.ledger, (server.method, server.policy, server.end)
    names, begun = [client.name for client in state.clients], state.ordered_steps
    notes = [server.method.facts.note, *run_notes(config, state, ledger, begun)]
    last: Metrics = {}
    for record in rounds:
        last = last | record.metrics  # not every split is scored in every round
    return Summary(
        **run_numbers(config, state, ledger, begun, names, rounds),
        data=config.data,
        synthetic=False,
        note=" ".join(filter(None, notes)),
        accuracy=deciding_split(last).get("accuracy"),
        test_accuracy=last.get("test", {}).get("accuracy"),
        metrics=last,
        local_accuracy=None,
        score=config.score or _usual(last),
        best=_best_round(state, last, config),
        seconds_to_target=state.reached["elapsed"] if state.reached else None,
        refused=state.refused,
        worth=state.worth,
        verdict=verdict(how, rounds, config.clock, state.anchor.size, state.memory.judge),
        wall={
            "seconds": state.elapsed,
            "client_steps_per_second": sum(state.steps) / max(state.elapsed, 1e-9),
        },
    )


def _best_round(state: ServerState, last: Metrics, config: ServeConfig) -> Json:
    """{} where none was scored."""
    if state.best_score is None:
        return {}
    name, larger = judged_by(deciding_split(last), config)
    worth = state.best_score if larger else -state.best_score
    return {"round": state.best_round, "score": worth, "by": name}


def _usual(last: Metrics) -> str:
    """The score that is told where none was asked for."""
    score = shown_score("", deciding_split(last))
    return score.name if score else "accuracy"


def deciding_split(metrics: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The split that targets are held against: the server's hold-out, else the clients' own test rows."""
    return metrics.get("holdout") or metrics.get("clients") or {}
