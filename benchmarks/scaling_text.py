"""The results of scaling.py as a page of Markdown."""

from typing import Any


def lines_of(head: str, rows: list[list[str]]) -> list[str]:
    return [head, "| --- " * (head.count("|") - 1) + "|", *(f"| {' | '.join(row)} |" for row in rows), ""]


def micro(seconds: float) -> str:
    return f"{1e6 * seconds:,.1f}"


def _warning(load: float, cores: int) -> list[str]:
    """Points are measured one after another: other people's work on the machine bends every curve of time."""
    if load <= 1.5 * cores:
        return []
    return [
        f"The machine was busy with other work (load {load} on {cores} cores): times are too long, by up to "
        "the load over the cores, and unlike from point to point; read memory, and ratios only roughly.",
        "",
    ]


def document(outcome: dict[str, Any]) -> str:
    where = outcome["machine"]
    first = outcome["trials"][0]
    text = [
        f"Measured {outcome['date']} on {where['cores']} cores of {where['cpu']}, {where['memory_gib']} GiB, "
        f"{where['system']}, Python {where['python']}, jax {first['jax']}; "
        f"load {where['load']} before the start and {where['load_after']} at the end; best of three after a "
        "warm-up; every point a process of its own. Written by `python benchmarks/scaling.py`.",
        "",
        *_warning(max(where["load"], where["load_after"]), where["cores"]),
        "**Unequal steps** (1..100, as many on the whole as the equal ones), microseconds a client step:",
        "",
    ]
    text += lines_of(
        "| | equal | unequal | ratio |",
        [
            [name, micro(p["equal"]), micro(p["unequal"]), f"{p['ratio']:.2f}"]
            for name, p in outcome["unequal"].items()
        ],
    )
    text += ["**Trials** (5 clients, 20 steps of batch 64), all trials in one batch:", ""]
    text += lines_of(
        "| trials | microseconds a client step | one round of all, times one trial's | peak MB |",
        [
            [
                str(p["trials"]),
                micro(p["seconds_per_step"]),
                f"{p['trials'] * p['seconds_per_step'] / first['seconds_per_step']:.1f}",
                f"{p['peak_mb']:,.0f}",
            ]
            for p in outcome["trials"]
        ],
    )
    scale = outcome["scale"]
    engine = scale["engine"]
    text += [
        f"**Scale**: {engine['clients']:,} clients, {engine['cohort']:,} a round, {engine['steps']} steps of "
        f"batch {engine['batch']}; for the whole run also planning, records and an evaluation a round.",
        "",
    ]
    rows = []
    for name, p in scale.items():
        steps = p.get("steps_a_round", engine["cohort"] * engine["steps"])
        second = p.get("round_seconds", p.get("seconds_per_step", 0) * steps)
        half = len(p["rss_mb"]) // 2
        rows.append(
            [
                name,
                f"{second:.3f}",
                f"{steps:,.0f}",
                f"{p['rss_mb'][0]:,.0f}",
                f"{p['rss_mb'][half]:,.0f}",
                f"{p['rss_mb'][-1]:,.0f}",
                f"{p['peak_mb']:,.0f}",
            ]
        )
    text += lines_of("| | s a round (best) | steps a round | MB after round 1 | half | last | peak |", rows)
    text += ["**Curves**: one thing grows, the rest stays (the picture shows the same).", ""]
    named = [
        (f"model {p['dim']:,} parameters" if name == "hidden" else f"{name} {p[name]:,}", p)
        for name, points in outcome["curves"].items()
        for p in points
    ]
    named += [(f"scaffold, clients {p['clients']:,}", p) for p in outcome["with state"]]
    rows = [[name, micro(p["seconds_per_step"]), f"{p['peak_mb']:,.0f}"] for name, p in named]
    text += lines_of("| | microseconds a client step | peak MB |", rows)
    return "\n".join(text)
