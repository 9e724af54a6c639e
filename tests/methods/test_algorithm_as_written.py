"""AMSFL written a second time, from docs/research-log.md, "The algorithm, whole", and nothing else.

Plain numpy: softmax regression, one client and one step at a time, steps planned by counting them out one by
one. Constants are read from the table in that text. It must give what the package gives.
"""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import amsfl
from amsfl import drift
from amsfl.core import Reading
from amsfl.data import Dataset
from amsfl.engines.models import Model

LOG = (Path(__file__).parents[2] / "docs" / "research-log.md").read_text(encoding="utf-8")
SIZES, FEATURES, CLASSES, BATCH = (96, 248, 9, 160, 136), 4, 3, 8
LINKS = {  # step_seconds, latency, up_mbps, down_mbps
    "step_seconds": (0.03, 0.01, 0.02, 0.08, 0.015),
    "latency": (0.05, 0.3, 0.1, 0.02, 0.2),
    "up_mbps": (0.02, 0.01, 0.05, 0.02, 0.1),
    "down_mbps": (0.1, 0.02, 0.05, 0.2, 0.1),
}


def constants():
    """The table of constants: `name`, `name` | value, value | what it is."""
    table = LOG.split("### Constants")[1].split("###")[0]
    found = {}
    for names, values in re.findall(r"^\| (`.*?`) \| (.*?) \|", table, re.M):
        found |= dict(zip(re.findall(r"`(\w+)`", names), map(float, values.split(", ")), strict=True))
    return found


K = constants()


# -- the problem ----------------------------------------------------------------------------------------


def problem(seed, mixed):
    """Rows of five clients and an initial model; the more is mixed, the less each has a class of its own."""
    rng = np.random.default_rng(seed)
    site = np.repeat(np.arange(len(SIZES)), SIZES)
    y = (rng.integers(0, CLASSES, site.size) * (rng.random(site.size) < mixed) + site % CLASSES) % CLASSES
    x = rng.normal(size=(site.size, FEATURES)) + 1.5 * np.eye(FEATURES)[y]
    return x.astype(np.float32), y.astype(np.int32), site, 0.1 * rng.normal(size=(FEATURES, CLASSES))


def loss_and_gradient(flat, x, y):
    """Mean cross-entropy of softmax regression, its gradient by hand."""
    z = x.astype(float) @ flat.reshape(FEATURES, CLASSES)
    z -= z.max(1, keepdims=True)
    likely = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    each = np.arange(len(y))
    pull = likely.copy()
    pull[each, y] -= 1
    return -np.log(likely[each, y]).mean(), (x.astype(float).T @ pull / len(y)).ravel()


def scramble(z):
    z ^= z >> 16
    z = z * 0x7FEB352D % 2**32
    z ^= z >> 15
    z = z * 0x846CA68B % 2**32
    return z ^ z >> 16


def minibatch(seed, number, client, step, rows):
    def S(z):
        return scramble(z % 2**32)

    key = S(S(S(seed + 0x9E3779B9) + number) + client)
    other = S(key ^ 0xB5297A4D)
    words = np.array([S(S(step * 2**16 + j + key) ^ other) >> 8 for j in range(BATCH)], np.float32)
    picked = (words * np.float32(2**-24) * np.float32(rows)).astype(int)
    return picked - (picked >= rows)


# -- 2 and 3: costs and plan ----------------------------------------------------------------------------


def costs(n):
    """c and b of every client, for n parameters."""
    c, latency, up, down = (np.array(LINKS[k]) for k in ("step_seconds", "latency", "up_mbps", "down_mbps"))
    return c, latency + 8e-6 * (4 * n / down + 4 * (n + 9) / up) + c


def filled(values, otherwise):
    read = [v for v in values if v is not None]
    return [v if v is not None else (np.mean(read) if read else otherwise) for v in values]


def coefficients(memory, lr):
    """Gain and fading of a step, of all clients of the federation."""
    gain = [K["beforehand"] + max(v, 0.0) for v in filled(memory["gain"], 1.0)]
    own = [None if v is None else v * lr for v in memory["fading"]]
    fade = np.clip(filled(own, K["fade_unread"]), K["fade_least"], K["fade_most"])
    return np.array(gain), fade


def limits(rows):
    """The most steps of clients with so many rows each."""
    own = [int(K["passes"] * each / BATCH) for each in rows]
    return [min(max(each, int(K["steps_fewest"])), int(K["steps_most"])) for each in own]


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
        spare = [(moment * (1 + K["tolerance"]) - b[i]) / c[i] for i in clients]
        return [int(min(max(one, 1), most[i])) for i, one in enumerate(spare)]

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
            if t[i] < most[i] and (budget is None or seconds(t) + c[i] <= budget * (1 + K["tolerance"]))
        ]
        if not more or (budget is None and max(more)[0] <= total(t) / seconds(t)):
            return t
        t[max(more)[1]] += 1


# -- 4: a client ----------------------------------------------------------------------------------------


def client(anchor, v, steps, lr, batch):
    """What it sends, and its reading; `batch(s)` is its minibatch number s, `lr` None if none is known."""

    def ratio(f, g):
        return K["polyak"] * f / (g @ g + K["tiny"])

    first = batch(0)
    f, g = loss_and_gradient(anchor, *first)
    cap = ratio(f, g) if lr is None else lr
    y = anchor
    for s in range(steps):
        value, grad = loss_and_gradient(y, *batch(s))
        y = y - np.clip(ratio(value, grad), 0, cap) * grad
    end, h = loss_and_gradient(y, *first)
    dg, moved = h - g, y - anchor
    reading = (f, g @ g, dg @ dg, moved @ moved, g @ dg, g @ moved, g @ v, dg @ v, moved @ v)
    return y - np.clip(ratio(end, h), 0, cap) * h - anchor, reading


# -- 5: the server's step -------------------------------------------------------------------------------


def server_start(initial):
    """What the server keeps besides v and what it has learned."""
    return {"a": initial, "x": initial, "z": initial, "s": 1.0, "before": None, "sums": None, "losses": None}


def loss_share(losses, now):
    """The first loss and the smoothed one after this round's, and the share l of the one in the other."""
    first, old = losses or (now, now)
    smoothed = K["loss_memory"] * old + (1 - K["loss_memory"]) * now
    return (first, smoothed), min(max(smoothed / first, 0.0), 1.0) if first > 0 else 0.0


def server_step(kept, number, sent, w, steps, loss):
    """What it keeps after round `number`, and the global step."""
    share, tau = w / w.sum(), np.array(steps) + 1.0
    u = share * tau ** -K["balance"] * (share * tau ** K["balance"]).sum()
    a, s, sums = kept["a"], kept["s"], None
    losses, part = loss_share(kept["losses"], share @ loss)
    mean = sum(one * d for one, d in zip(u, sent, strict=True)) - K["shrinking"] * part * a
    if kept["before"] is not None:
        way, change = a - kept["before"][0], kept["before"][1] - mean
        sums = np.array([way @ way, way @ change, change @ change])
        if kept["sums"] is not None:
            sums = K["step_memory"] * kept["sums"] + (1 - K["step_memory"]) * sums
        limit = K["step_limit"]
        asked = sums[0] ** 0.25 * sums[1] ** 0.5 / sums[2] ** 0.75 if sums[1] > 0 else s / limit
        s = np.clip(np.clip(asked, limit * s, s / limit), K["step_least"], K["step_most"])
    x = a + s * mean
    m = min((number + K["ahead"]) / (number + 2 * K["ahead"]), K["momentum"])
    following = x + m * (x - kept["x"])
    z = kept["z"] + K["averaging"] / (number + K["averaging"]) * (x - kept["z"])
    after = {"a": following, "x": x, "z": z, "s": s, "before": (a, mean), "sums": sums, "losses": losses}
    return after, following - a


# -- 6 and 7: what the server learns --------------------------------------------------------------------


def next_cap(memory, w, readings):
    """lr, F and Q after a round; all None before any reading."""
    good = [
        (one, f, q)
        for one, (f, q, *_) in zip(w, readings, strict=True)
        if np.isfinite(f) and np.isfinite(q) and q > 0
    ]
    if not good:
        return memory["cap"]
    share, f, q = np.array(good).T
    share /= share.sum()
    if memory["cap"] is None:
        return share @ (f / q), share @ f, share @ q
    lr, mean_f, mean_q = memory["cap"]
    stays = K["cap_memory"]
    mean_f, mean_q = stays * mean_f + (1 - stays) * (share @ f), stays * mean_q + (1 - stays) * (share @ q)
    return np.clip(mean_f / mean_q, K["cap_limit"] * lr, lr / K["cap_limit"]), mean_f, mean_q


def found(w, readings, steps, eta):
    """This round's gain and fading of each client of the cohort; what is not finite is to be ignored."""
    with np.errstate(all="ignore"):
        _, q, _, _, g_dg, _, _, _, moved_v = np.array(readings, float).T
        kept = np.clip(1 + g_dg / q, K["kept_least"], K["kept_most"])
        each = moved_v / np.array(steps)
        counts = np.isfinite(each)
        gain = np.where(counts, 1.0, np.nan)
        if any(each[counts] != 0):
            mean = (w * abs(each))[counts].sum() / w[counts].sum()
            gain = np.where(counts, each / mean, np.nan)
        return gain, -np.log(kept) / (np.array(steps) * eta)


def learn(memory, cohort, w, readings, steps):
    """The memory after a round; `w` is the cohort's."""
    cap = next_cap(memory, w, readings)
    fresh = {"cap": cap, "gain": list(memory["gain"]), "fading": list(memory["fading"])}
    if cap is None:
        return fresh
    eta = (memory["cap"] or cap)[0]
    for name, values in zip(("gain", "fading"), found(w, readings, steps, eta), strict=True):
        for i, value in zip(cohort, values, strict=True):
            if np.isfinite(value):
                old = memory[name][i]
                fresh[name][i] = value if old is None else K["smoothing"] * old + (1 - K["smoothing"]) * value
    return fresh


def start(clients):
    return {"cap": None, "gain": [None] * clients, "fading": [None] * clients}


def as_written(data, seed, cohorts, clock, budget):
    """Rounds: every round's steps and cap, and the model at the end."""
    x, y, site, initial = data
    kept = server_start(initial.ravel())
    v, memory = np.zeros(initial.size), start(len(SIZES))
    w = np.array(SIZES) / sum(SIZES)
    c, b = costs(initial.size)
    told = []
    for number, cohort in enumerate(cohorts):
        lr = memory["cap"] and memory["cap"][0]
        gain, fade = coefficients(memory, lr or 1.0)
        most = limits([SIZES[i] for i in cohort])
        steps = plan(w[cohort], gain[cohort], fade[cohort], c[cohort], b[cohort], clock, budget, most)
        told.append((steps, lr))
        answers = []
        for i, t in zip(cohort, steps, strict=True):
            rows = np.flatnonzero(site == i)

            def batch(s, i=i, rows=rows, number=number):
                picked = rows[minibatch(seed, number, int(i), s, len(rows))]
                return x[picked], y[picked]

            answers.append(client(kept["a"], v, t, lr, batch))
        sent, readings = zip(*answers, strict=True)
        kept, v = server_step(kept, number, sent, w[cohort], steps, [one[0] for one in readings])
        memory = learn(memory, cohort, w[cohort], readings, steps)
    return told, kept["z"]


# -- held against the package ---------------------------------------------------------------------------


C, B = costs(FEATURES * CLASSES)
CASES = {  # clock, cohort, budget, how mixed the classes are
    "sum": ("sum", None, None, 0.6),
    "makespan, three of five": ("makespan", 3, None, 0.6),
    "sum, a budget": ("sum", None, 4.0, 0.6),
    "makespan, a budget that 20 steps of one client miss by a rounding error": (
        "makespan",
        4,
        (20 * C[1] + B[1]) * (1 - 5e-10),
        0.6,
    ),
    "clients that pull apart": ("sum", None, None, 0.05),
}


@pytest.mark.parametrize("case", CASES)
def test_the_text_is_the_algorithm(case, tmp_path):
    """Seven rounds, partial cohorts among them: the same plans, the same caps, the same model."""
    clock, cohort, budget, mixed = CASES[case]
    x, y, site, initial = data = problem(7, mixed)
    lines = [",".join(LINKS), *(",".join(map(str, row)) for row in zip(*LINKS.values(), strict=True))]
    (tmp_path / "links.csv").write_text("\n".join(lines) + "\n")
    names = tuple(f"site {i}" for i in range(len(SIZES)))
    held = {"holdout": (x[:20].copy(), y[:20])}
    classes = tuple("abc"[:CLASSES])
    result = amsfl.run(
        method="amsfl",
        engine="loop",
        precision="float64",
        dataset=Dataset("mine", x, y, held, classes, tuple("pqrs"), site, names),
        network=Model("linear", lambda key: jnp.asarray(initial), lambda matrix, rows: rows @ matrix),
        partition="column",
        profile=str(tmp_path / "links.csv"),
        clock=clock,
        cohort=cohort,
        budget=budget,
        batch=BATCH,
        rounds=7,
        seed=5,
    )
    told, model = as_written(data, 5, [np.array(r.cohort) for r in result.rounds], clock, budget)
    assert [steps for steps, _ in told] == [r.steps for r in result.rounds]
    assert len({tuple(steps) for steps, _ in told}) > 3  # plans that change, so that agreeing means something
    assert told[0][1] is None
    caps = [lr for _, lr in told[1:]]
    # a secant is made of differences: it loses digits that gradients have
    np.testing.assert_allclose(caps, [r.lr for r in result.rounds[1:]], rtol=1e-7)
    np.testing.assert_allclose(model, np.ravel(result.params), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_readings_that_are_not_finite_and_clients_that_are_absent(seed):
    """Nine rounds of random readings with holes, for six clients of whom one is never there."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(6))
    ours, rate, memory = drift.start(6), drift.Rate(), start(6)
    for number in range(9):
        cohort = np.sort(rng.choice(5, rng.integers(1, 6), replace=False))
        steps = rng.integers(1, 20 if seed % 2 else 3, cohort.size)
        fields = rng.normal(size=(9, cohort.size))
        fields[:4] = abs(fields[:4])
        fields[6:] *= number > 0
        holes = rng.random(fields.shape) < 0.1
        fields[holes] = rng.choice([np.nan, np.inf, -np.inf, 0.0], holes.sum())
        if number == seed % 3 - 1:
            fields[:2] = np.nan  # nobody has a rate yet, and nobody's reading gives one
        before = rate
        rate = drift.next_rate(rate, Reading(*fields), weights[cohort])
        memory = learn(memory, cohort, weights[cohort], list(fields.T), steps)
        if rate.lr is None:
            assert memory == start(6)
            continue
        ours = drift.update(ours, cohort, steps, before.lr or rate.lr, Reading(*fields), weights[cohort])
        lr = memory["cap"][0]
        assert lr == pytest.approx(rate.lr, rel=1e-12)
        gain, fade = coefficients(memory, lr)
        their_gain, their_drift = drift.coefficients(ours, np.arange(6), rate.lr)
        np.testing.assert_allclose(gain, their_gain, rtol=1e-9)
        np.testing.assert_allclose(gain * fade, their_drift, rtol=1e-9)
