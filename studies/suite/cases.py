"""The suite's cases: one line a case. Which data sets the default was chosen on is in split.json.

Sets, not cases, were dealt to two halves, by a fixed seed and before any search: AMSFL's default was chosen
on one half, and the other was not run while choosing, until the tenth search. FRESH are further cases, of
sets that are in neither half: written down before the fifth search and run once, after it. FRESH2 are those
of the sixth. FRESH3 and FRESH4, in which a part of the clients is there in a round, are those of the tenth;
once FRESH3 was run, it had a part in choosing. FRESH5 and FRESH6, with all clients in every round, are those
of the eleventh and the twelfth; FRESH7, with a part of the clients in a round, those of the fourteenth;
FRESH8, with all of them again, those of the seventeenth.
FEW_LABELS are sets of both halves, with two or three labels a client; MNIST_LABELS images, from one label a
client to all of them.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import UserError, nearest

NEAR = "lognormal:0.02,1.0"
ROWS = 10_000  # of the training pool, at most
HALVES = ("choosing", "held_out")


class Case(NamedTuple):
    """A row of the suite.

    `labels` says what is done to the labels of the training pool; the hold-out stays true. `random:P`: that
    share is drawn anew; `pair:P`: that share is moved to the next class; `client`: all of the largest
    client's are moved.
    """

    name: str
    data: str  # one of the sets of sources.py
    model: str
    clients: int
    partition: str
    profiles: tuple[str, str]  # one with fast networks, one with slow ones
    cohort: int | None = None  # clients of a round; None: all
    batch: int = 32
    labels: str = ""
    scale: float = 1.0  # features are multiplied by this
    rows: int = ROWS

    @property
    def scheme(self) -> str:
        """How a run deals the rows: those with a wrong client are dealt already, and come with sites."""
        return "column" if self.labels == "client" else self.partition


# fmt: off
CASES = (
    Case("rats", "rats", "mlp", 24, "column", (NEAR, "far")),
    Case("rats-pair", "rats", "mlp", 24, "column", (NEAR, "wan"), labels="pair:0.25"),
    Case("loans", "loans", "mlp", 13, "column", (NEAR, "far")),
    Case("churn", "churn", "mlp", 12, "dirichlet:0.5", ("wild", "wan")),
    Case("leaves", "leaves", "mlp", 8, "dirichlet:0.3", ("mild", "far")),
    Case("leaves-noise", "leaves", "softmax", 8, "dirichlet:0.5", ("wild", "wan"), labels="random:0.2"),
    Case("cells", "cells", "mlp", 10, "dirichlet:0.5", ("mild", "far")),
    Case("stops", "stops", "mlp", 5, "column", ("wild", "far"), batch=64),
    Case("diamonds", "diamonds", "mlp", 10, "dirichlet:0.5", ("mild", "far"), batch=64),
    Case("flights", "flights", "mlp", 14, "column", (NEAR, "wan"), batch=64),
    Case("letter", "letter", "mlp", 20, "dirichlet:0.3", (NEAR, "far")),
    Case("letter-noise", "letter", "mlp", 20, "dirichlet:0.5", ("mild", "wan"), labels="random:0.3"),
    Case("penbased", "penbased", "mlp", 100, "shards:2", (NEAR, "far"), cohort=20),
    Case("penbased-few", "penbased", "mlp:32", 40, "dirichlet:0.5", (NEAR, "wan"), rows=800, batch=10),
    Case("satimage", "satimage", "mlp", 10, "shards:2", ("mild", "far")),
    Case("satimage-x0.01", "satimage", "mlp", 10, "dirichlet:0.3", ("wild", "wan"), scale=0.01),
    Case("magic", "magic", "mlp", 30, "dirichlet:0.3", (NEAR, "far"), cohort=10),
    Case("texture", "texture", "mlp:32", 12, "shards:2", ("mild", "wan")),
    Case("texture-bad", "texture", "mlp", 10, "dirichlet:0.5", ("wild", "far"), labels="client"),
    Case("spambase", "spambase", "mlp", 10, "dirichlet:0.3", ("wild", "wan")),
    Case("spambase-x1000", "spambase", "softmax", 10, "dirichlet:0.5", ("mild", "far"), scale=1e3),
    Case("adult", "adult", "mlp", 14, "column", (NEAR, "far"), batch=64),
    Case("segments", "segments", "mlp", 6, "dirichlet:0.3", ("mild", "far")),
    Case("segments-x0.01", "segments", "mlp", 6, "dirichlet:0.5", ("wild", "wan"), scale=0.01),
    Case("banana", "banana", "mlp", 20, "dirichlet:0.5", ("mild", "wan")),
    Case("phishing-x1000", "phishing", "mlp:32", 30, "dirichlet:0.5", (NEAR, "wan"), 10, 10, scale=1e3),
    Case("mnist-cnn", "mnist", "cnn:8", 20, "shards:2", (NEAR, "far"), cohort=10),
    Case("mnist-noise", "mnist", "mlp", 10, "dirichlet:0.3", (NEAR, "far"), labels="random:0.4"),
    Case("digits", "digits", "mlp", 10, "dirichlet:0.3", ("mild", "far")),
    Case("digits-noise", "digits", "mlp", 10, "dirichlet:0.5", ("wild", "wan"), labels="random:0.2"),
    Case("synthetic00", "synthetic00", "softmax", 30, "column", (NEAR, "wan"), cohort=10, batch=10),
    Case("synthetic05", "synthetic05", "softmax", 30, "column", (NEAR, "far"), batch=10),
    Case("synthetic11", "synthetic11", "softmax", 30, "column", (NEAR, "wan"), cohort=10, batch=10),
    Case("fcube", "fcube", "mlp:32", 4, "column", ("mild", "far")),
    Case("nslkdd", "nslkdd", "mlp", 5, "dirichlet:0.1", ("mild", "far"), batch=64),
    Case("nslkdd-50", "nslkdd", "mlp", 50, "dirichlet:0.3", (NEAR, "wan"), cohort=10),
    Case("fashion-cnn", "fashion", "cnn:8", 10, "dirichlet:0.3", ("mild", "far")),
    Case("fashion", "fashion", "mlp", 50, "shards:2", (NEAR, "wan"), cohort=10),
    Case("storms", "storms", "mlp", 12, "column", ("wild", "far")),
    Case("storms-noise", "storms", "mlp", 12, "dirichlet:0.5", ("mild", "wan"), labels="pair:0.25"),
    Case("hpc", "hpc", "mlp", 14, "column", (NEAR, "far")),
    Case("credit", "credit", "mlp", 10, "dirichlet:0.5", ("mild", "wan"), labels="random:0.2"),
    Case("foods", "foods", "transformer:32-1-512", 10, "dirichlet:0.5", ("mild", "far")),
    Case("tate", "tate", "transformer:32-1-512", 12, "column", (NEAR, "wan")),
)
FRESH = (
    Case("vowel", "vowel", "mlp:32", 8, "dirichlet:0.3", ("mild", "far")),
    Case("vowel-noise", "vowel", "mlp:32", 8, "dirichlet:0.5", ("wild", "wan"), labels="random:0.2"),
    Case("phoneme", "phoneme", "mlp:32", 20, "dirichlet:0.3", (NEAR, "far"), cohort=8),
    Case("ring-noise", "ring", "mlp", 10, "dirichlet:0.5", ("mild", "wan"), labels="random:0.4"),
    Case("marketing", "marketing", "mlp", 9, "dirichlet:0.5", ("wild", "far")),
    Case("vehicle-pair", "vehicle", "mlp", 5, "dirichlet:1", ("mild", "far"), labels="pair:0.25"),
    Case("german", "german", "mlp", 10, "dirichlet:0.5", (NEAR, "wan")),
    Case("wine-few", "wine", "mlp:16", 6, "dirichlet:0.5", ("mild", "far"), batch=8),
    Case("splice-noise", "splice", "mlp:32", 10, "dirichlet:0.3", (NEAR, "far"), labels="random:0.4"),
    Case("remote", "remote", "mlp", 5, "column", ("wild", "far")),
    Case("staff", "staff", "mlp:32", 5, "column", ("mild", "wan")),
    Case("penguins", "penguins", "softmax", 5, "column", (NEAR, "far"), batch=16),
    Case("overlap-x1000", "overlap", "mlp:32", 30, "shards:2", (NEAR, "wan"), cohort=10, scale=1e3),
    Case("bars-cnn", "bars", "cnn:4", 20, "shards:2", (NEAR, "far"), cohort=10),
    Case("bars-noise", "bars", "mlp", 10, "dirichlet:0.3", ("mild", "far"), labels="random:0.4"),
)
FRESH2 = (
    Case("optdigits-noise", "optdigits", "mlp", 10, "dirichlet:0.3", (NEAR, "far"), labels="random:0.4"),
    Case("optdigits-shards", "optdigits", "mlp:32", 20, "shards:2", (NEAR, "far"), cohort=10),
    Case("twonorm-noise", "twonorm", "mlp:32", 10, "dirichlet:0.5", ("mild", "wan"), labels="random:0.4"),
    Case("chess-pair", "chess", "mlp", 8, "dirichlet:0.5", ("wild", "far"), labels="pair:0.25"),
    Case("contraceptive", "contraceptive", "mlp", 10, "dirichlet:0.5", ("mild", "wan")),
    Case("libras-few", "movement_libras", "mlp:32", 6, "dirichlet:1", ("mild", "far"), batch=8),
    Case("pima-few", "pima", "mlp", 8, "dirichlet:0.5", (NEAR, "wan")),
    Case("led7", "led7digit", "mlp:32", 5, "dirichlet:0.5", ("wild", "far")),
    Case("shapes-cnn", "shapes", "cnn:4", 20, "shards:2", (NEAR, "far"), cohort=10),
    Case("shapes-noise", "shapes", "mlp", 10, "dirichlet:0.3", ("mild", "wan"), labels="random:0.3"),
    Case("arms", "arms", "mlp:32", 20, "dirichlet:0.3", (NEAR, "wan"), cohort=8),
    Case("telephone", "telephone", "mlp", 12, "dirichlet:0.5", ("wild", "far")),
)
FRESH3 = (
    Case("months", "months", "mlp:32", 30, "shards:2", (NEAR, "far"), cohort=10),
    Case("months-spread", "months", "mlp", 50, "dirichlet:0.5", ("mild", "wan"), cohort=10),
    Case("pitches", "pitches", "mlp:32", 20, "shards:2", (NEAR, "wan"), cohort=6),
    Case("flight", "flight", "mlp", 40, "dirichlet:0.3", ("wild", "far"), cohort=10),
    Case("proteins", "proteins", "mlp", 20, "dirichlet:0.5", (NEAR, "far"), cohort=8),
    Case("wages", "wages", "mlp:32", 15, "dirichlet:0.5", ("mild", "wan"), cohort=5),
    Case("taxis", "taxis", "mlp", 7, "column", ("wild", "far"), cohort=4),
    Case("words", "words", "mlp:32", 30, "dirichlet:0.3", (NEAR, "wan"), cohort=6),
    Case("waves-cnn", "waves", "cnn:4", 20, "shards:2", (NEAR, "far"), cohort=10),
    Case("waves-noise", "waves", "mlp", 20, "dirichlet:0.3", ("mild", "wan"), cohort=5, labels="random:0.3"),
    Case("heaps", "heaps", "mlp:32", 60, "shards:2", (NEAR, "far"), cohort=12),
    Case("heaps-noise", "heaps", "mlp", 30, "shards:3", ("mild", "wan"), cohort=10, labels="random:0.3"),
)
FRESH4 = (
    Case("crashes", "crashes", "mlp", 30, "dirichlet:0.3", (NEAR, "far"), cohort=10),
    Case("pupils", "pupils", "mlp:32", 40, "dirichlet:0.5", ("mild", "wan"), cohort=8),
    Case("chemistry", "chemistry", "mlp:32", 36, "column", (NEAR, "wan"), cohort=10),
    Case("guests", "guests", "mlp", 20, "shards:2", ("wild", "far"), cohort=8),
    Case("guests-noise", "guests", "mlp", 24, "dirichlet:0.5", (NEAR, "wan"), cohort=6, labels="random:0.3"),
    Case("patches-cnn", "patches", "cnn:4", 20, "shards:2", (NEAR, "far"), cohort=10),
    Case("patches-noise", "patches", "mlp", 20, "dirichlet:0.3", ("mild", "wan"), 5, labels="random:0.3"),
    Case("shells", "shells", "mlp:32", 50, "shards:2", (NEAR, "far"), cohort=10),
    Case("shells-pair", "shells", "mlp", 16, "dirichlet:0.5", ("mild", "wan"), cohort=8, labels="pair:0.25"),
)
FRESH5 = (
    Case("mushroom", "mushroom", "mlp:32", 10, "dirichlet:0.3", ("mild", "far")),
    Case("mushroom-noise", "mushroom", "mlp", 12, "dirichlet:0.5", (NEAR, "wan"), labels="random:0.4"),
    Case("crx", "crx", "mlp:32", 6, "dirichlet:0.5", ("wild", "far")),
    Case("mammographic-few", "mammographic", "mlp:32", 8, "dirichlet:1", (NEAR, "far"), batch=10),
    Case("ionosphere-noise", "ionosphere", "mlp:32", 5, "dirichlet:1", ("mild", "wan"), labels="random:0.2"),
    Case("votes", "votes", "mlp", 5, "column", ("wild", "far")),
    Case("values", "values", "mlp:32", 4, "column", ("mild", "wan")),
    Case("parties-pair", "parties", "mlp", 8, "dirichlet:0.5", (NEAR, "far"), labels="pair:0.25"),
    Case("insured", "insured", "mlp", 4, "column", (NEAR, "wan"), batch=64),
    Case("livers", "livers", "mlp", 10, "dirichlet:0.5", ("wild", "wan")),
    Case("checks", "checks", "mlp", 12, "shards:2", ("mild", "far")),
    Case("checks-noise", "checks", "mlp", 10, "dirichlet:0.5", (NEAR, "wan"), labels="random:0.3"),
    Case("strokes-cnn", "strokes", "cnn:4", 10, "shards:3", ("mild", "far")),
)
FRESH6 = (
    Case("australian", "australian", "mlp:32", 6, "dirichlet:0.5", ("mild", "far")),
    Case("wisconsin-noise", "wisconsin", "mlp", 5, "dirichlet:1", (NEAR, "wan"), labels="random:0.3"),
    Case("tic-tac-toe", "tic-tac-toe", "mlp:32", 8, "dirichlet:0.5", ("wild", "far")),
    Case("saheart-few", "saheart", "mlp", 6, "dirichlet:1", (NEAR, "wan"), batch=8),
    Case("continents", "continents", "mlp:32", 10, "dirichlet:0.3", ("mild", "far")),
    Case("continents-noise", "continents", "mlp", 8, "dirichlet:0.5", (NEAR, "wan"), labels="random:0.4"),
    Case("yogurt", "yogurt", "mlp", 10, "dirichlet:0.5", ("wild", "wan")),
    Case("relapses", "relapses", "mlp:32", 8, "dirichlet:0.5", ("mild", "wan")),
    Case("traits-pair", "traits", "mlp:32", 8, "dirichlet:1", (NEAR, "far"), labels="pair:0.25"),
    Case("hawks-noise", "hawks", "mlp:16", 5, "dirichlet:0.5", ("mild", "far"), labels="random:0.2"),
    Case("corners", "corners", "mlp", 12, "shards:2", ("wild", "far")),
    Case("corners-noise", "corners", "mlp:32", 10, "dirichlet:0.5", (NEAR, "wan"), labels="random:0.3"),
)
FRESH7 = (
    Case("knots-cnn", "knots", "cnn:4", 20, "shards:2", (NEAR, "far"), cohort=10),
    Case("knots-noise", "knots", "mlp", 20, "dirichlet:0.3", ("mild", "wan"), cohort=5, labels="random:0.3"),
    Case("signs-cnn", "signs", "cnn:4", 40, "shards:2", (NEAR, "wan"), cohort=10),
    Case("petals", "petals", "mlp:32", 40, "shards:2", (NEAR, "far"), cohort=8),
    Case("petals-pair", "petals", "mlp", 16, "dirichlet:0.5", ("mild", "wan"), cohort=6, labels="pair:0.25"),
    Case("films", "films", "mlp", 30, "dirichlet:0.3", (NEAR, "far"), cohort=10),
    Case("jobs", "jobs", "mlp", 20, "shards:2", ("wild", "far"), cohort=8),
    Case("jobs-noise", "jobs", "mlp:32", 24, "dirichlet:0.5", (NEAR, "wan"), cohort=6, labels="random:0.3"),
    Case("tuna", "tuna", "mlp", 40, "dirichlet:0.3", ("mild", "far"), cohort=10),
    Case("branches", "branches", "mlp:32", 30, "shards:2", (NEAR, "wan"), cohort=10),
    Case("schooling", "schooling", "mlp", 20, "dirichlet:0.5", ("wild", "far"), cohort=6),
    Case("cars", "cars", "mlp:32", 15, "dirichlet:0.5", (NEAR, "wan"), cohort=5),
)
FRESH8 = (
    Case("wdbc-noise", "wdbc", "softmax", 5, "dirichlet:1", (NEAR, "wan"), labels="random:0.3"),
    Case("bands-few", "bands", "mlp:32", 6, "dirichlet:1", ("wild", "far"), batch=8),
    Case("monk-pair", "monk-2", "mlp:32", 6, "dirichlet:0.5", ("mild", "wan"), labels="pair:0.25"),
    Case("cities", "cities", "mlp:32", 10, "shards:2", ("mild", "far")),
    Case("cities-noise", "cities", "mlp", 12, "dirichlet:0.3", (NEAR, "wan"), labels="random:0.4"),
    Case("diseases", "diseases", "mlp", 20, "dirichlet:0.3", (NEAR, "far")),
    Case("diseases-pair", "diseases", "mlp:32", 15, "dirichlet:0.5", ("wild", "wan"), labels="pair:0.25"),
    Case("quarters", "quarters", "mlp", 8, "dirichlet:0.5", ("wild", "far")),
    Case("quarters-noise", "quarters", "softmax", 16, "shards:3", ("mild", "far"), labels="random:0.3"),
    Case("crackers", "crackers", "mlp", 14, "dirichlet:0.5", (NEAR, "wan")),
    Case("olives-noise", "olives", "mlp:32", 5, "dirichlet:0.5", ("mild", "far"), labels="random:0.2"),
    Case("anglers", "anglers", "softmax", 10, "shards:2", ("wild", "wan")),
)
NEW = (
    Case("states", "states", "mlp:32", 51, "column", (NEAR, "far"), cohort=12),
    Case("joy", "joy", "mlp", 9, "column", ("wild", "far"), batch=64),
    Case("injuries-pair", "injuries", "mlp", 10, "dirichlet:0.5", (NEAR, "wan"), labels="pair:0.25"),
    Case("mothers-noise", "mothers", "mlp:32", 20, "dirichlet:0.3", (NEAR, "far"), 8, labels="random:0.3"),
    Case("sums-few", "sums", "mlp:32", 8, "dirichlet:1", ("mild", "far"), batch=8),
    Case("routes", "routes", "mlp", 4, "column", ("mild", "wan")),
    Case("colleges", "colleges", "mlp", 15, "dirichlet:0.5", ("wild", "wan"), cohort=5),
    Case("maths", "maths", "softmax", 10, "shards:2", (NEAR, "far")),
    Case("lawmakers", "lawmakers", "mlp", 10, "dirichlet:0.5", ("mild", "far")),
    Case("meals", "meals", "mlp:32", 15, "column", (NEAR, "wan"), cohort=5),
    Case("meters", "meters", "mlp:32", 8, "shards:2", ("wild", "far"), batch=16),
    Case("clocks-cnn", "clocks", "cnn:4", 30, "shards:2", (NEAR, "far"), cohort=10),
    Case("clocks-noise", "clocks", "mlp", 20, "dirichlet:0.3", ("mild", "wan"), labels="random:0.3"),
    Case("polygons-cnn", "polygons", "cnn:8", 24, "column", (NEAR, "far"), cohort=6),
    Case("polygons", "polygons", "mlp", 24, "column", (NEAR, "wan")),
)
FEW_LABELS = (
    Case("digits-labels2", "digits", "mlp:32", 10, "labels:2", (NEAR, "far")),
    Case("digits-labels3", "digits", "mlp:32", 10, "labels:3", (NEAR, "far")),
    Case("penbased-labels2", "penbased", "mlp:32", 10, "labels:2", (NEAR, "far")),
    Case("penbased-labels3", "penbased", "mlp:32", 10, "labels:3", (NEAR, "far")),
    Case("satimage-labels2", "satimage", "mlp:32", 10, "labels:2", (NEAR, "far")),
    Case("satimage-labels3", "satimage", "mlp:32", 10, "labels:3", (NEAR, "far")),
    Case("texture-labels2", "texture", "mlp:32", 10, "labels:2", (NEAR, "far")),
    Case("texture-labels3", "texture", "mlp:32", 10, "labels:3", (NEAR, "far")),
    Case("letter-labels3", "letter", "mlp:32", 10, "labels:3", (NEAR, "far")),
)
MNIST_LABELS = tuple(
    Case(f"mnist-{scheme.replace(':', '')}", "mnist", "cnn:8", 10, scheme, (NEAR, "far"))
    for scheme in ("labels:1", "labels:2", "labels:3", "dirichlet:0.5", "iid")
)
# fmt: on
KNOWN = (
    *("rats", "letter-noise", "penbased", "penbased-few", "magic", "texture", "spambase", "digits"),
    *("digits-noise", "mnist-cnn", "mnist-noise", "synthetic11", "hpc", "storms-noise", "knots-cnn"),
    *("knots-noise", "signs-cnn", "schooling", "tic-tac-toe", "continents-noise", "diseases-pair", "cars"),
    *("jobs-noise", "wdbc-noise"),
)
AFTERWARDS = {"fresh": FRESH, "fresh2": FRESH2, "fresh3": FRESH3, "fresh4": FRESH4, "fresh5": FRESH5}
AFTERWARDS |= {"fresh6": FRESH6, "fresh7": FRESH7, "fresh8": FRESH8, "new": NEW}
BESIDE = AFTERWARDS | {"few-labels": FEW_LABELS, "mnist-labels": MNIST_LABELS}  # all that is in neither half
BY_NAME = {case.name: case for some in (CASES, *BESIDE.values()) for case in some}


BESIDE["known"] = tuple(BY_NAME[name] for name in KNOWN)


def split_sets(seed: int) -> dict[str, Any]:
    """What split.json holds: every second set of a random order is held out, and its cases with it."""
    sets = sorted({case.data for case in CASES})
    order = np.random.default_rng(seed).permutation(sets).tolist()
    halves = {half: sorted(order[place::2]) for place, half in enumerate(HALVES)}
    cases = {half: [case.name for case in CASES if case.data in some] for half, some in halves.items()}
    return {"seed": seed, "sets": halves, "cases": cases}


def read_split() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((Path(__file__).parent / "split.json").read_text(encoding="utf-8"))
    return content


HALF_OF = {name: half for half, names in read_split()["cases"].items() for name in names}
HALF_OF |= {case.name: name for name, some in BESIDE.items() for case in some}


def pick(names: str) -> Sequence[Case]:
    """Cases by name, with commas between, or a half of the suite, both halves, or others by their set."""
    if names == "all" or names in BESIDE:
        return BESIDE.get(names, CASES)
    half = names.replace("-", "_")
    if half in HALVES:
        return [case for case in CASES if HALF_OF[case.name] == half]
    chosen = names.split(",")
    for name in chosen:
        if name not in BY_NAME:
            choices = [*BY_NAME, "choosing", "held-out", "all", *BESIDE]
            raise UserError(f"Unknown case {name!r}{nearest(name, choices)}.")
    return [BY_NAME[name] for name in chosen]
