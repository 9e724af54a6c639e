"""Records made by hand, for the tests of reports: no training, every number known."""

from amsfl.record import Manifest, RoundRecord, StudyRecord, Summary, TrialRecord

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


def trial(scores, seed=0, clients=2, steps=None, status="finished", recall=(1.0, None)):
    """One evaluation a round (None: none); a round takes two seconds and 1.5 MB."""
    rounds = [
        RoundRecord(
            round=k + 1,
            seconds={"sum": 2.0 * (k + 1), "makespan": 0.5 * (k + 1)},
            metrics={} if score is None else {"holdout": {"accuracy": score, "macro_f1": 0.0}},
            cohort=list(range(clients)),
            steps=steps[k] if steps else [5] * clients,
            lr=0.1,
            bytes_up=5e5,
            bytes_down=1e6,
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
    return TrialRecord("", seed, summary, rounds)


def entry(key, scores, seeds=5, **settings):
    """A method's trials, which differ a little from seed to seed, by no rule that methods share."""
    wobble = [0.0, 0.001, 0.003, 0.002, 0.004]
    return key, settings, [trial([s - wobble[seed % 5] for s in scores], seed) for seed in range(seeds)]


def source(*entries, folder="study", data=None, clients=None, run=None, notes=None, **study):
    """A study's folder; an entry is (name, settings, trials)."""
    about = {"name": "digits", "synthetic": False, "note": "", "classes": ["one", "two"]}
    settings = {
        "title": "A study",
        "kind": "compare",
        "trials": max(len(trials) for _, _, trials in entries),
        "reference": entries[0][0],
        "data": about | {"eval_rows": {"holdout": 900}} | (data or {}),
        "clients": clients or {},
        "run": {"seconds": 100, "clients": 2, "partition": "iid", "profile": "mild"} | (run or {}),
        "methods": {key: own for key, own, _ in entries},
    }
    facts = {key: {"name": key, "title": key, "note": (notes or {}).get(key, "")} for key, _, _ in entries}
    manifest = Manifest(kind="study", settings=settings | study, methods=facts)
    return StudyRecord(manifest, {key: trials for key, _, trials in entries}, folder)
