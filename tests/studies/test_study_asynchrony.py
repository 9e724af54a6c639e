"""The asynchrony study: hindsight and speed-ups by hand."""

import asynchrony
import pytest
from asynchrony import AVAILABILITY, BASE, PROFILES, Settings


def row(name, profile, seconds, reached=True):
    return {
        "name": name,
        "profile": profile,
        "availability": "always",
        "lr": 0.1,
        "steps": 20,
        "seconds": seconds,
        "reached": reached,
    }


def test_hindsight_takes_the_pair_that_all_seeds_reach_soonest():
    """lr 0.1: 4 s on average. lr 0.3: 1 s, but one seed never reached it. lr 1: 5 s."""
    seconds = {0.1: ((3.0, True), (5.0, True)), 0.3: ((1.0, True), (1.0, False)), 1.0: ((5.0, True),) * 2}
    trials = [
        {k: v for k, v in row("", "wild", each, reached).items() if k != "name"} | {"lr": lr, "seed": seed}
        for lr, both in seconds.items()
        for seed, (each, reached) in enumerate(both)
    ]
    (best,) = asynchrony.tuned_with_hindsight([{"name": BASE, "trials": trials}])
    assert best == row(BASE, "wild", 4.0)


def test_speed_ups_are_geometric_means_over_profiles():
    """Twice as fast in all profiles but one, where it is 32 times: (2^4 32)^(1/5) = 3.48."""
    other = "AMSFL, all"
    rows = [row(BASE, profile, 64.0) for profile in PROFILES]
    rows += [row(other, p, 2.0 if p == "wan" else 32.0, p != "far") for p in PROFILES]
    text = asynchrony.table(rows, "always").markdown()
    assert f"| {other} | 32.0 | 32.0 | 32.0 | > 32.0 | 2.0 | about 3.48 |" in text
    assert asynchrony.table(rows, "chain:4,2").rows == []
    assert asynchrony.figure(rows).get_axes()


def test_every_contestant_is_tuned_alike():
    """Rates x steps for those that need them, in all settings; the same work for all."""
    settings = len(PROFILES) * len(AVAILABILITY)
    for unit in asynchrony.units(Settings(seeds=2)):
        rates = 1 if "AMSFL" in unit.name else len(asynchrony.RATES)
        assert len(unit.configs) == rates * settings * 2 and unit.labels["name"] in asynchrony.CONTESTANTS
        assert all(config.target == 0.95 and config.clock == "makespan" for config in unit.configs)
        assert all(config.rounds * config.steps <= asynchrony.WORK for config in unit.configs)


def test_every_upload_counts():
    """A buffer of two evaluates every round, one of one every second; four evaluations in ten uploads."""
    shared = {end: asynchrony._shared({"round_end": end}) for end in ("all", "buffer:1", "buffer:2")}
    assert [each["eval_every"] for each in shared.values()] == [1, 2, 1]
    assert shared["buffer:1"]["rounds"] == pytest.approx(10 * shared["all"]["rounds"], abs=10)
