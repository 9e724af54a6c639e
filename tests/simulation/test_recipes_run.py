"""Published recipes in whole runs: epochs, learning rates that decay, the best round."""

import numpy as np
import pytest
from federation_small import SMALL, own_data

import amsfl
from amsfl.core import UserError

PLAIN = {key: value for key, value in SMALL.items() if key != "steps"}


def test_clients_take_the_steps_of_their_epochs() -> None:
    """30 and 15 rows of two clients; 2 epochs by 4 rows are 15 and 7.5 minibatches."""
    data = own_data(45, sites=np.repeat([0, 1], [30, 15]), site_names=("a", "b"))
    run = amsfl.run(dataset=data, **PLAIN | {"epochs": 2, "batch": 4})
    assert run.rounds[0].steps == [15, 8]
    assert run.summary.steps == {"a": 60, "b": 32}


def test_learning_rates_decay_round_by_round() -> None:
    run = amsfl.run(dataset=own_data(), **SMALL | {"lr": 0.5, "lr_decay": 0.5})
    assert [each.lr for each in run.rounds] == [0.5, 0.25, 0.125, 0.0625]


def test_the_summary_has_the_best_round() -> None:
    run = amsfl.run(dataset=own_data(), **SMALL | {"lr": 30.0, "rounds": 8, "score": "accuracy"})
    scores = [each.metrics["holdout"]["accuracy"] for each in run.rounds]
    best = run.summary.best
    assert (best["round"], best["score"]) == (1 + int(np.argmax(scores)), max(scores))


def test_privacy_goes_with_steps_and_random_minibatches() -> None:
    with pytest.raises(UserError, match="privacy"):
        amsfl.run(dataset=own_data(), **PLAIN | {"epsilon": 5.0, "epochs": 1})
