"""AMSFL with a rule over its uploads, under the attack that once ended it."""

import numpy as np
import pytest

import amsfl

COMMON = {
    "method": "amsfl",
    "data": "digits",
    "clients": 10,
    "partition": "dirichlet:0.5",
    "profile": "wild",
    "robust": "cap:0.1,clip,voices,trust:2",
    "rounds": 25,
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [200, 201])
def test_a_little_is_not_enough(seed):
    """Two of ten send the mean less 1.5 deviations. With first strides as long as Polyak's rule has them, all
    units of the network were off after two rounds: accuracy 0.10, for good."""
    ends = [amsfl.run(**COMMON, seed=seed, attack=attack) for attack in ("", "alie:2")]
    free, attacked = (
        np.mean([one.metrics["holdout"]["accuracy"] for one in end.rounds[-3:]]) for end in ends
    )
    assert free > 0.9 and attacked > free - 0.05
