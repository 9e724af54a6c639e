"""The subject of a report: measured series, and the facts that all tables and figures need."""

from typing import NamedTuple

from amsfl.core import Score
from amsfl.core.scores import NUMBERS, RARER, UNBALANCED, recorded_score
from amsfl.report.measure.base_rate import CHANCE_AUC, NOTHING, accuracy_margin, auc_margin, class_counts
from amsfl.report.measure.measures import MeasuredSeries

AUC = RARER["auc"]


class Subject(NamedTuple):
    title: str
    methods: list[MeasuredSeries]  # with at least one finished trial
    reference: MeasuredSeries
    target: float | None
    clock: str
    seconds: float | None  # budget of virtual time of each trial
    data: str
    synthetic: bool
    banner: str  # for synthetic data, at the top
    differences: list[str]  # between records, where they are no comparison; then no method is best
    notes: list[str]  # what a reader of the numbers must know
    classes: list[str]
    paper: bool  # show the paper's numbers beside ours
    step_seconds: tuple[float, ...]
    names: list[str]  # of the clients, where the data has them
    base: dict[str, float]  # split -> score of always predicting the commonest class, or the mean
    own_rows: bool  # judged on the clients' own rows: the server of real clients has none
    score: Score = recorded_score("accuracy")  # of curves and targets
    rows: int = 0  # of the hold-out

    @property
    def test(self) -> str:
        return "KDDTest+" if self.data == "nslkdd" else "test split"

    @property
    def judged_on(self) -> str:
        return "clients' own rows" if self.own_rows else "hold-out"

    @property
    def splits(self) -> list[tuple[str, str]]:
        """Evaluation splits by name and title."""
        return [("holdout", self.judged_on), *([("test", self.test)] if self.has_test else [])]

    @property
    def has_test(self) -> bool:
        return any(one.numbers(self.score.measure("test")) for one in self.methods)

    @property
    def goal(self) -> str:
        return self.score.spelled(self.target or 0)

    @property
    def is_regression(self) -> bool:
        return self.score.name in NUMBERS

    @property
    def base_name(self) -> str:
        """What the base predicts every time."""
        return "the mean" if self.is_regression else "the commonest class"

    @property
    def client_measure(self) -> str:
        """The measure of a client's own model, without its _c1."""
        return recorded_score("r2" if self.is_regression else "accuracy").measure("holdout")

    @property
    def clients(self) -> int:
        """Clients whose own models were scored."""
        prefix = f"{self.client_measure}_c"
        keys = {key for one in self.methods for row in one.values for key in row}
        return max((int(key.removeprefix(prefix)) for key in keys if key.startswith(prefix)), default=0)

    def client(self, number: int) -> str:
        """A client's name, from 1 up."""
        return self.names[number - 1] if number <= len(self.names) else f"C{number}"

    def number(self, value: float) -> str:
        """A score in a sentence."""
        return f"{value:z.3f}" if self.score.most == 1 else f"{value:.4g}"

    @property
    def fitting_score(self) -> Score:
        """The score of the verdict: AUC where nobody chose one and accuracy cannot tell methods apart.

        That is where most rows are of one class, and where every accuracy is at the base rate.
        """
        base = self.base.get("holdout")
        chosen = self.score.name != "accuracy" or any(o.series.settings.get("score") for o in self.methods)
        if chosen or base is None or not all(one.numbers(AUC.measure("holdout")) for one in self.methods):
            return self.score
        flat = len(self._not_better(self.score)) == len(self.methods)
        return AUC if base >= UNBALANCED or flat else self.score

    @property
    def not_better(self) -> list[MeasuredSeries]:
        """Methods that do not end better than the base rate, by the score that fits."""
        return self._not_better(self.fitting_score)

    def _not_better(self, score: Score) -> list[MeasuredSeries]:
        base = self.base_of(score)
        if base is None:
            return []
        name, margin = score.measure("holdout"), self.margin(score)
        return [one for one in self.methods if score.gain(one.value(name), base) <= margin]

    def base_of(self, score: Score) -> float | None:
        return CHANCE_AUC if score == AUC else self.base.get("holdout")

    def margin(self, score: Score) -> float:
        """How far above the base rate chance alone may lift a score."""
        base = self.base_of(score) or 0.0
        if score == AUC:
            trials = self.reference.series.trials
            return auc_margin(class_counts(trials[0].summary.details)) or NOTHING
        if score.name == "accuracy":
            return accuracy_margin(base, self.rows) or NOTHING
        return NOTHING if score.most == 1 else NOTHING * base
