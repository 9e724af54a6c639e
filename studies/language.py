"""What planned steps are worth where eight uneven workers train a language model: a language each, AdamW
inside, Nesterov outside, as in DiLoCo (arXiv 2311.08105); in virtual seconds, bytes and tokens.

    apt-get install manpages manpages-dev manpages-{de,fr,es,pl,ru,uk,it} manpages-{de,fr}-dev
    python studies/language.py --prepare text.npz    # GPL-3+; the English pages various
    python studies/language.py --text text.npz       # twenty minutes on an H200
    python studies/language.py --small               # a hundredth of it: three minutes on two cores

One worker takes i times the seconds of a step, for each i from 1 to 8; which language that has is drawn by
the seed. All have one method, rate, outer momentum and judge; only who takes how many steps differs. `alone`
is the fastest worker with the text of all and nobody to talk to. Each contestant has a file in --out, written
as it goes; who is done there is not run again. `--draw` makes the picture and the tables of what there is.
"""

import argparse
import gzip
import json
import re
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from amsfl import Dataset, run_batch
from amsfl.data.dataset import LabelScale
from amsfl.engines import jax_engine
from amsfl.engines.models import Model
from amsfl.planning import Policy, speed
from amsfl.simulation import CustomParts

LANGUAGES = ("en", "de", "fr", "es", "pl", "ru", "uk", "it")
CONTESTANTS: dict[str, dict[str, Any]] = {  # the most telling first
    "planned": {},
    "H=30": {"policy": "fixed", "steps": 30},
    "H=10": {"policy": "fixed", "steps": 10},
    "H=100": {"policy": "fixed", "steps": 100},
    "by speed, 64": {"policy": speed(64, 1), "steps": 64},
    "alone": {"policy": "fixed", "steps": 50, "options": {"momentum": 0, "judge": 0, "balance": 0}},
    "by speed, 200": {"policy": speed(200, 1), "steps": 200},
    "H=300": {"policy": "fixed", "steps": 300},
    # asynchronous, steps by speed: arXiv 2401.09135
    "delayed Nesterov": {"method": "delayed-nesterov", "steps": 64, "options": {"every": 8}},
}
SIZES = {  # width, blocks, heads, bytes of a row, rows of a minibatch, seconds, bytes of a language
    False: (192, 4, 6, 128, 16, 400.0, 1_000_000),
    True: (32, 1, 2, 32, 8, 60.0, 100_000),
}
STEP, LATENCY, MEGABITS = 0.05, 0.1, 100.0  # of the fastest worker, seconds; of every link
HELD = 128  # rows of a language to score by
SCORED = 30  # times that a run is scored


def plain(page: str) -> str:
    """A manual page without most of its markup."""
    markup = ('.\\"', "'\\\"", ".de", ".ie", ".el")
    lines = [line for line in page.splitlines() if not line.startswith(markup)]
    text = "\n".join(re.sub(r"^[.'][A-Za-z]{1,2}\s*", "", line) for line in lines)
    text = re.sub(r"\\f(\[\w*\]|\(..|.)|\\[&|/,^%]|\\s[-+]?\d", "", text)
    return re.sub(r"\n{2,}", "\n", text.replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\"))


def prepare(root: Path, to: Path, most: int) -> None:
    """The text of every language, its pages in an order of their own, as bytes."""
    texts = {}
    for language in LANGUAGES:
        folder = root / "usr/share/man" / ("" if language == "en" else language)
        pages = sorted(
            page for part in folder.glob("man*") for page in part.glob("*.gz") if not page.is_symlink()
        )
        if not pages:
            raise SystemExit(
                f"No manual pages in {folder}: apt-get install manpages-{language}, or name --root."
            )
        order = np.random.default_rng(0).permutation(len(pages))
        whole = ""
        for place in order:
            if len(whole.encode()) < most:
                whole += plain(gzip.decompress(pages[place].read_bytes()).decode("utf-8", "ignore"))
        texts[language] = np.frombuffer(whole.encode()[:most], np.uint8)
        print(language, len(pages), "pages,", len(texts[language]), "bytes")
    np.savez_compressed(to, **texts)


def rows_of(text: Path, length: int, most: int, together: bool) -> Dataset:
    """Rows of `length` bytes and the one after; every language is a site, or all of them one."""
    with np.load(text) as file:
        texts = [file[language][:most] for language in LANGUAGES]
    cut = [each[: len(each) // (length + 1) * (length + 1)].reshape(-1, length + 1) for each in texts]
    held = np.concatenate([rows[-HELD:] for rows in cut]).astype(np.float32)
    train = np.concatenate([rows[:-HELD] for rows in cut]).astype(np.float32)
    sites = np.repeat(np.arange(len(cut)), [len(rows) - HELD for rows in cut])
    return Dataset(
        "manual pages",
        train,
        np.zeros(len(train), np.float32),  # a row is its own label
        {"holdout": (held, np.zeros(len(held), np.float32))},
        (),
        tuple(f"byte {place}" for place in range(length + 1)),
        0 * sites if together else sites,
        ("all",) if together else LANGUAGES,
        amount=LabelScale(0.0, 1.0),
    )


def transformer(width: int, blocks: int, heads: int, length: int) -> Model:
    """A causal transformer over bytes (pre-norm, GELU, tied table); its loss is a row's mean."""

    def init(key: jax.Array) -> Any:
        keys = iter(jax.random.split(key, 2 + 4 * blocks))

        def dense(inputs: int, outputs: int, scale: float = 1.0) -> jax.Array:
            return scale * inputs**-0.5 * jax.random.normal(next(keys), (inputs, outputs))

        deep = (2 * blocks) ** -0.5
        return {
            "table": 0.02 * jax.random.normal(next(keys), (256, width)),
            "place": 0.02 * jax.random.normal(next(keys), (length, width)),
            "norm": jnp.ones(width),
            "blocks": [
                {
                    "norms": jnp.ones((2, width)),
                    "qkv": dense(width, 3 * width),
                    "out": dense(width, width, deep),
                    "up": dense(width, 4 * width),
                    "down": dense(4 * width, width, deep),
                }
                for _ in range(blocks)
            ],
        }

    def normal(x: jax.Array, scale: jax.Array) -> jax.Array:
        return scale * x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)

    def apply(params: Any, rows: jax.Array) -> jax.Array:
        """[rows, 1]: the mean cross-entropy of each row's next bytes."""
        tokens = rows.astype(jnp.int32)
        here, following = tokens[:, :-1], tokens[:, 1:]
        size, many = here.shape[1], len(here)
        x = params["table"][here] + params["place"][:size]
        seen = jnp.where(jnp.tril(jnp.ones((size, size), bool)), 0.0, -1e9).astype(x.dtype)
        for block in params["blocks"]:
            qkv = (normal(x, block["norms"][0]) @ block["qkv"]).reshape(many, size, 3, heads, width // heads)
            q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (width // heads) ** -0.5 + seen
            mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(many, size, width)
            x = x + mixed @ block["out"]
            x = x + jax.nn.gelu(normal(x, block["norms"][1]) @ block["up"]) @ block["down"]
        logits = jax.nn.log_softmax(normal(x, params["norm"]) @ params["table"].T)
        picked = jax.nn.one_hot(following, 256, dtype=x.dtype)  # a product: its gradient is no scatter
        return -(picked * logits).sum(-1).mean(-1)[:, None]

    return Model(f"transformer-{width}-{blocks}", init, apply, loss=lambda outputs, _: outputs[:, 0])


def profile(folder: Path, seed: int, workers: int) -> str:
    """The table of sites: one worker is i times slow, for each i; the seed says which has which language."""
    path = folder / f"workers-{workers}-{seed}.csv"
    slow = np.random.default_rng(seed).permutation(workers) + 1
    links = f"{LATENCY},{MEGABITS},{MEGABITS}" if workers > 1 else "0,1e9,1e9"  # who is alone sends nothing
    lines = [f"{STEP * each:g},{links}" for each in slow]
    path.write_text("step_seconds,latency,up_mbps,down_mbps\n" + "\n".join(lines) + "\n")
    return str(path)


def compete(name: str, text: Path, out: Path, seeds: range, small: bool, seconds: float | None) -> None:
    """All seeds of a contestant, side by side; its file is written as it goes."""
    width, blocks, heads, length, batch, usual, most = SIZES[small]
    alone, seconds, started = name == "alone", seconds or usual, time.time()
    settings = {"method": "amsfl", "client_optimizer": "adamw:1e-3/0.1,kept", "batch": batch, "score": "loss"}
    settings |= {"clock": "makespan", "partition": "column", "model": "own", "details": ""}
    settings |= {"precision": "strict" if small else "tf32", "seconds": seconds} | CONTESTANTS[name]
    own_pace = alone or "speed" in name or "method" in CONTESTANTS[name]
    slowest = 1 if own_pace else 8  # of whom a round waits for
    lasts = STEP * slowest * settings.get("steps", 8) + (not alone)
    rounds = seconds / lasts
    if "method" in CONTESTANTS[name]:  # a round an upload; its rate falls to a tenth as theirs does
        rounds *= 8
        settings["lr_decay"] = 0.1 ** (1 / rounds)
    settings["eval_every"] = max(1, round(rounds / SCORED))
    trials = [settings | {"seed": seed, "profile": profile(out, seed, 1 if alone else 8)} for seed in seeds]
    curves: list[dict[str, Any]] = [{"seed": seed, "points": []} for seed in seeds]
    spent, written = np.zeros((len(seeds), 2)), [time.time()]

    def write(done: bool) -> None:
        (out / f"{name.replace(' ', '')}.json").write_text(
            json.dumps({"name": name, "done": done, "seconds": time.time() - started, "curves": curves})
        )

    def watch(place: int, each: Any) -> None:
        sent = 0 if alone else each.bytes_up + each.bytes_down
        spent[place] += sent, sum(each.steps) * batch * length
        if "holdout" in each.metrics:
            loss = each.metrics["holdout"]["loss"]
            curves[place]["points"].append([each.seconds["makespan"], *spent[place].tolist(), loss])
        if time.time() > written[0] + 10:
            written[0] = time.time()
            write(False)
            print(f"  {name}: {each.seconds['makespan']:.0f} of {seconds:.0f} s", flush=True)

    data = rows_of(text, length, most, alone)
    policy = settings["policy"] if isinstance(settings.get("policy"), Policy) else None
    own = CustomParts(dataset=data, network=transformer(width, blocks, heads, length), policy=policy)
    run_batch([{**each, **own.names()} for each in trials], own, watch)
    write(True)
    last = [curve["points"][-1] for curve in curves]
    print(
        f"{name}: loss {', '.join(f'{each[-1]:.4f}' for each in last)}; {time.time() - started:.0f} s",
        flush=True,
    )


def mean_curve(curves: list[dict[str, Any]]) -> np.ndarray:
    """[points, 4] over the seeds: seconds, bytes, tokens, loss."""
    many = min(len(curve["points"]) for curve in curves)
    return np.mean([curve["points"][:many] for curve in curves], 0)


def reach(curve: np.ndarray, loss: float, column: int) -> float | None:
    """Where a curve first has that loss, between its points."""
    lowest = np.minimum.accumulate(curve[:, 3])
    return None if lowest[-1] > loss else float(np.interp(-loss, -lowest, curve[:, column]))


def draw(out: Path, picture: Path | None) -> None:
    """The table of seconds, megabytes and tokens to the best H's last loss, and the picture."""
    files = [out / f"{name.replace(' ', '')}.json" for name in CONTESTANTS]
    found = [json.loads(file.read_text()) for file in files if file.exists()]
    means = {each["name"]: mean_curve(each["curves"]) for each in found}
    equal = {name: curve for name, curve in means.items() if name.startswith("H=")}
    if not equal:
        return
    best = min(equal, key=lambda name: equal[name][-1, 3])
    target = equal[best][-1, 3]
    print(f"\nTo {target:.4f}, which {best} has at its end; seeds apart in brackets")
    print("| | seconds | megabytes | million tokens | last loss |\n| --- | --- | --- | --- | --- |")
    for each in found:
        to = [reach(means[each["name"]], target, column) for column in range(3)]
        apart = [reach(np.array(one["points"]), target, 0) for one in each["curves"]]
        each_seed = ", ".join("-" if at is None else f"{at:.0f}" for at in apart)
        cells = ["-" if to[0] is None else f"{to[0]:.0f} ({each_seed})"]
        cells += [f"{value / 1e6:.0f}" if value is not None else "-" for value in to[1:]]
        lasts = [one["points"][-1][3] for one in each["curves"]]
        print(f"| {each['name']} | {' | '.join(cells)} | {np.mean(lasts):.4f} ± {np.std(lasts):.4f} |")
    if picture is None:
        return
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 4.4), sharey=True, layout="constrained")
    colours = pyplot.get_cmap("tab10")
    for place, (name, curve) in enumerate(means.items()):
        look = {"color": colours(place), "lw": 2.4 if name == "planned" else 1.3, "label": name}
        for column, axis in enumerate(axes):
            if name == "alone" and column == 1:  # it sends nothing
                continue
            axis.plot(curve[:, column] / (1, 1e6, 1e6)[column], curve[:, 3], **look)
    for axis, label in zip(axes, ("virtual seconds", "megabytes, both ways", "million tokens"), strict=True):
        axis.set(xlabel=label, yscale="log")
        axis.grid(alpha=0.3, which="both")
        axis.spines[["top", "right"]].set_visible(False)
    axes[1].set_xscale("log")
    axes[2].set_xscale("log")
    axes[0].yaxis.set_major_formatter("{x:g}")
    axes[0].yaxis.set_minor_formatter("{x:g}")
    axes[0].set_ylabel("loss of held-out text (nats a byte)")
    low = min(curve[:, 3].min() for curve in means.values())
    axes[0].set_ylim(0.97 * low, 3 * low)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=9, frameon=False)
    figure.savefig(picture, facecolor="white", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--prepare", type=Path, help="write the text there, and end")
    parser.add_argument("--root", type=Path, default=Path("/"), help="where the packages are unpacked")
    parser.add_argument("--text", type=Path, help="what --prepare wrote; else the pages are read anew")
    parser.add_argument("--out", type=Path, default=Path("results/language"))
    parser.add_argument("--small", action="store_true", help="a hundredth of it, one seed")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--seconds", type=float, help="virtual ones")
    parser.add_argument("--only", help="contestants, as in planned;H=30")
    parser.add_argument(
        "--draw", type=Path, nargs="?", const=Path("language.svg"), help="the picture, and end"
    )
    given = parser.parse_args()
    most = SIZES[given.small][-1]
    if given.prepare:
        return prepare(given.root, given.prepare, SIZES[False][-1])
    given.out.mkdir(parents=True, exist_ok=True)
    if not given.draw:
        text = given.text or given.out / "text.npz"
        if not text.exists():
            prepare(given.root, text, most)
        seeds = range(given.seeds or (1 if given.small else 3))
        # of a GPU's wave: equally fast workers of all seeds, none waits in lockstep
        jax_engine.LANES = len(seeds)
        for name in given.only.split(";") if given.only else CONTESTANTS:
            file = given.out / f"{name.replace(' ', '')}.json"
            if not (file.exists() and json.loads(file.read_text())["done"]):
                compete(name, text, given.out, seeds, given.small, given.seconds)
    draw(given.out, given.draw)


if __name__ == "__main__":
    main()
