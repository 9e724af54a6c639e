"""What a report is about: measured series, and the few facts that all tables and figures need."""

from typing import NamedTuple

from amsfl.core import Score
from amsfl.core.scores import NUMBERS, recorded
from amsfl.report.measure.measures import Measured

NOTHING = 0.01  # of a score (of an error, its share): who ends this near to the base has learned nothing


class Study(NamedTuple):
    title: str
    found: list[Measured]  # series with at least one finished trial
    reference: Measured
    target: float | None
    clock: str
    seconds: float | None  # virtual seconds each trial was given
    data: str
    synthetic: bool
    banner: str  # synthetic data: to be seen first
    unlike: list[str]  # in what the records differ that makes them no comparison; then nobody wins
    notes: list[str]  # what a reader of the numbers must know
    classes: list[str]
    paper: bool  # the paper's numbers belong beside these
    step_seconds: tuple[float, ...]
    names: list[str]  # of the clients, where the data has them
    base: dict[str, float]  # split -> what saying its commonest class, or the mean, every time scores
    own_rows: bool  # judged by the clients' own rows: a federation whose server has none
    score: Score = recorded("accuracy")  # what curves, targets and the verdict are of: accuracy

    @property
    def test(self) -> str:
        return "KDDTest+" if self.data == "nslkdd" else "test split"

    @property
    def splits(self) -> list[tuple[str, str]]:
        """Evaluation splits by name and title."""
        return [("holdout", self.judge), *([("test", self.test)] if self.has_test else [])]

    @property
    def judge(self) -> str:
        return "clients' own rows" if self.own_rows else "hold-out"

    @property
    def rest(self) -> list[Measured]:
        return [one for one in self.found if one is not self.reference]

    @property
    def has_test(self) -> bool:
        return any(one.known(self.score.measure("test")) for one in self.found)

    @property
    def goal(self) -> str:
        return self.score.spelled(self.target or 0)

    @property
    def level(self) -> str:
        """The target as a number: 95%, or 3 of an error that the sentence names."""
        return self.goal if self.score.name == "accuracy" else f"{self.target:g}"

    @property
    def numbers(self) -> bool:
        """Whether numbers are predicted, and not classes."""
        return self.score.name in NUMBERS

    @property
    def naive(self) -> str:
        """What the base says every time."""
        return "the mean" if self.numbers else "the commonest class"

    @property
    def local(self) -> str:
        """The measure of a client's own model, to which _c1 is added."""
        return recorded("r2" if self.numbers else "accuracy").measure("holdout")

    def number(self, value: float) -> str:
        """A score in a sentence."""
        return f"{value:.3f}" if self.score.most == 1 else f"{value:.4g}"

    @property
    def clients(self) -> int:
        """Clients whose own models were scored."""
        keys = [key for one in self.found for row in one.values for key in row]
        return max(
            (int(key.rpartition("_c")[2]) for key in keys if key.startswith(f"{self.local}_c")), default=0
        )

    def client(self, number: int) -> str:
        """A client's name, from 1 up."""
        return self.names[number - 1] if number <= len(self.names) else f"C{number}"

    @property
    def idle(self) -> list[Measured]:
        """Methods that learned nothing: they end where saying the same every time would."""
        base, name = self.base.get("holdout"), self.score.measure("holdout")
        if base is None:
            return []
        least = NOTHING if self.score.most == 1 else NOTHING * base
        return [one for one in self.found if self.score.gain(one.value(name), base) <= least]

    @property
    def horizon(self) -> float:
        """Where the axis of virtual time ends: with the last round of the longest trial."""
        return max(
            trial.summary.virtual_seconds_by_clock[self.clock]
            for one in self.found
            for trial in one.series.trials
        )
