"""AMSFL written a second time, from docs/algorithm.md and nothing else.

Plain numpy: softmax regression, one client and one step at a time, steps planned by counting them out one by
one. Constants are read from the table in that text. It must give what the package gives.
"""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import amsfl
from amsfl.data import Dataset
from amsfl.engines.models import Model

LOG = (Path(__file__).parents[2] / "docs" / "algorithm.md").read_text(encoding="utf-8")
SIZES, FEATURES, CLASSES, BATCH = (96, 248, 9, 160, 136), 4, 3, 8
LINKS = {  # step_seconds, latency, up_mbps, down_mbps
    "step_seconds": (0.03, 0.01, 0.02, 0.08, 0.015),
    "latency": (0.05, 0.3, 0.1, 0.02, 0.2),
    "up_mbps": (0.02, 0.01, 0.05, 0.02, 0.1),
    "down_mbps": (0.1, 0.02, 0.05, 0.2, 0.1),
}


def constants():
    """The table of constants: `name`, `name` | value, value | what it is."""
    table = LOG.split("## Constants")[1].split("##")[0]
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


# -- rows held back ---------------------------------------------------------------------------------------


def divided(seed, client, rows):
    """Rows that a client trains on, and those that it holds back."""
    m = len(rows)
    h = min(int(np.clip(round(K["held_share"] * m), K["held_least"], K["held_most"])), m // 2)
    order = np.random.default_rng([seed, client, 0x4E1D]).permutation(m)
    return rows[order[: m - h]], rows[order[m - h :]]


# -- 2 and 3: costs and plan ----------------------------------------------------------------------------


def costs(n, held, absent, opens, corrected):
    """c and b of every client, for n parameters."""
    c, latency, up, down = (np.array(LINKS[k]) for k in ("step_seconds", "latency", "up_mbps", "down_mbps"))
    transfer = 8e-6 * (4 * n * (1 + np.array(absent) + corrected) / down + 4 * (n + 14) / up)
    return c, latency + transfer + c * (1 + np.array(held) / (3 * BATCH) + opens)


def filled(values, otherwise):
    read = [v for v in values if v is not None]
    return [v if v is not None else (np.mean(read) if read else otherwise) for v in values]


def coefficients(memory, lr):
    """Gain and fading of a step, of all clients of the federation."""
    gain = [K["beforehand"] + max(v, 0.0) for v in filled(memory["gain"], 1.0)]
    own = [None if v is None else v * lr for v in memory["fading"]]
    fade = np.clip(filled(own, K["fade_unread"]), K["fade_least"], K["fade_most"])
    return np.array(gain), fade


def limits(rows, passes):
    """The most steps of clients with so many rows each, which may take this part of the usual passes."""
    own = [int(K["passes"] * each / BATCH) for each in rows]
    most = [min(max(each, int(K["steps_fewest"])), int(K["steps_most"])) for each in own]
    return [max(int(passes * each), int(K["steps_fewest"])) for each in most]


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


# -- 5: a client ----------------------------------------------------------------------------------------


def outputs(flat, x):
    return x.astype(float) @ flat.reshape(FEATURES, CLASSES)


def client(anchor, v, steps, rate, batch, held, seen, drift):
    """What it sends, its reading, its gradient; `batch(s)` is its minibatch number s, `rate` (eta, f, p): eta
    or f is None; `seen` its gradient in the round before, None if it was not there; `drift`: k (c - c_i)."""

    def ratio(f, g):
        return max(p * K["polyak"] * f / (g @ g + K["tiny"]), 0.0)

    first, (eta, part, p) = batch(0), rate
    f, g = loss_and_gradient(anchor, *first)
    if eta is None:
        tau = K["trial"] * f / (g @ g + K["tiny"])
        _, beyond = loss_and_gradient(anchor - tau * g, *first)
        curvature = (g - beyond) @ g / (tau * (g @ g) + K["tiny"])
        by_curve = K["open_curve"] / max(curvature, K["curvature_least"])
        eta = part * min(by_curve, K["open_polyak"] * f / (g @ g + K["tiny"]))
    y, way = anchor, 0.0
    for s in range(steps):
        value, grad = loss_and_gradient(y, *batch(s))
        length = min(ratio(value, grad), eta)
        y, way = y - length * (grad + drift), way + length
    end, h = loss_and_gradient(y, *first)
    dg, moved = h - g, y - anchor
    reading = {
        "f": f,
        "q": g @ g,
        "moved_sq": moved @ moved,
        "g_dg": g @ dg,
        "g_v": g @ v,
        "moved_v": moved @ v,
        "held": loss_and_gradient(anchor, *held)[0],
        "spread": np.abs(outputs(anchor, held[0]) - outputs(anchor, held[0]).mean(0)).max()
        / (1 + np.abs(outputs(anchor, held[0])).max()),
        "begin": None if seen is None else -(seen @ v),
        "eta": eta,
    }
    length = min(ratio(end, h), eta)
    reading["L"] = way + length
    return y - length * (h + drift) - anchor, reading, g


# -- 6: the server's step -------------------------------------------------------------------------------


def server_start(initial):
    """What the server keeps besides what it has learned."""
    return {
        "a": initial, "x": initial, "z": initial, "best": initial, "first": initial, "v": 0 * initial,
        "s": 1.0, "slopes": None, "q": 0, "n": 0, "opened": False, "most": (K["lead"], K["step_most"]),
        "frozen": False, "c": 0 * initial,
    }  # fmt: skip


def server_step(kept, sent, w, steps, readings):
    share, tau = w / w.sum(), np.array(steps) + 1.0
    u = share * tau ** -K["balance"] * (share * tau ** K["balance"]).sum()
    mean = sum(one * d for one, d in zip(u, sent, strict=True))
    squares = sum(one * (d @ d) for one, d in zip(u, sent, strict=True))
    a, s, slopes = kept["a"], kept["s"], kept["slopes"]
    says = [i for i, one in enumerate(readings) if one["begin"] is not None]
    if not kept["opened"]:
        s = np.clip(0.5 * squares / (mean @ mean + K["tiny"]), 1, kept["most"][0])
    elif share[says].sum() < K["enough"]:
        s = max(s / K["step_limit"], K["step_least"])
    else:
        pairs = np.array([(readings[i]["begin"], -readings[i]["g_v"]) for i in says])
        fresh = w[says] @ pairs / w[says].sum()
        stays = K["slopes_memory"]
        slopes = fresh if slopes is None else stays * slopes + (1 - stays) * fresh
        begin, end = slopes
        alpha = 0.0 if begin <= 0 else K["straight"] if begin <= end else begin / (begin - end)
        limit = K["step_limit"]
        s = s * np.clip((alpha / K["aim"]) ** 0.5, 1 / limit, limit)
        s = np.clip(s, K["step_least"], kept["most"][1])
    x, q, n = a + s * mean, kept["q"] + 1, kept["n"] + 1
    m = min(q / (q + K["momentum_delay"]), K["momentum"])
    following = x + m * (x - kept["x"])
    z = kept["z"] + K["averaging"] / (n + K["averaging"] - 1) * (x - kept["z"])
    z = kept["z"] if kept["frozen"] else z
    c = -sum(one * d / r["L"] for one, d, r in zip(share, sent, readings, strict=True) if r["L"] > 0)
    return kept | {
        "c": c, "a": following, "x": x, "z": z, "s": s, "slopes": slopes, "q": q, "n": n, "opened": True,
        "v": following - a, "alike": min(mean @ mean / squares, 1.0),
    }  # fmt: skip


# -- 7 to 10: what the server learns ---------------------------------------------------------------------


def start(clients):
    return {
        "lr": None, "part": 1.0, "agreement": None, "gain": [None] * clients, "fading": [None] * clients,
        "ref": np.full(clients, np.nan), "worse": 0, "dead": 0, "restarts": 0,
        "backs": 0, "branched": False, "left": 0, "passes": 1.0, "back_at": None, "forgotten": 0,
    }  # fmt: skip


def learn(memory, cohort, w, readings, steps, eta):
    """Gain and fading after a round at the rate eta."""
    memory = {**memory, "gain": list(memory["gain"]), "fading": list(memory["fading"])}
    each = np.array([one["moved_v"] for one in readings]) / np.array(steps)
    gain = np.ones(len(each)) if not each.any() else each / (w @ abs(each) / w.sum())
    kept = np.clip([1 + one["g_dg"] / one["q"] for one in readings], K["kept_least"], K["kept_most"])
    for name, values in (("gain", gain), ("fading", -np.log(kept) / (np.array(steps) * eta))):
        for i, value in zip(cohort, values, strict=True):
            old, stays = memory[name][i], K["smoothing"]
            memory[name][i] = value if old is None else stays * old + (1 - stays) * value
    return memory


def begun_again(kept, sent_anchor):
    return server_start(kept["first"]) | {
        "most": (1.0, 1.0), "v": kept["first"] - sent_anchor, "c": kept["c"]
    }  # fmt: skip


def went_back(kept, memory, sent_anchor, cut):
    best = kept["best"]
    kept = kept | {"x": best, "a": best, "z": best, "q": 0, "n": 0, "v": best - sent_anchor, "frozen": False}
    eased = {"ref": K["eased"] * memory["ref"], "lr": cut * memory["lr"]}
    return kept, memory | eased | {"worse": 0, "backs": memory["backs"] + 1}


def judge(kept, memory, sent_anchor, cohort, w, readings, number, over, p):
    """What is kept and remembered after the judge's verdict, and that verdict."""
    losses, ref = np.array([one["held"] for one in readings]), memory["ref"].copy()
    part = len(cohort) < K["present"] * len(ref)
    both, better, bad, surely = np.isfinite(ref[cohort]), True, False, False
    if both.any():
        q = w[both] / w[both].sum()
        change, before = (losses - ref[cohort])[both], ref[cohort][both]
        d = q @ change
        se = np.sqrt((q**2 * (change - d) ** 2).sum())
        worse = K["worse"] * p ** K["lean"] if part else K["worse"]
        better, bad = d < 0, d > worse * (q @ before) and d > K["sure"] * se
        surely = d < -K["sure"] * se
    better = surely if memory["left"] and part else better
    ref[cohort] = np.where(better | ~both, losses, ref[cohort])
    memory = memory | {"ref": ref, "worse": 0 if better else memory["worse"] + bad}
    if not memory["branched"]:
        old = memory["passes"]
        fresh = min(K["more"] * old, 1) if better else max(K["less"] * old, K["care"])
        memory = memory | {"passes": fresh}
    verdict = "better" if better else "none"
    if better:
        kept = kept | {"best": sent_anchor}
        if kept["frozen"]:
            kept = kept | {"frozen": False, "z": kept["x"], "n": 1}
            memory = memory | {"left": 0}
    elif memory["left"]:
        memory = memory | {"left": memory["left"] - 1, "worse": 0}
        if not memory["left"]:
            (kept, memory), verdict = went_back(kept, memory, sent_anchor, 1.0), "back"
            memory = memory | {"passes": 1.0}
    elif memory["worse"] >= K["patience"] and part and memory["back_at"] == number - K["patience"]:
        kept, verdict = kept | {"best": sent_anchor}, "better"
        memory = memory | {"ref": np.full(len(ref), np.nan), "worse": 0, "forgotten": memory["forgotten"] + 1}
    elif memory["worse"] >= K["patience"]:
        (kept, memory), verdict = went_back(kept, memory, sent_anchor, K["halved"]), "back"
        if memory["backs"] == K["returns"] and not (part or memory["branched"]) and over <= K["early"]:
            begun = {"branched": True, "left": K["trial_rounds"], "passes": K["care"]}
            memory, verdict = memory | begun, "branch"
            kept = begun_again(kept, sent_anchor) | {"best": kept["best"], "z": kept["best"], "frozen": True}
    memory = memory | {"back_at": number} if verdict in ("back", "branch") else memory
    flat = number > 0 and all(one["spread"] <= K["dead"] for one in readings)
    dead = memory["dead"] + 1 if flat and verdict != "back" else int(flat)
    memory = memory | {"dead": dead}
    if dead >= K["dead_rounds"] and memory["restarts"] < K["restarts"]:
        kept = begun_again(kept, sent_anchor)
        ref = np.full(len(ref), np.nan)
        fresh = {"ref": ref, "worse": 0, "dead": 0, "restarts": memory["restarts"] + 1, "passes": 1.0}
        memory, verdict = memory | fresh | {"lr": K["smaller"] * memory["lr"]}, "restart"
    return kept, memory, verdict


def agreed(memory, alike):
    """The running agreement after a round that had a rate."""
    old, stays = memory["agreement"], K["agreement_memory"]
    return memory | {"agreement": alike if old is None else stays * old + (1 - stays) * alike}


def loosened(agreement):
    return 1.0 if agreement is None else np.clip(1 / (K["agreeing"] * agreement), 1, K["loosening"])


def cooled(lr, over):
    return None if lr is None else lr * np.clip((1 - over) / K["cooling"], K["coldest"], 1)


def as_written(data, seed, cohorts, clock, budget, rounds):
    """Rounds: every round's steps, rate and verdict, and the model at the end."""
    x, y, site, initial = data
    kept, memory, seen, verdict = server_start(initial.ravel()), start(len(SIZES)), {}, "none"
    own = np.zeros((len(SIZES), initial.size))  # the c_i
    w, log = np.array(SIZES) / sum(SIZES), []
    rows = [divided(seed, i, np.flatnonzero(site == i)) for i in range(len(SIZES))]
    held = [len(back) for _, back in rows]
    for number, cohort in enumerate(cohorts):
        there = [i for i in range(len(SIZES)) if seen.get(i, (None, -1))[1] == number - 1 and number]
        absent = [number > 0 and i not in there for i in range(len(SIZES))]
        all_here = len(there) == len(cohort) == len(SIZES)
        returned = memory["backs"] + memory["restarts"] >= K["again"] and verdict in ("none", "better")
        k = float(returned and all_here)
        c, b = costs(initial.size, held, absent, memory["lr"] is None, k)
        gain, fade = coefficients(memory, memory["lr"] or 1.0)
        most = limits([len(rows[i][0]) for i in cohort], memory["passes"])
        steps = plan(w[cohort], gain[cohort], fade[cohort], c[cohort], b[cohort], clock, budget, most)
        eta, a, v = cooled(memory["lr"], number / rounds), kept["a"], kept["v"]
        p = loosened(memory["agreement"])
        answers = []
        for i, t in zip(cohort, steps, strict=True):

            def batch(s, i=i, number=number):
                picked = rows[i][0][minibatch(seed, number, int(i), s, len(rows[i][0]))]
                return x[picked], y[picked]

            before = seen[i][0] if i in there else None
            back = x[rows[i][1]], y[rows[i][1]]
            drift = k * (kept["c"] - own[i])
            answers.append(client(a, v, t, (eta, memory["part"], p), batch, back, before, drift))
            d, reading, _ = answers[-1]
            own[i] = -d / reading["L"] - drift if reading["L"] > 0 else 0.0
        sent, readings, gradients = zip(*answers, strict=True)
        seen |= {int(i): (g, number) for i, g in zip(cohort, gradients, strict=True)}
        kept = server_step(kept, sent, w[cohort], steps, readings)
        if eta is not None:
            memory = agreed(memory, kept["alike"])
        if memory["lr"] is None:
            rates, shares = np.array([one["eta"] for one in readings]), w[cohort] / w[cohort].sum()
            usual = min(rate for rate in rates if shares[rates <= rate].sum() >= 0.5)
            memory = memory | {"lr": shares @ np.minimum(rates, 10 * usual)}
        memory = learn(memory, cohort, w[cohort], readings, steps, eta or memory["lr"])
        over = (number + 1) / rounds
        kept, memory, verdict = judge(kept, memory, a, cohort, w[cohort], readings, number, over, p)
        log.append((steps, eta, p, verdict, memory["forgotten"], k))
    return log, kept["z"]


# -- held against the package ---------------------------------------------------------------------------


BUDGET = (20 * 0.01 + 1.6) * (1 - 5e-10)
CASES = {  # clock, cohort, budget, how mixed the classes are, rounds
    "sum": ("sum", None, None, 0.6, 12),
    "makespan, three of five": ("makespan", 3, None, 0.6, 12),
    "sum, a budget": ("sum", None, 4.0, 0.6, 12),
    "makespan, a budget": ("makespan", 4, BUDGET, 0.6, 12),
    "clients that pull apart": ("sum", None, None, 0.05, 12),
    "three of five that pull apart": ("sum", 3, None, 0.05, 60),
    "a branch that is given up": ("sum", None, 3.0, 0.6, 60),
    "a branch that is taken": ("sum", None, 3.5, 0.7, 80),
}
PARTED = "three of five that pull apart"
PULLING = ("clients that pull apart", PARTED)
# and the verdict that ends each
BRANCHES = {"a branch that is given up": "back", "a branch that is taken": "better"}


@pytest.mark.parametrize("case", CASES)
def test_the_text_is_the_algorithm(case, tmp_path):
    """Partial cohorts among them: the same plans, rates, verdicts, and the same model."""
    clock, cohort, budget, mixed, rounds = CASES[case]
    x, y, site, initial = data = problem(7, mixed)
    lines = [",".join(LINKS), *(",".join(map(str, row)) for row in zip(*LINKS.values(), strict=True))]
    (tmp_path / "links.csv").write_text("\n".join(lines) + "\n")
    names = tuple(f"site {i}" for i in range(len(SIZES)))
    evals = {"holdout": (x[:20].copy(), y[:20])}
    classes = tuple("abc"[:CLASSES])
    result = amsfl.run(
        method="amsfl",
        engine="loop",
        precision="float64",
        dataset=Dataset("mine", x, y, evals, classes, tuple("pqrs"), site, names),
        network=Model("linear", lambda key: jnp.asarray(initial), lambda matrix, rows: rows @ matrix),
        partition="column",
        profile=str(tmp_path / "links.csv"),
        clock=clock,
        cohort=cohort,
        budget=budget,
        batch=BATCH,
        rounds=rounds,
        seed=5,
    )
    cohorts = [np.array(r.cohort) for r in result.rounds]
    log, model = as_written(data, 5, cohorts, clock, budget, rounds)
    steps, rates, cuts, verdicts, forgotten, corrected = zip(*log, strict=True)
    assert list(steps) == [r.steps for r in result.rounds]
    assert len({*map(tuple, steps)}) > 3  # plans that change: agreeing means something
    assert list(verdicts) == [r.plan["verdict"] for r in result.rounds]
    assert ("branch" in verdicts) == (case in BRANCHES)
    assert forgotten[-1] or case != PARTED, "references of a lucky cohort have a part in it"
    if case in BRANCHES:
        later = verdicts[verdicts.index("branch") + 1 :]
        assert next(verdict for verdict in later if verdict != "none") == BRANCHES[case]
    np.testing.assert_allclose(cuts, [r.plan["cut"] for r in result.rounds], rtol=1e-7)
    assert max(cuts) > 1 or case not in PULLING, "clients pull apart, so that the cut has a part in it"
    assert list(corrected) == [r.plan.get("correction", 0) for r in result.rounds]
    assert any(corrected) or case not in BRANCHES, "drift is corrected after a return"
    assert rates[0] is None
    np.testing.assert_allclose(rates[1:], [r.lr for r in result.rounds[1:]], rtol=1e-7)
    np.testing.assert_allclose(model, np.ravel(result.params), rtol=1e-6, atol=1e-8)
