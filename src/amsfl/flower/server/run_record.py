"""What a run leaves: the record of every round, the summary, and its models as files."""

from math import prod
from typing import Any

import numpy as np

from amsfl.core.records import Json
from amsfl.core.scores import shown_score
from amsfl.core.version import VERSION
from amsfl.flower.messages import Buffers, TensorSpec, Vector
from amsfl.flower.server import clients, scoring
from amsfl.flower.server.options import NetworkDescription
from amsfl.flower.server.orders import OrderWriter
from amsfl.flower.server.registration import Registration
from amsfl.flower.server.round_results import RoundResults, plain_steps
from amsfl.flower.server.scoring import deciding_split
from amsfl.flower.server.server_state import ServerState
from amsfl.portable import PortableModel
from amsfl.portable.model import folder_files as model_files
from amsfl.record import Metrics, RoundRecord, Summary
from amsfl.record.disk import Content
from amsfl.simulation.round_record import TakenResults, judged
from amsfl.simulation.round_record import round_record as build_record
from amsfl.simulation.summary import run_notes, run_numbers, verdict


def round_record(
    orders: OrderWriter,
    registration: Registration,
    state: ServerState,
    results: RoundResults,
    metrics: Metrics,
    **own: Any,
) -> RoundRecord:
    """Of the round that has just been scored; refusals and notes so far are part of it."""
    replies, cohort, steps, method = results.replies, results.cohort, results.steps, orders.method
    first = state.round == 1 and method.judges and orders.config.held_back > 0
    lost = [item.client for item in replies if item.reply.lost_state]
    left_out = [(item.client, item.reply.skipped) for item in replies if item.reply.skipped]
    without = [item.client for item in replies if first and not item.reply.held_rows]
    registration.notes += [
        *(f"client {who} had lost its state and began anew" for who in lost),
        *(f"client {who} left out {count} batches whose loss was not finite" for who, count in left_out),
        *(
            f"client {who} holds no rows back: the judge goes by its first minibatch, if it has one"
            for who in without
        ),
    ]
    if not orders.privacy.clients:
        metrics = metrics | scoring.training(replies, state, registration)
    plan = {
        **results.decision.explain,
        "step_seconds": [item.reply.step_seconds for item in replies],
        "compute_seconds": [item.reply.compute_seconds for item in replies],
        "client_seconds": [item.seconds for item in replies],
        "refused": registration.refused,
        "notes": registration.notes,
    }
    if "joules" in orders.accounts:
        plan["client_joules"] = orders.accounts["joules"].of(cohort, steps).tolist()
    if method.judges:
        plan |= judged(state.memory) | {"held_rows": [item.reply.held_rows for item in replies]}
    state.refused += len(registration.refused)
    registration.refused, registration.notes = [], []
    ages, plain = [item.age for item in replies], np.asarray(plain_steps(replies))
    reading, shares = results.reading if orders.readings else None, clients.weights(state.clients)[cohort]
    return build_record(
        method,
        orders.end,
        TakenResults(cohort.tolist(), steps.tolist(), ages, shares, plain, reading, results.weighed),
        results.decision,
        results.spent,
        round=state.round,
        seconds=dict(state.seconds),
        round_seconds=results.clocks,
        metrics=metrics,
        bytes_up=results.bytes_up,
        bytes_down=results.bytes_down,
        plan=plan,
        epsilon=orders.privacy.ledger.bounds(orders.privacy.units(state)),
        **results.timeline,
        **own,
    )


def summary(orders: OrderWriter, state: ServerState, rounds: list[RoundRecord]) -> Summary:
    """summary.json, as a simulated run's."""
    config, ledger, how = orders.config, orders.privacy.ledger, (orders.method, orders.policy, orders.end)
    names, begun = [client.name for client in state.clients], state.ordered_steps
    notes = [orders.method.facts.note, *run_notes(config, state, ledger, begun)]
    last, best = Metrics(), Json()
    for record in rounds:
        last = last | record.metrics  # not every split is scored in every round
    scores = deciding_split(last)
    usual = shown_score("", scores)  # is told where none was asked for
    if scores and state.best_score is None:
        name = scoring.judged_by(scores, config)[0]
        notes.append(f"No client told the score {name!r}: no round is the best one, and no stop goes by it.")
    if state.best_score is not None:
        by, larger = scoring.judged_by(scores, config)
        score = state.best_score if larger else -state.best_score
        best = {"round": state.best_round, "score": score, "by": by}
    return Summary(
        **run_numbers(config, state, ledger, begun, names, rounds),
        data=config.data,
        synthetic=False,
        note=" ".join(filter(None, notes)),
        accuracy=scores.get("accuracy"),
        test_accuracy=last.get("test", {}).get("accuracy"),
        metrics=last,
        local_accuracy=None,
        score=config.score or (usual.name if usual else "accuracy"),
        best=best,
        seconds_to_target=state.reached["elapsed"] if state.reached else None,
        refused=state.refused,
        verdict=verdict(how, rounds, config.clock, state.anchor.size, state.memory.judge),
        wall={
            "seconds": state.elapsed,
            "client_steps_per_second": sum(state.steps) / max(state.elapsed, 1e-9),
        },
    )


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
    orders: OrderWriter, state: ServerState, summary: Summary, form: NetworkDescription | None
) -> dict[str, Content]:
    """What of a federation's folder leaves: the last model and the best, by name, and a card."""
    config, method = orders.config, orders.method
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
