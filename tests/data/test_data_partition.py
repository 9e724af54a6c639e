"""Every scheme: all rows, each once, no client empty, by seed; and what makes each scheme itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amsfl.core import UserError
from amsfl.data import partition
from amsfl.data.partition import ENOUGH

alphas = st.floats(1e-4, 1e4).map(lambda a: f"{a:.6f}".rstrip("0") + "0")
specs = st.one_of(
    st.just("iid"),
    alphas.map(lambda a: f"dirichlet:{a}"),
    alphas.map(lambda a: f"quantity:{a}"),
    st.integers(1, 4).map(lambda k: f"shards:{k}"),
)


def class_counts(parts: list[np.ndarray], y: np.ndarray, classes: int) -> np.ndarray:
    return np.stack([np.bincount(y[rows], minlength=classes) for rows in parts])


@given(specs, st.integers(1, 40), st.integers(0, 200), st.integers(1, 8), st.integers(0, 2**32), st.data())
def test_every_row_once_and_nobody_empty(
    spec: str, clients: int, more: int, classes: int, seed: int, data: st.DataObject
) -> None:
    rows = 4 * clients + more
    y = np.random.default_rng(more).integers(0, classes, rows)
    shares = data.draw(
        st.none() | st.lists(st.floats(0.01, 1), min_size=clients, max_size=clients), label="shares"
    )
    parts = partition(spec, y, clients, seed, shares=shares)
    assert len(parts) == clients
    assert (np.sort(np.concatenate(parts)) == np.arange(rows)).all()
    assert min(len(p) for p in parts) >= ENOUGH
    assert all((np.diff(p) > 0).all() for p in parts)
    again = partition(spec, y, clients, seed, shares=shares)
    assert all((a == b).all() for a, b in zip(parts, again, strict=True))


@pytest.mark.parametrize("spec", ["iid", "dirichlet:0.1", "shards:1", "quantity:0.1"])
def test_as_many_clients_as_rows(spec: str) -> None:
    assert [len(p) for p in partition(spec, np.arange(30) % 3, 30, 0)] == [1] * 30


@pytest.mark.parametrize("spec", ["iid", "dirichlet:0.5", "shards:2", "quantity:1"])
def test_seeds_differ(spec: str) -> None:
    y = np.arange(300) % 3
    one, two = partition(spec, y, 5, 0), partition(spec, y, 5, 1)
    assert any(len(a) != len(b) or (a != b).any() for a, b in zip(one, two, strict=True))


def test_iid_sizes_are_equal_or_the_shares() -> None:
    y = np.arange(1003) % 5
    assert {len(p) for p in partition("iid", y, 5, 0)} <= {200, 201}
    sizes = [len(p) for p in partition("iid", y, 3, 0, shares=[1, 1, 2])]
    assert np.abs(np.array(sizes) - 1003 * np.array([0.25, 0.25, 0.5])).max() <= 1


def test_shards_give_a_client_few_labels() -> None:
    """Ten classes of 100 rows, 10 clients with two shards of 50: a shard never crosses a class."""
    y = np.repeat(np.arange(10), 100)
    parts = partition("shards:2", y, 10, 0)
    assert all(len(p) == 100 and len(set(y[p])) <= 2 for p in parts)


def test_dirichlet_has_the_moments_of_its_distribution() -> None:
    """A client's part of one class is Beta(A s, A (1-s)), A = alpha x clients: mean s, var s(1-s)/(A+1).

    One class of 2,000 rows, 400 seeds; the mean of 400 draws is within 4 standard errors.
    """
    alpha, share = 0.5, np.array([0.1, 0.1, 0.5, 0.2, 0.1])
    y = np.zeros(2000, int)
    drawn = [
        [len(p) / 2000 for p in partition(f"dirichlet:{alpha}", y, 5, s, shares=share)] for s in range(400)
    ]
    variance = share * (1 - share) / (alpha * 5 + 1)
    assert (np.abs(np.mean(drawn, axis=0) - share) < 4 * np.sqrt(variance / 400) + 0.002).all()
    np.testing.assert_allclose(np.var(drawn, axis=0), variance, rtol=0.3)


def test_smaller_alpha_is_more_skew_and_quantity_keeps_labels_even() -> None:
    y = np.arange(10_000) % 5

    def skew(spec: str) -> float:
        counts = class_counts(partition(spec, y, 5, 3), y, 5) + 1e-9
        mix = counts / counts.sum(axis=1, keepdims=True)
        return float(np.abs(mix - 0.2)[counts.sum(axis=1) > 100].max())

    assert skew("dirichlet:0.1") > skew("dirichlet:1") > skew("dirichlet:100")
    assert skew("quantity:0.3") < 0.15 > skew("iid")
    sizes = [len(p) for p in partition("quantity:0.3", y, 5, 3)]
    assert max(sizes) > 3 * min(sizes)


def test_repair_takes_from_the_largest() -> None:
    """One class and a tiny alpha: one client draws all 100 rows and gives the nine others two each."""
    sizes = sorted(len(p) for p in partition("dirichlet:0.0001", np.zeros(100, int), 10, 0))
    assert sizes == [2] * 9 + [82]


def test_many_clients() -> None:
    parts = partition("dirichlet:0.1", np.arange(60_000) % 10, 20_000, 0)
    assert len(parts) == 20_000 and min(map(len, parts)) >= 2 and sum(map(len, parts)) == 60_000


def test_column_is_the_partition() -> None:
    sites = np.array([2, 0, 1, 0, 2, 2])
    parts = partition("column", np.zeros(6, int), 3, 0, sites=sites)
    assert [p.tolist() for p in parts] == [[1, 3], [2], [0, 4, 5]]
    assert [p.tolist() for p in partition("site", np.zeros(6, int), 3, 5, sites=sites)] == [
        p.tolist() for p in parts
    ]
    with pytest.raises(UserError, match="names 3 sites but there are 5 clients; use 3"):
        partition("column", np.zeros(6, int), 5, 0, sites=sites)
    with pytest.raises(UserError, match="Client 'north' has no training rows"):
        partition("column", np.zeros(2, int), 2, 0, sites=np.array([1, 1]), site_names=("north", "south"))
    with pytest.raises(UserError, match="needs a client column"):
        partition("column", np.zeros(6, int), 3, 0)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("dirichelt:0.5", "did you mean 'dirichlet'"),
        ("dirichlet", "it has none; try 'dirichlet:0.5'"),
        ("dirichlet:0", "concentration from 0.0001 to 1e.06 after the colon, got '0'"),
        ("dirichlet:-1", "got '-1'"),
        ("quantity:nan", "got 'nan'"),
        ("quantity:inf", "got 'inf'"),
        ("shards:1.5", "whole number of shards"),
        ("shards:x", "got 'x'; try 'shards:2'"),
        ("shards:99", "use fewer shards"),
        ("iid:3", "takes no number"),
    ],
)
def test_bad_specs(spec: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        partition(spec, np.arange(20) % 2, 4, 0)


def test_bad_numbers() -> None:
    y = np.arange(20) % 2
    with pytest.raises(UserError, match="21 clients cannot share 20 training rows"):
        partition("iid", y, 21, 0)
    with pytest.raises(UserError, match="at least one client"):
        partition("iid", y, 0, 0)
    with pytest.raises(UserError, match="2 clients but 3 shares"):
        partition("iid", y, 2, 0, shares=[1, 1, 1])
    with pytest.raises(UserError, match="above 0"):
        partition("iid", y, 2, 0, shares=[1, 0])
    with pytest.raises(UserError, match="seed"):
        partition("iid", y, 2, -1)


@given(st.integers(1, 25), st.integers(1, 8), st.integers(1, 8), st.integers(0, 2**32))
def test_labels_gives_everybody_so_many_classes_and_shares_them_evenly(
    clients: int, count: int, classes: int, seed: int
) -> None:
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(classes), 40 * clients))
    if count > classes or count * clients < classes:
        with pytest.raises(UserError, match="labels:K"):
            partition(f"labels:{count}", y, clients, seed)
        return
    parts = partition(f"labels:{count}", y, clients, seed)
    held = class_counts(parts, y, classes)
    assert (np.sort(np.concatenate(parts)) == np.arange(len(y))).all()
    assert ((held > 0).sum(1) == count).all()
    for own in held.T:  # even, to a row
        assert np.ptp(own[own > 0]) <= 1
