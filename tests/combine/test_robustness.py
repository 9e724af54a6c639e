"""A record of a run with a robust rule says whom the rule weighed down."""

import numpy as np
import pytest
from federation_small import SMALL, own_data
from hypothesis import given
from hypothesis import strategies as st

import amsfl
from amsfl.planning.readings import plausible_steps
from amsfl.report.comparison import compare
from amsfl.report.read import read
from amsfl.report.tables import clients


def test_a_record_says_whom_a_rule_weighed_down_and_the_report_too(tmp_path):
    """Two of six turn their uploads round, tenfold, and are never in the middle; a table says so."""
    out = tmp_path / "run"
    common = SMALL | {"rounds": 3, "clients": 6, "robust": "cap:0.3,median"}
    result = amsfl.run(**common, dataset=own_data(), attack="signflip:2/10", out=out)
    attackers = set(np.flatnonzero(result.parts.attackers.who[0]))
    for record in result.rounds:
        assert [*record.weighed] == ["claimed", "cap:0.3", "median"]
        assert {who for who in range(6) if record.weighed["median"][who] < 1e-6} >= attackers
    counted = clients(compare(read([out]))).frame["counted"]
    assert set(counted.index[counted < 1e-6]) >= attackers


@pytest.mark.parametrize("engine", ["loop", "jax"])
def test_links_are_on_record_in_the_order_of_the_chain(engine):
    """What a client counted is what the last link left it; jax sorts names."""
    settings = SMALL | {"rounds": 1, "engine": engine, "robust": "median,cap:0.5"}
    (record,) = amsfl.run(**settings, dataset=own_data()).rounds
    assert [*record.weighed] == ["claimed", "median", "cap:0.5"]


@given(st.lists(st.integers(1, 1000), min_size=5, max_size=40), st.integers(1, 5))
def test_no_fifth_has_more_than_half_as_many_steps_again(steps, count):
    """Whatever a plan came to, by whatever lies: any k of n clients have at most 1.5 k/n of all steps, and
    nobody is left without a step."""
    believed = plausible_steps(np.array(steps))
    assert np.sort(believed)[-count:].sum() <= 1.5 * count / len(steps) * believed.sum() + 1e-9
    assert (believed >= 1).all() and (believed <= steps).all()


def test_colluders_win_no_more_than_their_share():
    """Rows times 50, seconds over 50, false readings, uploads turned round: two of ten, with the chain."""
    run = amsfl.run(
        data="digits",
        model="softmax",
        clients=10,
        rounds=4,
        attack="colluders:2",
        engine="loop",
        batch=16,
        robust="cap:0.1,clip,voices,trust:2",
        partition="iid",
        progress=False,
    )
    steps = np.sort(list(run.summary.steps.values()))
    assert steps[-2:].sum() <= 0.32 * steps.sum()
