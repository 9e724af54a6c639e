"""What a report is about: measured series, and the few facts that all tables and figures need."""

from typing import NamedTuple

from amsfl.report.measure.measures import Measured

NOTHING = 0.01  # of accuracy: who ends this near to the base rate has learned nothing


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
    base: dict[str, float]  # split -> the part of it that is of its commonest class
    own_rows: bool  # judged by the clients' own rows: a federation whose server has none

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
        return any(one.known("accuracy_test") for one in self.found)

    @property
    def goal(self) -> str:
        return f"{100 * (self.target or 0):g}%"

    @property
    def clients(self) -> int:
        """Clients whose own models were scored."""
        keys = [key for one in self.found for row in one.values for key in row]
        return max(
            (int(key.rpartition("_c")[2]) for key in keys if key.startswith("accuracy_holdout_c")), default=0
        )

    def client(self, number: int) -> str:
        """A client's name, from 1 up."""
        return self.names[number - 1] if number <= len(self.names) else f"C{number}"

    @property
    def idle(self) -> list[Measured]:
        """Methods that learned nothing: they end where saying the commonest class every time would."""
        base = self.base.get("holdout")
        return [one for one in self.found if base and one.value("accuracy_holdout") <= base + NOTHING]

    @property
    def horizon(self) -> float:
        """Where the axis of virtual time ends: with the last round of the longest trial."""
        return max(
            trial.summary.virtual_seconds_by_clock[self.clock]
            for one in self.found
            for trial in one.series.trials
        )
