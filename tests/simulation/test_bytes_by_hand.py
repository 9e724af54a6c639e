"""Bytes of whole runs, counted by hand from who took part: the record's and the summary's."""

from typing import Any

import pytest

import amsfl

DIM = 64 * 10 + 10  # digits, softmax: weights and biases
RUN: dict[str, Any] = {"data": "digits", "model": "softmax", "engine": "loop", "clients": 5, "steps": 2}
RUN |= {"rounds": 6, "details": "", "lr": 0.1}
READING = 6  # numbers that a client of AMSFL sends beside its upload


def vectors(name: str) -> tuple[int, int]:
    return {"fedavg": (1, 1), "scaffold": (2, 2)}[name]


UPLOADS = {  # bytes of one vector of 650 numbers
    "": 4 * DIM,
    "topk:0.1": 65 * (4 + 4),  # a number and its place
    "q8": DIM + 4,  # a byte each, and one scale for the one block of 1,024
    "topk:0.1,q8": 65 * (4 + 1) + 4,
}


@pytest.mark.parametrize("transmit", UPLOADS)
@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
def test_of_plain_methods(method: str, transmit: str) -> None:
    result = amsfl.run(method=method, transmit=transmit, cohort=3, seed=1, **RUN)
    down, up = vectors(method)
    for each in result.rounds:
        assert each.bytes_down == 3 * down * 4 * DIM
        assert each.bytes_up == 3 * up * UPLOADS[transmit]
    assert result.summary.bytes_up == 6 * 3 * up * UPLOADS[transmit]


@pytest.mark.parametrize("cohort", [5, 2])
def test_of_amsfl(cohort: int) -> None:
    """One vector down and one up, whoever was in the round before, and six numbers of a reading."""
    result = amsfl.run(method="amsfl", cohort=cohort, seed=1, **RUN)
    for each in result.rounds:
        assert each.bytes_down == 4 * DIM * cohort
        assert each.bytes_up == cohort * (4 * DIM + 4 * READING)
