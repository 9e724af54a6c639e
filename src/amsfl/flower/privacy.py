"""Privacy at a real client: private steps, and the site's own ledger of what its rows have told.

A step is that of engines/private_gradients.py, with the system's own randomness:

    g = (sum_{i in batch} grad_i min(1, clip/||grad_i||) + noise clip z) / b,   z standard normal,  b = q rows

A trainer that can take it has more than others:

    x                           the flat model, which is set after every step
    check_rows()                a UserError where a row has no gradient of its own
    row_sum(x, places, present, private)
                                the sum of the gradients at x of those rows that are present, each cut as
                                `private` says. `places` are always as many: how long it takes does not tell
                                how many rows are in a minibatch.

The server orders; the site counts for itself, by the chance and the noise that it really has. It takes no
step beyond the epsilon of the run's first order, and epsilon_run and epsilon of its policy (docs/privacy.md).
An entry is of a Flower run, whose id the server does not choose, and of the server's own name for the run,
by which a resumed run, a Flower run of its own, finds what it has spent. Steps are spent before any row is
read, under a lock: two orders at once, or a process that is killed, cannot take a step that is not counted.
What was spent and not taken is given back in the end.
"""

import traceback
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock
from flwr.app import Context

from amsfl import sampling
from amsfl.core import RowPrivacy, UserError
from amsfl.flower.site_policy import own_file, site_policy
from amsfl.flower.task import SPENT, LocalTask
from amsfl.privacy import Event, Exposure, noise_for, poisson_gaussian, safe_sum, system_random
from amsfl.privacy.accounting import mark
from amsfl.record import read_sealed, write_sealed
from amsfl.record.disk import safe_name

PATIENCE = 60.0  # seconds that an order waits for another one's entry
LOST = "nobody knows any more what this site has told: it should tell no more."


def gradient(trainer: Any, private: RowPrivacy, noise: float, batch: int, x: Any) -> Any:
    """One private gradient at x, with `noise` times the clip; who is in its minibatch is a secret."""
    places = system_random.chosen(int(sampling.chance(batch, trainer.rows)), trainer.rows)
    padded, present = pad(places, room(batch, trainer.rows))
    total = np.asarray(trainer.row_sum(x, padded, present, private), np.float32)
    length = safe_sum.norms(total.astype(float)[None])[0]
    if not safe_sum.is_safe(length, len(places), private.clip):
        total = np.zeros_like(total)
    drawn = noise * private.clip * system_random.normal(len(x))
    return ((total + drawn) / min(batch, trainer.rows)).astype(np.float32)


def room(batch: int, rows: int) -> int:
    """Rows that are looked at in every step; of 10,000 minibatches one or none is larger."""
    return min(rows, batch + 4 * int(np.ceil(batch**0.5)) + 4)


def pad(places: Any, size: int) -> tuple[Any, Any]:
    """Places filled up to the next multiple of `size`, at least one, and which of them are present."""
    length = max(-(-len(places) // size), 1) * size
    return np.resize(np.append(places, 0), length), np.arange(length) < len(places)


def coarse(seconds: float) -> float:
    """Seconds rounded up to one of four marks between powers of two: finer ones would tell of single rows."""
    return float(2.0 ** (np.ceil(4 * np.log2(max(seconds, 1e-3))) / 4))


def check(trainer: Any) -> None:
    """Whether this client can keep its rows private; a UserError says why not."""
    if not hasattr(trainer, "row_sum"):
        raise UserError(
            f"A {type(trainer).__name__} has no gradients row by row; use torch_client or jax_client."
        )
    trainer.check_rows()


@contextmanager
def silent(private: bool, *passed: type[Exception]) -> Iterator[None]:
    """Errors travel to the server with what they say; under privacy that stays here: it may be of rows.

    Those of the kinds in `passed` are sentences of ours, and travel.
    """
    try:
        yield
    except passed:
        raise
    except Exception:
        if not private:
            raise
        traceback.print_exc()
        raise UserError("This site's work failed; why may tell of its rows, and is in its own log.") from None


class LedgerEntry(NamedTuple):
    """One run: what was agreed when it began, and the steps since."""

    epsilon: float  # 0: no bound
    delta: float
    chance: float  # that a row is in a minibatch
    noise: float
    steps: int

    @property
    def event(self) -> Event:
        return Event(self.chance, self.noise, self.steps)


Entries = Mapping[str, LedgerEntry]  # by Flower's run and the server's name


class SiteLedger:
    """The privacy ledger of the site that a context belongs to."""

    def __init__(self, context: Context):
        self.policy, self.path = site_policy(context), own_file(context, "privacy", "json")
        self.flower, self.spending = str(context.run_id), 0

    def spend(self, task: LocalTask, rows: int) -> tuple[int, float]:
        """Steps that this order may take, spent: as many as it asks for, fewer where privacy ends before; and
        their noise: the server's, or the least with which epsilon lasts for as many steps as the run will
        ask."""
        terms = task.terms
        assert terms is not None
        chance = sampling.share(sampling.chance(task.batch, rows))
        key = self._key(task.run)
        with self._locked():
            entries = dict(self.read())
            before = [*of_name(entries, task.run).values()]
            if not before and task.begun:
                raise UserError("This site has lost its ledger of what this run has told: begin a new run.")
            noise = terms.noise or (before[0].noise if before else least_noise(task, chance))
            agreed = LedgerEntry(terms.epsilon, terms.delta, chance, noise, 0)
            if any(entry._replace(steps=0) != agreed for entry in before):
                raise UserError(
                    "Epsilon, delta, noise, batch and rows were settled by its first order: begin a new run."
                )
            entries.setdefault(key, agreed)
            # with next to no noise one step is too much, and to count many would take minutes
            if not self._fits({key: agreed._replace(steps=1)}, task.run):
                raise UserError(f"{SPENT}: no step of this site fits its epsilon.")

            def fits(count: int) -> bool:
                return self._fits(add(entries, key, count), task.run)

            counts = range(1, task.steps + 1)
            steps = task.steps if fits(task.steps) else bisect_left(counts, True, key=lambda n: not fits(n))
            if not steps:
                raise UserError(f"{SPENT}: no further step of this site fits its epsilon.")
            self._write(add(entries, key, steps))
        self.spending = steps
        return steps, noise

    def give_back(self, run: str, steps: int) -> float:
        """Steps that were spent here and not taken; the epsilon of this run so far."""
        back = min(max(steps, 0), self.spending)
        with self._locked():
            entries = self.read()
            if back:
                entries = add(entries, self._key(run), -back)
                self._write(entries)
                self.spending -= back
        own = [*of_name(entries, run).values()]
        # at the next mark: a number for each round would take longer than the round
        steps, entry = mark(sum(each.steps for each in own)), own[0]
        spent = poisson_gaussian((entry._replace(steps=steps).event,), entry.delta)
        return min(spent, entry.epsilon or spent)

    def spent(self, entries: Entries) -> float:
        """Epsilon of all runs together, at the site's delta."""
        events = tuple(entry.event for entry in entries.values() if entry.steps)
        return poisson_gaussian(events, self.policy.delta)

    def check_open(self) -> None:
        """Nothing raw may leave once a private step was taken, unless the policy allows both."""
        if self.policy.mechanisms is None and self.read():
            raise UserError(
                "This site has kept its rows private before: train with epsilon and without scores of clients"
                ", or write mechanisms = ['none', 'record'] into its site.toml."
            )

    def read(self) -> Entries:
        held = read_sealed(self.path, LOST) if self.path and self.path.exists() else {}
        return {run: LedgerEntry(**entry) for run, entry in held.items()}

    def _fits(self, entries: Entries, run: str) -> bool:
        same = [*of_name(entries, run).values()]  # but for their steps, see spend()
        entry = same[0]._replace(steps=sum(each.steps for each in same))
        if entry.epsilon and poisson_gaussian((entry.event,), entry.delta) > entry.epsilon:
            return False
        limits = (self.policy.epsilon_run, of_flower(entries, self.flower)), (self.policy.epsilon, entries)
        return all(most is None or self.spent(part) <= most for most, part in limits)

    def _key(self, run: str) -> str:
        return f"{self.flower}:{safe_name(run, 'The run')}"

    def _write(self, entries: Entries) -> None:
        assert self.path is not None
        write_sealed(self.path, {run: entry._asdict() for run, entry in entries.items()}, private=True)

    def _locked(self) -> FileLock:
        if self.path is None:
            raise UserError('A private site needs a folder: add state-dir="/folder" to its --node-config.')
        return FileLock(self.path.with_suffix(".lock"), timeout=PATIENCE)


def least_noise(task: LocalTask, chance: float) -> float:
    """With which epsilon lasts for as many steps as the run will ask."""
    terms = task.terms
    if terms is None or not terms.epsilon or task.private_steps < 1:
        raise UserError("An order under privacy names its noise, or epsilon and privacy-steps to find it by.")
    return noise_for(Exposure(chance, 1.0, terms.delta), terms.epsilon, task.private_steps)


def add(entries: Entries, key: str, steps: int) -> dict[str, LedgerEntry]:
    entry = entries[key]
    return {**entries, key: entry._replace(steps=entry.steps + steps)}


def of_name(entries: Entries, run: str) -> Entries:
    """Those of one run by the server's name, which has no colon."""
    return {key: entry for key, entry in entries.items() if key.rpartition(":")[2] == run}


def of_flower(entries: Entries, flower: str) -> Entries:
    """Those of one Flower run."""
    return {key: entry for key, entry in entries.items() if key.rpartition(":")[0] == flower}
