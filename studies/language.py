"""What planned steps are worth where eight uneven workers train a language model: a language each, AdamW
inside, Nesterov outside, as in DiLoCo (arXiv 2311.08105); in virtual seconds, bytes and tokens.

    python studies/language.py --small               # a hundredth of it: two minutes on two cores, anywhere

    apt-get install manpages manpages-dev manpages-{de,fr,es,pl,ru,uk,it} manpages-{de,fr}-dev
    python studies/language.py --prepare text.npz    # GPL-3+; the English pages various
    python studies/language.py --text text.npz       # twenty minutes on an H200

A small one reads eight packages of Python's own library for eight languages, so it needs nothing else. One
worker takes i times the seconds of a step, for each i from 1 to 8; which text that has is drawn by the seed.
All have one method, rate, outer momentum and judge; only who takes how many steps differs. `alone` is the
fastest worker with the text of all and nobody to talk to. Who has a file in --out is not run again. `--draw`
shows what is there: a table, and language.png beside it.
"""

import argparse
import gzip
import json
import re
import sysconfig
import time
from collections.abc import Iterator
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
PACKAGES = ("asyncio", "email", "encodings", "http", "multiprocessing", "pydoc_data", "unittest", "xml")
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
LONG = ("H=100", "H=300", "by speed, 200")  # a round of theirs is a large part of a small run
SIZES = {  # width, blocks, heads, bytes of a row, rows of a minibatch, seconds, bytes of a kind of text
    False: (192, 4, 6, 128, 16, 400.0, 1_000_000),
    True: (32, 1, 2, 32, 8, 100.0, 100_000),
}
STEP, LATENCY, MEGABITS = 0.05, 0.1, 100.0  # of the fastest worker, seconds; of every link
HELD = 128  # rows of a kind of text to score by
SCORED = 30  # times that a run is scored


def plain(page: str) -> str:
    """A manual page without most of its markup."""
    markup = ('.\\"', "'\\\"", ".de", ".ie", ".el")
    lines = [line for line in page.splitlines() if not line.startswith(markup)]
    text = "\n".join(re.sub(r"^[.'][A-Za-z]{1,2}\s*", "", line) for line in lines)
    text = re.sub(r"\\f(\[\w*\]|\(..|.)|\\[&|/,^%]|\\s[-+]?\d", "", text)
    return re.sub(r"\n{2,}", "\n", text.replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\"))


def pages(root: Path | None, kind: str) -> Iterator[str]:
    """Manual pages of a language below a root, or the files of a package of Python's library, shuffled."""
    if root is None:
        files = sorted((Path(sysconfig.get_path("stdlib")) / kind).rglob("*.py"))
    else:
        folder = root / "usr/share/man" / ("" if kind == "en" else kind)
        files = sorted(
            page for part in folder.glob("man*") for page in part.glob("*.gz") if not page.is_symlink()
        )
        if not files:
            raise SystemExit(f"No manual pages in {folder}: apt-get install manpages-{kind}, or name --root.")
    for place in np.random.default_rng(0).permutation(len(files)):
        held = files[place].read_bytes()
        yield plain(gzip.decompress(held).decode("utf-8", "ignore")) if root else held.decode()


def prepare(root: Path | None, to: Path, most: int) -> None:
    """The text of every worker, as bytes."""
    texts = {}
    for kind in PACKAGES if root is None else LANGUAGES:
        whole = b""
        for page in pages(root, kind):
            whole += page.encode()
            if len(whole) >= most:
                break
        texts[kind] = np.frombuffer(whole[:most], np.uint8)
    np.savez_compressed(to, **texts)
    print(f"Text of {', '.join(texts)}: {min(map(len, texts.values())):,} bytes each, or more", flush=True)


def rows_of(text: Path, length: int, most: int, together: bool) -> Dataset:
    """Rows of `length` bytes and the one after; every kind of text is a site, or all of them one."""
    with np.load(text) as file:
        kinds, texts = tuple(file.files), [file[kind][:most] for kind in file.files]
    cut = [each[: len(each) // (length + 1) * (length + 1)].reshape(-1, length + 1) for each in texts]
    held = np.concatenate([rows[-HELD:] for rows in cut]).astype(np.float32)
    train = np.concatenate([rows[:-HELD] for rows in cut]).astype(np.float32)
    sites = np.repeat(np.arange(len(cut)), [len(rows) - HELD for rows in cut])
    return Dataset(
        "text",
        train,
        np.zeros(len(train), np.float32),  # a row is its own label
        {"holdout": (held, np.zeros(len(held), np.float32))},
        (),
        tuple(f"byte {place}" for place in range(length + 1)),
        0 * sites if together else sites,
        ("all",) if together else kinds,
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
        for block in params["blocks"]:
            qkv = (normal(x, block["norms"][0]) @ block["qkv"]).reshape(many, size, 3, heads, width // heads)
            mixed = jax.nn.dot_product_attention(*jnp.moveaxis(qkv, 2, 0), is_causal=True)
            x = x + mixed.reshape(many, size, width) @ block["out"]
            x = x + jax.nn.gelu(normal(x, block["norms"][1]) @ block["up"]) @ block["down"]
        logits = jax.nn.log_softmax(normal(x, params["norm"]) @ params["table"].T)
        picked = jax.nn.one_hot(following, 256, dtype=x.dtype)  # a product: its gradient is no scatter
        return -(picked * logits).sum(-1).mean(-1)[:, None]

    return Model(f"transformer-{width}-{blocks}", init, apply, loss=lambda outputs, _: outputs[:, 0])


def profile(folder: Path, seed: int, workers: int) -> str:
    """The table of sites: one worker is i times slow, for each i; the seed says which has which text."""
    path = folder / f"workers-{workers}-{seed}.csv"
    slow = np.random.default_rng(seed).permutation(workers) + 1
    links = f"{LATENCY},{MEGABITS},{MEGABITS}" if workers > 1 else "0,1e9,1e9"  # who is alone sends nothing
    lines = [f"{STEP * each:g},{links}" for each in slow]
    path.write_text("step_seconds,latency,up_mbps,down_mbps\n" + "\n".join(lines) + "\n")
    return str(path)


def compete(name: str, text: Path, file: Path, seeds: range, small: bool, seconds: float | None) -> None:
    """All seeds of a contestant, side by side, to its file."""
    width, blocks, heads, length, batch, usual, most = SIZES[small]
    alone, seconds, started = name == "alone", seconds or usual, time.time()
    settings = {"method": "amsfl", "client_optimizer": "adamw:1e-3/0.1,kept", "batch": batch, "score": "loss"}
    settings |= {"clock": "makespan", "partition": "column", "model": "own", "details": ""}
    settings |= {"precision": "strict" if small else "tf32", "seconds": seconds} | CONTESTANTS[name]
    own_pace = alone or "speed" in name or "method" in CONTESTANTS[name]
    slowest = 1 if own_pace else 8  # of whom a round waits for
    rounds = seconds / (STEP * slowest * settings.get("steps", 8) + (not alone))
    if "method" in CONTESTANTS[name]:  # a round an upload; its rate falls to a tenth as theirs does
        rounds *= 8
        settings["lr_decay"] = 0.1 ** (1 / rounds)
    settings["eval_every"] = max(1, round(rounds / SCORED))
    workers = 1 if alone else 8
    trials = [settings | {"seed": seed, "profile": profile(file.parent, seed, workers)} for seed in seeds]
    curves: list[list[list[float]]] = [[] for _ in seeds]
    spent, told = np.zeros((len(seeds), 2)), [time.time()]

    def watch(place: int, each: Any) -> None:
        sent = 0 if alone else each.bytes_up + each.bytes_down
        spent[place] += sent, sum(each.steps) * batch * length
        if "holdout" in each.metrics:
            loss = each.metrics["holdout"]["loss"]
            curves[place].append([each.seconds["makespan"], *spent[place].tolist(), loss])
        if time.time() > told[0] + 10:
            told[0] = time.time()
            print(f"  {name}: {each.seconds['makespan']:.0f} of {seconds:.0f} s", flush=True)

    data = rows_of(text, length, most, alone)
    policy = settings["policy"] if isinstance(settings.get("policy"), Policy) else None
    own = CustomParts(dataset=data, network=transformer(width, blocks, heads, length), policy=policy)
    run_batch([{**each, **own.names()} for each in trials], own, watch)
    file.write_text(json.dumps(curves))
    ends = ", ".join(f"{curve[-1][-1]:.3f}" for curve in curves)
    print(f"{name}: loss {ends}; {time.time() - started:.0f} s", flush=True)


def file_of(out: Path, name: str) -> Path:
    return out / f"{name.replace(' ', '')}.json"


def mean_curve(curves: list[list[list[float]]]) -> np.ndarray:
    """[points, 4] over the seeds: seconds, bytes, tokens, loss."""
    many = min(map(len, curves))
    return np.mean([curve[:many] for curve in curves], 0)


def reach(curve: np.ndarray, loss: float, column: int) -> float | None:
    """Where a curve first has that loss, between its points."""
    lowest = np.minimum.accumulate(curve[:, 3])
    return None if lowest[-1] > loss else float(np.interp(-loss, -lowest, curve[:, column]))


def amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def draw(out: Path) -> None:
    """The table of seconds, megabytes and tokens to the best H's last loss, and the picture."""
    files = {name: file_of(out, name) for name in CONTESTANTS}
    found = {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}
    means = {name: mean_curve(curves) for name, curves in found.items()}
    equal = {name: curve for name, curve in means.items() if name.startswith("H=")}
    if not equal:
        return
    best = min(equal, key=lambda name: equal[name][-1, 3])
    target = equal[best][-1, 3]
    print(
        f"\nTo a loss of {target:.3f} nats a byte of held-out text, the end of {best}, the best equal steps:"
    )
    print("virtual seconds (of every seed), bytes that all sent, tokens that all read\n")
    print("| | seconds | megabytes | million tokens | last loss |\n| --- | --- | --- | --- | --- |")
    for name, curves in found.items():
        to = [reach(means[name], target, column) for column in range(3)]
        cells = ["not reached" if to[0] is None else amount(to[0])]
        cells += ["" if value is None else amount(value / 1e6) for value in to[1:]]
        lasts = [curve[-1][3] for curve in curves]
        if len(lasts) > 1:
            apart = [reach(np.array(curve), target, 0) for curve in curves]
            cells[0] += f" ({', '.join('-' if at is None else amount(at) for at in apart)})"
        spread = f" ± {np.std(lasts):.2f}" if len(lasts) > 1 else ""
        print(f"| {name} | {' | '.join(cells)} | {np.mean(lasts):.2f}{spread} |")
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
    axes[0].yaxis.set_major_formatter("{x:g}")
    axes[0].yaxis.set_minor_formatter("{x:g}")
    axes[0].set_ylabel("loss of held-out text (nats a byte)")
    losses = np.concatenate([curve[:, 3] for curve in means.values()])
    axes[0].set_ylim(0.97 * losses.min(), min(3 * losses.min(), 1.03 * losses.max()))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=9, frameon=False)
    figure.savefig(out / "language.png", facecolor="white", dpi=120)
    print(f"\nThe curves: {out / 'language.png'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--prepare", type=Path, help="write the text there, and end")
    parser.add_argument("--root", type=Path, default=Path("/"), help="where the packages are unpacked")
    parser.add_argument("--text", type=Path, help="what --prepare wrote; else it is read anew")
    parser.add_argument("--out", type=Path, help="results/language or results/language-small")
    parser.add_argument("--small", action="store_true", help="a hundredth of it, one seed")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--seconds", type=float, help="virtual ones")
    parser.add_argument("--only", help="contestants, as in planned;H=30")
    parser.add_argument("--draw", action="store_true", help="show what is there, and end")
    given = parser.parse_args()
    if given.prepare:
        return prepare(given.root, given.prepare, SIZES[False][-1])
    small, out = given.small, given.out or Path(f"results/language{'-small' * given.small}")
    out.mkdir(parents=True, exist_ok=True)
    if not given.draw:
        text = given.text or out / "text.npz"
        if not text.exists():
            prepare(None if small else given.root, text, SIZES[small][-1])
        seeds = range(given.seeds or (1 if small else 3))
        # of a GPU's wave: equally fast workers of all seeds, none waits in lockstep
        jax_engine.LANES = len(seeds)
        usual = [name for name in CONTESTANTS if not (small and name in LONG)]
        for name in given.only.split(";") if given.only else usual:
            if not (file := file_of(out, name)).exists():
                compete(name, text, file, seeds, small, given.seconds)
    draw(out)


if __name__ == "__main__":
    main()
