"""Texts of the page on a whole record: its title, its series, its scores, its state."""

from collections.abc import Mapping
from pathlib import Path

from amsfl.core import Score
from amsfl.core.records import Json
from amsfl.core.scores import CLASSES, NUMBERS
from amsfl.record import Manifest, Summary
from amsfl.record.lock import holder
from amsfl.report.draw.style import look
from amsfl.report.live.progress import TrialProgress, about, clock, run_settings, seconds_now
from amsfl.report.measure.text import shown
from amsfl.report.write.interactive import chart_axis

SPLITS = {"holdout": "hold-out", "test": "test split", "clients": "clients' own rows"}
NOTHING = "Nothing is on record here yet. Waiting for a run, a study or a server."


def head(where: Path, manifest: Manifest | None) -> Json:
    """What holds for the whole record: its title, its series with their colours, its axes."""
    if manifest is None:
        return {"title": shown(where.name), "facts": "", "series": [], "axes": []}
    record_facts = about(manifest)
    data = shown(str(record_facts.get("data", {}).get("name", "")))
    titles = [shown(facts.title) for facts in manifest.methods.values()]
    if manifest.kind == "study":
        title = shown(str(manifest.settings["title"]))
        facts = f"{manifest.settings['trials']} trials of {len(titles)} methods on {data}"
    else:
        title = f"{titles[0]} on {data}"
        names = record_facts.get("clients", {}).get("names") or ()
        count = len(names) or manifest.made_from.get("clients", "?")
        facts = f"{count} {'real' if manifest.kind == 'flower' else 'simulated'} clients"
    rounds = chart_axis("rounds", "rounds", "rounds", "rounds")
    real = chart_axis("time", "time", "seconds since the start", "s")
    virtual = chart_axis("time", "virtual time", f"virtual seconds ({clock(manifest)} clock)", "s")
    wall = chart_axis("wall", "machine time", "seconds of this machine", "s")
    axes = {"flower": [real, rounds], "study": [virtual, rounds]}.get(manifest.kind, [virtual, wall, rounds])
    return {"title": title, "facts": facts, "series": _series(manifest), "axes": axes}


def _series(manifest: Manifest) -> list[Json]:
    """With the colours that the report will have: the reference first."""
    entries = list(manifest.methods)
    reference = manifest.settings.get("reference", entries[0])
    order = sorted(entries, key=lambda entry: entry != reference)
    series = []
    for entry, facts in manifest.methods.items():
        label = facts.title if entry == facts.name or len(entries) == 1 else f"{facts.title} ({entry})"
        chart = look(order.index(entry)).for_chart
        series.append({"label": shown(label), "reference": entry == reference, **chart})
    return series


def scores(manifest: Manifest, keys: Mapping[str, bool], main: Score | None) -> list[Json]:
    """Scores that can be drawn; the axis ends at 0 and 1 where all values lie between (`keys`)."""
    target = run_settings(manifest).get("target")
    base = about(manifest).get("data", {}).get("base") or {}
    rows = []
    for key, within in keys.items():
        split, _, name = key.partition("/")
        mine = main if main and name == main.name else None
        first = mine is not None and split == next(iter(keys)).partition("/")[0]
        unit = within and name != "loss"
        rows.append(
            {
                "key": key,
                "name": f"{SPLITS.get(split, shown(split))} {shown(mine.title) if mine else _title(name)}",
                "target": target if first else None,
                "base": mine.of(base.get(split, {})) if mine else None,
                "least": mine.least if mine else 0 if unit else None,
                "most": 1 if unit else None,
            }
        )
    return rows


def _title(name: str) -> str:
    return next((each.title for each in (CLASSES | NUMBERS).values() if each.key == name), shown(name))


def state(
    where: Path,
    manifest: Manifest | None,
    latest: TrialProgress | None,
    summary: Summary | None,
    problem: str,
) -> dict[str, str]:
    """The state of the record: one sentence, and one word for its colour."""
    if problem and latest is None:
        return {"kind": "trouble", "say": shown(problem)}
    if manifest is None:
        return {"kind": "waiting", "say": NOTHING}
    writing = holder(where) is not None
    if manifest.kind == "study":
        kind, say = _study(manifest, latest, writing)
    elif summary is not None:
        kind, say = summary.status, f"{summary.status.capitalize()} after {_rounds(summary.rounds)}."
    else:
        kind = "running" if writing else "stopped"
        far = "" if latest is None else _far(manifest, latest)
        if writing:
            say = f"Running: {far or 'round 1 is not finished yet'}."
        elif not far:
            say = "It stopped before round 1."
        elif manifest.kind == "flower":
            say = f"The server stopped after {far}; start it again with resume."
        else:
            say = f"Stopped after {far}; 'amsfl resume {where}' goes on."
    return {"kind": kind, "say": " ".join(filter(None, (shown(say), shown(problem))))}


def _far(manifest: Manifest, latest: TrialProgress) -> str:
    settings = manifest.settings
    wanted = settings.get("rounds")
    text = f"round {latest.record.round}" + (f" of {wanted}" if wanted else "")
    spent, limit = seconds_now(manifest, latest), settings.get("seconds")
    unit = "seconds" if manifest.kind == "flower" else "virtual seconds"
    return f"{text}, {spent:.1f}{f' of {limit:g}' if limit else ''} {unit}"


def _study(manifest: Manifest, latest: TrialProgress | None, writing: bool) -> tuple[str, str]:
    total = len(manifest.methods) * int(manifest.settings["trials"])
    spans = [Path(name).stem.split("-") for name in manifest.files if name.startswith("trials/")]
    done = sum(int(last) - int(first) + 1 for first, last in spans)  # a file is FIRST-LAST.jsonl
    text = f"{done} of {total} trials are on record"
    if done >= total:
        return "finished", f"Finished: {text}."
    if not writing:
        return "stopped", f"Stopped: {text}; the same command continues it."
    if latest is None:
        return "running", f"Running: {text}; no round is finished yet."
    facts = manifest.methods[latest.entry]
    now = f"{facts.title}, trial {latest.trial + 1}, {_rounds(latest.record.round)} so far"
    return "running", f"Running: {text}; now {now}."


def _rounds(count: int) -> str:
    return f"{count} round{'' if count == 1 else 's'}"
