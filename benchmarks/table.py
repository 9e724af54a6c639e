"""Results as a Markdown table: ratios to ours, measured in the same run."""

import os
import platform
from pathlib import Path
from typing import Any

from roster import PEERS

HEAD = "| | version | client steps/s | ours is faster by | accuracy | start-up s | peak MB |"


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


def row(name: str, result: dict[str, Any], ours: float | None) -> str:
    title = PEERS[name].title
    if "error" in result:
        error = str(result["error"]).replace("|", "\\|")
        return f"| {title} | | does not run ({error}) | | | | |"
    speed = float(result["client_steps_per_second"])
    ratio = f"{ours / speed:.3g} times" if ours and name != "ours" else ""
    if name == "matmul":
        ratio = f"ours reaches {ours / speed:.0%}" if ours else ""
    extra = [f"{result[k]} {k}" for k in ("threads", "processes") if result.get(k, 1) != 1]
    version = f"{result.get('version', '')}{' (' + ', '.join(extra) + ')' if extra else ''}"
    right = "" if result.get("accuracy") is None else f"{float(result['accuracy']):.3f}"
    startup = "" if result.get("startup_seconds") is None else f"{float(result['startup_seconds']):.1f}"
    cells = [title, version, f"{speed:,.0f}", ratio, right, startup, str(result.get("peak_mb", ""))]
    return f"| {' | '.join(cells)} |"


def table(results: dict[str, dict[str, Any]]) -> str:
    """One job's table, fastest first; matrix products and peers that do not run at the end."""
    ours = results.get("ours", {}).get("client_steps_per_second")
    place = {"ours": 0, "matmul": 2}
    order = sorted(
        results,
        key=lambda n: (
            place.get(n, 1) + 3 * ("error" in results[n]),
            -results[n].get("client_steps_per_second", 0),
        ),
    )
    return "\n".join([HEAD, "| --- " * 7 + "|", *(row(n, results[n], ours) for n in order)])


def document(outcome: dict[str, Any]) -> str:
    where = outcome["machine"]
    lines = [
        f"Measured {outcome['date']} on {where['cores']} cores of {where['cpu']}, {where['memory_gib']} GiB, "
        f"{where['system']}, Python {where['python']}; load before the start {where['load']}; "
        f"best of {outcome['repeat']} after a warm-up, passes: {outcome.get('passes', 1)}.",
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
