"""What a site decides: what it accepts of its server, what its rows may tell, and a log of every order.

The policy is a small TOML file of its own (docs/privacy.md), the same with privacy and without. An order
outside of it is refused before any row is read.

A private step is that of engines/private_gradients.py, with the system's own randomness:

    g = (sum_{i in batch} grad_i min(1, clip/||grad_i||) + noise clip z) / b,   z standard normal,  b = q rows

The server orders; the site counts for itself, by the chance and the noise that it really has. It takes no
step beyond the epsilon of the run's first order, and epsilon_run and epsilon of its policy (docs/privacy.md).
An entry is of a Flower run, whose id the server does not choose, and of the server's own name for the run,
by which a resumed run, a Flower run of its own, finds what it has spent. Steps are spent before any row is
read, under a lock: two orders at once, or a process that is killed, cannot take a step that is not counted.
What was spent and not taken is given back in the end.
"""

import json
import math
import os
import time
import tomllib
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from filelock import FileLock
from flwr.app import ArrayRecord, Context, Message
from pydantic import Field

from amsfl import sampling
from amsfl.core import RowPrivacy, UserError, nearest
from amsfl.flower.trainer import Order
from amsfl.privacy import Event, Exposure, noise_for, poisson_gaussian, private_step
from amsfl.privacy.accounting import mark
from amsfl.record import Damaged, disk, from_plain, read_sealed, write_sealed

PATIENCE = 60.0  # seconds that an order waits for another one's entry
LOST = "nobody knows any more what this site has told: it should tell no more."
SPENT = "privacy is spent"  # how the refusal of a site begins that may not take a further step
PRIVATE = "This site keeps its rows private: train with epsilon, and score on the server."
FILE = "site.toml"
NONE = "none"  # in `mechanisms`: orders without privacy
Names = tuple[str, ...] | None
Bound = Annotated[float, Field(strict=True, ge=0)]


class SitePolicy(NamedTuple):
    """The file's lines; None: no bound of the site's own."""

    mechanisms: Names = None  # of privacy; "none" in the list accepts orders without
    most_steps: Bound = 100_000  # of a round
    most_seconds: Bound = 86_400.0  # that its steps of a round may take: then it stops by itself
    most_megabytes: Bound = math.inf  # that are sent
    most_rows: Bound = 65_536  # of a minibatch
    least_noise: Bound = 0.05
    clip: tuple[Bound, Bound] = (1e-4, 1e4)
    epsilon_run: Bound | None = None  # of a Flower run, at `delta`
    epsilon: Bound | None = None  # of all time, at `delta`
    delta: Bound = 1e-5
    most_delta: Bound = 1e-3
    scores: Annotated[bool, Field(strict=True)] = True  # answers to `evaluate`

    @property
    def private(self) -> bool:
        """Whether orders without privacy are refused."""
        listed = self.mechanisms is not None and NONE not in self.mechanisms
        return listed or self.epsilon is not None or self.epsilon_run is not None

    def check(self, order: Order, arrays: ArrayRecord, correction: Any) -> None:
        """A UserError where the order or its model lies outside."""
        mechanism = order["privacy"] or NONE
        if self.mechanisms is not None and mechanism not in self.mechanisms:
            raise outside(f"the privacy mechanism {mechanism!r} is not one that it accepts")
        if mechanism == NONE and self.private:
            raise UserError(PRIVATE)
        bounds: dict[str, tuple[float, float]] = {
            "local-steps": (1, self.most_steps),
            "batch-size": (1, self.most_rows),
            "held-back": (0, 1),
            "lr": (1e-30, 1e30),
            "proximal-mu": (0, 1e6),
            "seed": (0, 2**32 - 1),
            "server-round": (1, 2**31),
        }
        if mechanism != NONE:
            most = math.inf if self.epsilon_run is None else self.epsilon_run
            bounds |= {"clip": self.clip, "noise": (self.least_noise, 1e6)}
            bounds |= {"delta": (1e-300, self.most_delta), "epsilon": (0, most)}
        zeros = {"noise": self.least_noise, "epsilon": math.inf}  # what they stand for: found here; no bound
        for name, (low, high) in bounds.items():
            if not low <= (order[name] or zeros.get(name, 0)) <= high:
                raise outside(f"{name} is from {low:g} to {high:g}, not {order[name]!r}")
        numbers = {name: part.numpy() for name, part in arrays.items()}
        numbers |= {} if correction is None else {"correction": correction}
        for name, part in numbers.items():
            if part.dtype.kind == "f" and not np.isfinite(part).all():
                raise outside(f"{name[:60]!r} of an order is not finite")

    def check_size(self, message: Message) -> None:
        """A UserError where a reply is too large to leave."""
        records = message.content.array_records.values() if message.has_content() else ()
        size = sum(len(part.data) for record in records for part in record.values())
        if size > self.most_megabytes * 1e6:
            raise outside(f"a reply has {self.most_megabytes:g} MB at most, not {size / 1e6:g}")


def outside(why: str) -> UserError:
    return UserError(f"This site's policy: {why}.")


def read_policy(path: Path) -> SitePolicy:
    """The file's; a UserError says what in it is wrong."""
    try:
        fields, known = tomllib.loads(path.read_text(encoding="utf-8")), SitePolicy._fields
        for name in fields.keys() - known:
            raise UserError(f"{str(path)!r} has {name!r}{nearest(name, known)}.")
        return from_plain(SitePolicy, fields)
    except (OSError, ValueError, Damaged) as error:
        raise UserError(f"The site's policy {str(path)!r} cannot be read: {error}.") from None


def policy_of(context: Context) -> SitePolicy:
    """By the file, and by `epsilon` and `delta` of the node-config."""
    node: Any = context.node_config
    path = Path(str(node.get("policy") or Path(str(node.get("state-dir") or ".")) / FILE)).expanduser()
    there = "policy" in node or ("state-dir" in node and path.exists())
    policy = read_policy(path) if there else SitePolicy()
    if "epsilon" in node:
        own = min(float(node["epsilon"]), math.inf if policy.epsilon is None else policy.epsilon)
        policy = policy._replace(epsilon=own, delta=float(node.get("delta", policy.delta)))
    budgets = [each for each in (policy.epsilon, policy.epsilon_run) if each is not None]
    if budgets and not (all(0 < each < math.inf for each in budgets) and 0 < policy.delta < 1):
        raise UserError("A site's epsilon and epsilon_run are above 0 and its delta between 0 and 1.")
    return policy


def own_file(context: Context, kind: str, ending: str) -> Path | None:
    """A file of this site alone that outlives a message, in its state-dir; None where it has none."""
    node: Any = context.node_config
    if not node.get("state-dir"):
        return None
    name = disk.safe_name(str(node.get("partition-id", context.node_id)), "The partition-id")
    folder = Path(str(node["state-dir"])).expanduser()
    disk.make_folder(folder, private=True)
    return folder / f"{kind}-{name}.{ending}"


@contextmanager
def logged(context: Context, what: str) -> Iterator[dict[str, Any]]:
    """`with logged(context, "train") as entry:`; whatever is put into `entry` is on the line of JSON of this
    order in `orders-NAME.jsonl`, in the site's `state-dir`: only ever appended, its owner's alone."""
    entry: dict[str, Any] = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "what": what}
    entry |= {"flower_run": context.run_id}
    try:
        yield entry
    except UserError as error:
        entry["refused"] = str(error)
        raise
    except Exception as error:
        entry["failed"] = type(error).__name__
        raise
    finally:
        if path := own_file(context, "orders", "jsonl"):
            line = (json.dumps(entry, default=str) + "\n").encode()
            how = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            with disk.explain_errors("written", path), os.fdopen(os.open(path, how, 0o600), "ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())


def gradient(trainer: Any, private: RowPrivacy, noise: float, batch: int, x: Any) -> Any:
    """One private gradient at x, with `noise` times the clip; who is in its minibatch is a secret."""
    places = private_step.chosen(int(sampling.chance(batch, trainer.rows)), trainer.rows)
    padded, present = pad(places, room(batch, trainer.rows))
    total = np.asarray(trainer.row_sum(x, padded, present, private), np.float32)
    length = private_step.norms(total.astype(float)[None])[0]
    if not private_step.is_safe(length, len(places), private.clip):
        total = np.zeros_like(total)
    drawn = noise * private.clip * private_step.normal(len(x))
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


class LedgerEntry(NamedTuple):
    """One run: what was agreed when it began, and the steps since."""

    epsilon: float  # 0: no bound
    delta: float
    chance: float  # that a row is in a minibatch
    noise: float
    steps: int

    @property
    def event(self) -> Event:
        return self.chance, self.noise, self.steps


Entries = Mapping[str, LedgerEntry]  # by Flower's run and the server's name


class SiteLedger:
    """The privacy ledger of the site that a context belongs to."""

    def __init__(self, context: Context):
        self.policy, self.path = policy_of(context), own_file(context, "privacy", "json")
        self.flower, self.spending = str(context.run_id), 0

    def spend(self, order: Order, rows: int) -> tuple[int, float]:
        """Steps that this order may take, spent: as many as it asks for, fewer where privacy ends before; and
        their noise: the server's, or the least with which epsilon lasts for as many steps as the run will
        ask."""
        chance = sampling.share(sampling.chance(order["batch-size"], rows))
        run, asked, key = order["run"], order["local-steps"], self._key(order["run"])
        with self._locked():
            entries = dict(self.read())
            before = [*of_name(entries, run).values()]
            if not before and order["privacy-begun"]:
                raise UserError("This site has lost its ledger of what this run has told: begin a new run.")
            noise = order["noise"] or (before[0].noise if before else least_noise(order, chance))
            agreed = LedgerEntry(order["epsilon"], order["delta"], chance, noise, 0)
            if any(entry._replace(steps=0) != agreed for entry in before):
                raise UserError(
                    "Epsilon, delta, noise, batch and rows were settled by its first order: begin a new run."
                )
            entries.setdefault(key, agreed)
            # with next to no noise one step is too much, and to count many would take minutes
            if not self._fits({key: agreed._replace(steps=1)}, run):
                raise UserError(f"{SPENT}: no step of this site fits its epsilon.")

            def fits(count: int) -> bool:
                return self._fits(add(entries, key, count), run)

            counts = range(1, asked + 1)
            steps = asked if fits(asked) else bisect_left(counts, True, key=lambda count: not fits(count))
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
        now = {key: each for key, each in entries.items() if key.rpartition(":")[0] == self.flower}
        limits = (self.policy.epsilon_run, now), (self.policy.epsilon, entries)
        return all(most is None or self.spent(part) <= most for most, part in limits)

    def _key(self, run: str) -> str:
        return f"{self.flower}:{disk.safe_name(run, 'The run')}"

    def _write(self, entries: Entries) -> None:
        assert self.path is not None
        write_sealed(self.path, {run: entry._asdict() for run, entry in entries.items()}, private=True)

    def _locked(self) -> FileLock:
        if self.path is None:
            raise UserError('A private site needs a folder: add state-dir="/folder" to its --node-config.')
        return FileLock(self.path.with_suffix(".lock"), timeout=PATIENCE)


def least_noise(order: Order, chance: float) -> float:
    """With which epsilon lasts for as many steps as the run will ask."""
    if not order["epsilon"] or order["privacy-steps"] < 1:
        raise UserError("An order under privacy names its noise, or epsilon and privacy-steps to find it by.")
    return noise_for(Exposure(chance, 1.0, order["delta"]), order["epsilon"], order["privacy-steps"])


def add(entries: Entries, key: str, steps: int) -> dict[str, LedgerEntry]:
    entry = entries[key]
    return {**entries, key: entry._replace(steps=entry.steps + steps)}


def of_name(entries: Entries, run: str) -> Entries:
    """Those of one run by the server's name, which has no colon."""
    return {key: entry for key, entry in entries.items() if key.rpartition(":")[2] == run}
