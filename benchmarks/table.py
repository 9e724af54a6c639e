"""Results as a Markdown table: ratios to ours, measured in the same run."""

import os
import platform
from pathlib import Path
from statistics import median
from typing import Any

from roster import PEERS

COLUMNS = ("", "version", "client steps/s", "ours is faster by", "median", "by medians")
HEAD = f"| {' | '.join(COLUMNS)} | accuracy | start-up s | peak MB |"


def machine() -> dict[str, Any]:
    """What the figures were measured on, without naming the host."""
    cpu, memory = platform.processor() or platform.machine(), 0
    if Path("/proc/cpuinfo").exists():
        models = [
            line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")
        ]
        cpu = models[0].partition(":")[2].strip() if models else cpu
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": memory,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
    }


def ratio(name: str, ours: float | None, speed: float) -> str:
    if not ours or name == "ours":
        return ""
    return f"ours reaches {ours / speed:.0%}" if name == "matmul" else f"{ours / speed:.3g} times"


def row(name: str, result: dict[str, Any], ours: dict[str, Any]) -> str:
    title = PEERS[name].title
    if "error" in result:
        error = str(result["error"]).replace("|", "\\|")
        return f"| {title} | | does not run ({error}) | | | | | | |"
    best, usual = float(result["client_steps_per_second"]), median(result["each"])
    compared = (
        ratio(name, ours.get("client_steps_per_second"), best),
        ratio(name, median(ours["each"]) if "each" in ours else None, usual),
    )
    extra = [f"{result[k]} {k}" for k in ("threads", "processes") if result.get(k, 1) != 1]
    version = f"{result.get('version', '')}{' (' + ', '.join(extra) + ')' if extra else ''}"
    right = "" if result.get("accuracy") is None else f"{float(result['accuracy']):.3f}"
    startup = "" if result.get("startup_seconds") is None else f"{float(result['startup_seconds']):.1f}"
    speeds = [f"{best:,.0f}", compared[0], f"{usual:,.0f}", compared[1]]
    cells = [title, version, *speeds, right, startup, str(result.get("peak_mb", ""))]
    return f"| {' | '.join(cells)} |"


def table(results: dict[str, dict[str, Any]]) -> str:
    """One job's table, fastest first; matrix products and peers that do not run at the end."""
    ours = results.get("ours", {})
    place = {"ours": 0, "matmul": 2}
    order = sorted(
        results,
        key=lambda n: (
            place.get(n, 1) + 3 * ("error" in results[n]),
            -results[n].get("client_steps_per_second", 0),
        ),
    )
    return "\n".join([HEAD, "| --- " * 9 + "|", *(row(n, results[n], ours) for n in order)])


def document(outcome: dict[str, Any]) -> str:
    where = outcome["machine"]
    lines = [
        f"Measured {outcome['date']} on {where['cores']} cores of {where['cpu']}, {where['memory_gib']} GiB, "
        f"{where['system']}, Python {where['python']}; load before the start {where['load']}; "
        f"passes: {outcome['passes']}; in the first, {outcome['repeat']} repetitions after a warm-up, later "
        f"as many as take {outcome['seconds']:g} seconds; the best one, and the median of all.",
        "",
    ]
    for job, entry in outcome["jobs"].items():
        s = entry["settings"]
        lines += [
            f"**Job {job}**: {s['clients']:,} clients, {s['cohort']} a round, {s['steps']} steps of batch "
            f"{s['batch']}, {s['rounds']} rounds.",
            "",
            table(entry["results"]),
            "",
        ]
    return "\n".join(lines)
