"""A site's own privacy ledger: what its rows have told so far, and how many steps are left.

The server orders; the site counts for itself, by the chance and the noise that it really has. It takes no
step beyond the epsilon of the run's first order, and epsilon_run and epsilon of its policy (docs/privacy.md).

An entry is of a Flower run, whose id the server does not choose, and of the server's own name for the run, by
which a resumed run, a Flower run of its own, finds what it has spent.

Steps are spent before any row is read, under a lock: two orders at once, or a process that is killed, cannot
take a step that is not counted. What was spent and not taken is given back when the work is over. That a step
was taken is in Flower's context, too. An unreadable ledger is not an empty one.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock
from flwr.app import ConfigRecord, Context

from amsfl import sampling
from amsfl.core import UserError
from amsfl.flower.reply_checks import SPENT
from amsfl.flower.site_policy import SitePolicy, site_folder, site_name
from amsfl.flower.task import LocalTask
from amsfl.privacy import Event, Exposure, noise_for, poisson_gaussian
from amsfl.privacy.accounting import mark
from amsfl.record import read_sealed, write_sealed
from amsfl.record.disk import make_folder, safe_name

MARK = "amsfl-private"  # in Flower's context: a private step was taken
PATIENCE = 60.0  # seconds that an order waits for another one's entry


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


Entries = Mapping[str, LedgerEntry]  # by Flower's run and the server's name; of older versions by that alone


class SiteLedger:
    """The privacy ledger of the site that a context belongs to."""

    def __init__(self, context: Context, policy: SitePolicy):
        self.policy, self.path = policy, _path(context)
        self.kept = bool(context.node_config.get("state-dir"))
        self.flower, self.state, self.spending = str(context.run_id), context.state, 0

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
                raise UserError(
                    "This site has lost its ledger of this run's privacy and does not know what is left: "
                    'begin a new run, and give its --node-config a state-dir="/folder" that is kept.'
                )
            noise = terms.noise or (before[0].noise if before else self._least_noise(task, chance))
            agreed = LedgerEntry(terms.epsilon, terms.delta, chance, noise, 0)
            if any(entry._replace(steps=0) != agreed for entry in before):
                raise UserError(
                    "What this run tells of each row was settled by its first order, and this one has "
                    "another epsilon, delta, noise, batch or number of rows: begin a new run."
                )
            entries.setdefault(key, agreed)
            # with next to no noise one step is too much, and to count many would take minutes
            possible = self._fits({key: agreed._replace(steps=1)}, task.run)
            steps = possible and most_steps(
                task.steps, lambda count: self._fits(add(entries, key, count), task.run)
            )
            if not steps:
                raise UserError(f"{SPENT}: no further step of this site fits its epsilon.")
            self._write(add(entries, key, steps))
            self.state[MARK] = ConfigRecord({"private": True})
        self.spending = steps
        return steps, noise

    def _least_noise(self, task: LocalTask, chance: float) -> float:
        terms = task.terms
        assert terms is not None
        if not terms.epsilon or task.private_steps < 1:
            raise UserError(
                "An order under privacy names its noise, or epsilon and privacy-steps to find it by."
            )
        return noise_for(Exposure(chance, 1.0, terms.delta), terms.epsilon, task.private_steps)

    def give_back(self, run: str, steps: int) -> float:
        """Steps that were spent here and not taken; the epsilon of this run so far."""
        back = min(max(steps, 0), self.spending)
        with self._locked():
            entries = self.read()
            if back:
                entries = add(entries, self._key(run), -back)
                self._write(entries, back)
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

    def _closed(self, run: str = "") -> bool:
        """Whether nothing raw may leave: a private step was taken, and the policy does not allow both.

        Without a folder of its own it knows of this Flower run, and of the server's `run`.
        """
        if self.policy.mechanisms is not None:
            return False
        entries = self.read()
        known = of_flower(entries, self.flower) or of_name(entries, run) or (self.kept and entries)
        return bool(known) or MARK in self.state

    def check_open(self, run: str) -> None:
        if self._closed(run):
            raise UserError(
                "This site has kept its rows private before, and this order is without privacy, or asks for "
                "scores: train with epsilon, or write mechanisms = ['none', 'record'] into its site.toml."
            )

    def read(self) -> Entries:
        if not self.path.exists():
            return {}
        advice = "nobody knows any more what this site has told: it should tell no more."
        entries = read_sealed(self.path, advice)
        return {run: LedgerEntry(**entry) for run, entry in entries.items()}

    def _fits(self, entries: Entries, run: str) -> bool:
        same = [*of_name(entries, run).values()]  # but for their steps, see spend()
        entry = same[0]._replace(steps=sum(each.steps for each in same))
        if entry.epsilon and poisson_gaussian((entry.event,), entry.delta) > entry.epsilon:
            return False
        limits = (self.policy.epsilon_run, of_flower(entries, self.flower)), (self.policy.epsilon, entries)
        return all(most is None or self.spent(part) <= most for most, part in limits)

    def _key(self, run: str) -> str:
        if not isinstance(run, str):  # JSON writes 5 and "5" as one key, and reads the last of them
            raise UserError(f"A run's name is a text, not {run!r}.")
        return f"{self.flower}:{safe_name(run, 'The run')}"

    def _write(self, entries: Entries, back: int = 0) -> None:
        for key, held in self.read().items():
            if key not in entries or entries[key].steps < held.steps - back:
                raise UserError("This site's ledger of privacy would forget steps: nothing is written.")
        write_sealed(self.path, {run: entry._asdict() for run, entry in entries.items()}, private=True)

    def _locked(self) -> FileLock:
        make_folder(self.path.parent, private=True)
        return FileLock(self.path.with_suffix(".lock"), timeout=PATIENCE)


def add(entries: Entries, key: str, steps: int) -> dict[str, LedgerEntry]:
    entry = entries[key]
    return {**entries, key: entry._replace(steps=entry.steps + steps)}


def of_name(entries: Entries, run: str) -> Entries:
    """Those of one run by the server's name, which has no colon."""
    return {key: entry for key, entry in entries.items() if key.rpartition(":")[2] == run}


def of_flower(entries: Entries, flower: str) -> Entries:
    """Those of one Flower run."""
    return {key: entry for key, entry in entries.items() if key.rpartition(":")[0] == flower}


def most_steps(asked: int, fits: Callable[[int], bool]) -> int:
    """Up to `asked` that fit, by halving."""
    return asked if fits(asked) else bisect_left(range(1, asked), True, key=lambda steps: not fits(steps))


def _path(context: Context) -> Path:
    return site_folder(context) / f"privacy-{safe_name(site_name(context), 'The client name')}.json"
