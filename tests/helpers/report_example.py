"""Records made by hand, for the tests of reports: no training, every number known."""

from amsfl.record import RoundRecord, Summary
from amsfl.report.measure.read import FinishedTrial, ReportSource, Series

HOSTILE = [
    '"><img src=x onerror=hacked()>',
    "</script><script>hacked()</script>",
    "[/b] [red]Oslo [north]",
    r"$\frac$ $x_1^2$",
    "a|b & c_d *e* `f` ~g~ # %h {i} \\j",
    "two\nlines\tand \x00\x1b[31m \u202egnirts",
    "javascript:hacked()//--><svg/onload=hacked()>",
    "_hidden' onmouseover='hacked()",
]


def trial(
    scores, seed=0, seconds=None, clients=2, steps=None, status="finished", recall=(1.0, None), read=True
):
    """One evaluation a round (None: none); a round takes two seconds and 1.5 MB."""
    rounds = [
        RoundRecord(
            round=k + 1,
            seconds={"sum": (seconds or range(2, 9999, 2))[k], "makespan": 0.5 * (k + 1)},
            metrics={} if score is None else {"holdout": {"accuracy": score, "macro_f1": 0.0}},
            cohort=list(range(clients)),
            steps=steps[k] if steps else [5] * clients,
            lr=0.1,
            bytes_up=5e5,
            bytes_down=1e6,
            readings={"grad_sq": [4.0] * clients, "diff_sq": [1.0, 9.0] + [1.0] * (clients - 2)}
            if read
            else {},
        )
        for k, score in enumerate(scores)
    ]
    summary = Summary(
        method="fedavg",
        data="digits",
        synthetic=False,
        note="",
        seed=seed,
        status=status,
        rounds=len(rounds),
        accuracy=scores[-1],
        test_accuracy=None,
        metrics={"holdout": {"accuracy": scores[-1], "macro_f1": 0.0, "recall": list(recall)}},
        local_accuracy={"holdout": [0.25, 0.75] + [0.5] * (clients - 2)},
        clock="sum",
        virtual_seconds=rounds[-1].seconds["sum"],
        virtual_seconds_by_clock=rounds[-1].seconds,
        target=None,
        seconds_to_target=None,
        rounds_to_target=None,
        steps={str(who): 5 * len(rounds) for who in range(clients)},
        bytes_up=sum(r.bytes_up for r in rounds),
        bytes_down=sum(r.bytes_down for r in rounds),
    )
    return FinishedTrial(seed, seed, summary, rounds)


def series(key, trials, **settings):
    base = {"clock": "sum", "seconds": 100, "clients": 2, "partition": "iid", "profile": "mild"}
    return Series(key, key, key, base | settings, trials, "")


def source(*entries, folder="study", title="A study", data=None, clients=None, **settings):
    about = {
        "name": "digits",
        "synthetic": False,
        "note": "",
        "classes": ["one", "two"],
        "eval_rows": {"holdout": 900},
    }
    whole = {
        "data": about | (data or {}),
        "clients": clients or {},
        "run": {"partition": "iid"},
        "methods": {},
    }
    planned = max(len(entry.trials) for entry in entries)
    return ReportSource(folder, title, "compare", planned, entries[0].key, whole | settings, list(entries))
