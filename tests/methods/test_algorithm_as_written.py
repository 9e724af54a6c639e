"""AMSFL written a second time, from docs/algorithm.md and nothing else.

Plain numpy: softmax regression, one client and one step at a time, steps planned by counting them out one by
one. Numbers are read from the table in that text. It must give what the package gives.
"""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import amsfl
from amsfl.core.algorithm import NUMBERS
from amsfl.data import Dataset
from amsfl.engines.models import Model

TEXT = (Path(__file__).parents[2] / "docs" / "algorithm.md").read_text(encoding="utf-8")
SIZES, FEATURES, CLASSES, BATCH = (96, 248, 9, 160, 136), 4, 3, 8
LINKS = {  # step_seconds, latency, up_mbps, down_mbps
    "step_seconds": (0.03, 0.01, 0.02, 0.08, 0.015),
    "latency": (0.05, 0.3, 0.1, 0.02, 0.2),
    "up_mbps": (0.02, 0.01, 0.05, 0.02, 0.1),
    "down_mbps": (0.1, 0.02, 0.05, 0.2, 0.1),
}
K = {}  # the table: `name`, `name` | value, value | what it is
for names, values in re.findall(r"^\| (`.*?`) \| (.*?) \|", TEXT, re.M):
    K |= dict(zip(re.findall(r"`(\w+)`", names), map(float, re.findall(r"\d[\d.]*", values)), strict=False))
W = np.array(SIZES) / sum(SIZES)


def problem(seed, mixed, wrong):
    """Rows of five clients and an initial model; the more is mixed, the less each has a class of its own."""
    rng = np.random.default_rng(seed)
    site = np.repeat(np.arange(len(SIZES)), SIZES)
    y = (rng.integers(0, CLASSES, site.size) * (rng.random(site.size) < mixed) + site % CLASSES) % CLASSES
    x = rng.normal(size=(site.size, FEATURES)) + 1.5 * np.eye(FEATURES)[y]
    y = np.where(rng.random(site.size) < wrong, rng.integers(0, CLASSES, site.size), y)
    return x.astype(np.float32), y.astype(np.int32), site, 0.1 * rng.normal(size=(FEATURES, CLASSES))


def loss_and_gradient(flat, x, y):
    """Mean cross-entropy of softmax regression, its gradient by hand."""
    z = x.astype(float) @ flat.reshape(FEATURES, CLASSES)
    z -= z.max(1, keepdims=True)
    likely = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    each, pull = np.arange(len(y)), likely.copy()
    pull[each, y] -= 1
    return -np.log(likely[each, y]).mean(), (x.astype(float).T @ pull / len(y)).ravel()


def scramble(z):
    z = z % 2**32
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        z = (z ^ z >> shift) * factor % 2**32
    return z ^ z >> 16


def minibatch(seed, number, client, step, rows):
    key = scramble(scramble(scramble(seed + 0x9E3779B9) + number) + client)
    other = scramble(key ^ 0xB5297A4D)
    words = [scramble(scramble(step * 2**16 + j + key) ^ other) >> 8 for j in range(BATCH)]
    picked = (np.array(words, np.float32) * np.float32(2**-24) * np.float32(rows)).astype(int)
    return picked - (picked >= rows)


def filled(values, otherwise):
    read = values[np.isfinite(values)]
    return np.where(np.isfinite(values), values, read.mean() if len(read) else otherwise)


def plan(w, gain, fade, c, b, clock, budget, most):
    """Steps of the cohort; all arguments are the cohort's."""
    clients = range(len(w))

    def worth(i, s):
        return w[i] * gain[i] * np.exp(-s * fade[i])

    def total(t):
        return sum(worth(i, s) for i in clients for s in range(t[i]))

    def seconds(t):
        each = [c[i] * t[i] + b[i] for i in clients]
        return sum(each) if clock == "sum" else max(each)

    def done_by(moment):
        return [int(min(max((moment * (1 + 1e-9) - b[i]) / c[i], 1), most[i])) for i in clients]

    if clock == "makespan":
        if budget is not None:
            return done_by(budget)
        ends = [c[i] * s + b[i] for i in clients for s in range(1, most[i] + 1)]
        return max(map(done_by, ends), key=lambda t: total(t) / seconds(t))
    t = [1] * len(w)
    while True:
        more = [
            (worth(i, t[i]) / c[i], i)
            for i in clients
            if t[i] < most[i] and (budget is None or seconds(t) + c[i] <= budget * (1 + 1e-9))
        ]
        if not more or (budget is None and max(more)[0] <= total(t) / seconds(t)):
            return t
        t[max(more)[1]] += 1


def client(a, steps, eta, batch, held):
    """d and the six scalars; `batch(s)` is its minibatch number s."""
    (loss, g), y = loss_and_gradient(a, *batch(0)), a
    for s in range(steps):
        y = y - eta * loss_and_gradient(y, *batch(s))[1]
    h = loss_and_gradient(y, *batch(0))[1]
    outputs = held[0].astype(float) @ a.reshape(FEATURES, CLASSES)
    spread = np.abs(outputs - outputs.mean(0)).max() / (1 + np.abs(outputs).max())
    return y - a, loss, g @ g, g @ (h - g), loss_and_gradient(a, *held)[0], spread


def smoothed(old, new):
    return np.where(np.isfinite(old), K["memory"] * old + (1 - K["memory"]) * new, new)


def as_written(data, seed, cohorts, clock, budget, rounds, lr):
    """Every round's steps, rate and verdict, and the model at the end."""
    x, y, site, initial = data
    n, log = initial.size, []
    rows, held = [], []
    for i, m in enumerate(SIZES):
        h = int(min(np.ceil(K["held_share"] * m), K["held_most"], m // 2))
        order = np.flatnonzero(site == i)[np.random.default_rng([seed, i, 0x4E1D]).permutation(m)]
        rows.append(order[: m - h])
        held.append(order[m - h :])
    c, latency, up, down = (np.array(LINKS[k]) for k in LINKS)
    second = c * (1 + np.array([len(h) for h in held]) / (3 * BATCH))
    b = latency + 8e-6 * (4 * n / down + 4 * (n + 6) / up) + second
    a = model = best = first = initial.ravel()
    v, q, o, bad, dead, widest = 0 * a, 0, 1.0, 0, 0, 0.0
    gain, fading, ref = np.full((3, len(SIZES)), np.nan)
    for number, who in enumerate(cohorts):
        eta = lr * max(1 - number / rounds, K["least"])
        worth = np.maximum(filled(gain, 1.0), 0) + K["beforehand"]
        fade = filled(eta * fading, -np.log(1 - K["least"]))
        passes = [np.ceil(K["passes"] * o * len(rows[i]) / BATCH - 1e-9) for i in who]
        most = np.clip(passes, 1, K["steps"]).astype(int)
        t = plan(W[who], worth[who], fade[who], c[who], b[who], clock, budget, most)
        answers = []
        for i, steps in zip(who, t, strict=True):

            def batch(s, i=i, number=number):
                picked = rows[i][minibatch(seed, number, int(i), s, len(rows[i]))]
                return x[picked], y[picked]

            answers.append(client(a, steps, eta, batch, (x[held[i]], y[held[i]])))
        sent, _, squares, turned, told, spreads = map(np.array, zip(*answers, strict=True))
        p, steps = W[who] / W[who].sum(), np.array(t)
        u = p * steps ** -K["balance"] * (p * steps ** K["balance"]).sum()
        along = sent @ v / steps
        before, fresh = a, a + u @ sent
        q += 1
        a = fresh + min(q / (q + K["delay"]), K["momentum"]) * (fresh - model)
        model = fresh
        gain[who] = smoothed(gain[who], along / (p @ abs(along)) if along.any() else 1.0 + 0 * along)
        kept = np.clip(1 + turned / squares, K["least"], 1)
        fading[who] = smoothed(fading[who], -np.log(kept) / (steps * eta))
        # the judge
        can, verdict = np.isfinite(ref[who]), "none"
        change, base, error = -1.0, 0.0, 0.0
        if can.any():
            share, d = W[who][can] / W[who][can].sum(), (told - ref[who])[can]
            change, base, spare = share @ d, share @ ref[who][can], 1 - (share**2).sum()
            error = np.sqrt((share**2 * (d - change) ** 2).sum() / spare) if spare > 0 else np.inf
        ref[who] = np.where((change < 0) | ~can, told, ref[who])
        if change < 0:
            verdict, best, bad, o = "better", before, 0, min(o / K["halved"], 1)
        elif change > K["sure"] / 2 * error:
            o = max(o * K["halved"], K["least"])
        bad += change > K["worse"] * base and change > K["sure"] * error
        widest = widest or spreads.max()
        dead = dead + 1 if spreads.max() <= max(K["least"] * widest, 8 * np.finfo(np.float32).eps) else 0
        if bad >= K["patience"]:
            verdict, model, a, q, bad, lr = "back", best, best, 0, 0, lr * K["halved"]
            ref = ref * (1 + K["worse"] / 2)
        if dead >= K["patience"]:
            verdict, model, a, best, q, o, bad, dead = "restart", first, first, first, 0, 1.0, 0, 0
            ref, lr, widest = np.nan * ref, lr * K["halved"] ** 2, 0.0
        v = a - before
        log.append((t, eta, verdict))
    return log, model


BUDGET = (20 * 0.01 + 1.6) * (1 - 5e-10)
CASES = {  # clock, cohort, budget, how mixed the classes are, wrong labels, lr, rounds; a verdict that occurs
    "sum": ("sum", None, None, 0.6, 0.0, 0.5, 12, "better"),
    "makespan, three of five": ("makespan", 3, None, 0.6, 0.0, 0.5, 20, "none"),
    "sum, a budget": ("sum", None, 4.0, 0.6, 0.0, 0.1, 12, "better"),
    "makespan, a budget": ("makespan", 4, BUDGET, 0.6, 0.0, 0.5, 12, "better"),
    "clients that pull apart": ("sum", None, None, 0.05, 0.5, 8.0, 25, "back"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_text_is_the_algorithm(case, tmp_path):
    """Partial cohorts among them: the same plans, rates, verdicts, and the same model."""
    clock, cohort, budget, mixed, wrong, lr, rounds, occurs = CASES[case]
    x, y, site, initial = data = problem(7, mixed, wrong)
    lines = [",".join(LINKS), *(",".join(map(str, row)) for row in zip(*LINKS.values(), strict=True))]
    (tmp_path / "links.csv").write_text("\n".join(lines) + "\n")
    names, evals = tuple(f"site {i}" for i in range(len(SIZES))), {"holdout": (x[:20].copy(), y[:20])}
    result = amsfl.run(
        method="amsfl",
        engine="loop",
        precision="float64",
        dataset=Dataset("mine", x, y, evals, tuple("abc"), tuple("pqrs"), site, names),
        network=Model("linear", lambda key: jnp.asarray(initial), lambda matrix, rows: rows @ matrix),
        **{"partition": "column", "profile": str(tmp_path / "links.csv"), "clock": clock, "cohort": cohort},
        **{"budget": budget, "batch": BATCH, "rounds": rounds, "seed": 5, "lr": lr},
    )
    cohorts = [np.array(r.cohort) for r in result.rounds]
    log, model = as_written(data, 5, cohorts, clock, budget, rounds, lr)
    steps, rates, verdicts = zip(*log, strict=True)
    assert list(steps) == [r.steps for r in result.rounds]
    assert len({*map(tuple, steps)}) > 2  # plans that change: agreeing means something
    assert list(verdicts) == [r.plan["verdict"] for r in result.rounds]
    assert occurs in verdicts
    np.testing.assert_allclose(rates, [r.lr for r in result.rounds], rtol=1e-7)
    np.testing.assert_allclose(model, np.ravel(result.params), rtol=1e-6, atol=1e-8)


def test_the_page_is_short_and_its_table_has_every_number():
    assert NUMBERS._asdict() == {name: K[name] for name in NUMBERS._fields}
    assert len(K) == len(NUMBERS) == 15 and len(TEXT.split()) <= 1200
