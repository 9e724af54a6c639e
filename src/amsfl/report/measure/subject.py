"""What a report is about: measured series, and the few facts that all tables and figures need."""

from typing import NamedTuple

from amsfl.report.measure.measures import Measured


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
    notes: list[str]  # what a reader of the numbers must know
    classes: list[str]
    paper: bool  # the paper's numbers belong beside these
    step_seconds: list[float]

    @property
    def test(self) -> str:
        return "KDDTest+" if self.data == "nslkdd" else "test split"

    @property
    def splits(self) -> list[tuple[str, str]]:
        """Evaluation splits by name and title."""
        return [("holdout", "hold-out"), *([("test", self.test)] if self.has_test else [])]

    @property
    def rest(self) -> list[Measured]:
        return [one for one in self.found if one is not self.reference]

    @property
    def has_test(self) -> bool:
        return any(one.known("accuracy_test") for one in self.found)

    @property
    def clients(self) -> int:
        """Clients whose own models were scored."""
        keys = [key for one in self.found for row in one.values for key in row]
        return max(
            (int(key.rpartition("_c")[2]) for key in keys if key.startswith("accuracy_holdout_c")), default=0
        )

    @property
    def horizon(self) -> float:
        """Where the axis of virtual time ends."""
        ends = [
            trial.summary["virtual_seconds_by_clock"][self.clock]
            for one in self.found
            for trial in one.series.trials
        ]
        return self.seconds or max(ends)
