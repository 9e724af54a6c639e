"""Which method is best in a study, by how much and how surely: the numbers behind the advice."""

from typing import NamedTuple

from amsfl.core import Score
from amsfl.report.measure import stats
from amsfl.report.measure.measures import MeasuredSeries, paired_times, pairs
from amsfl.report.measure.stats import Estimate
from amsfl.report.measure.subject import Subject


class Ranking(NamedTuple):
    by_time: bool  # by the time to the target, else by the score at the end
    score: Score
    order: list[MeasuredSeries]  # best first: methods better than the base rate
    margins: list[Estimate | None]  # of the first over each other: times as long, or points

    @property
    def no_margin(self) -> float:
        """The margin between equals."""
        return 1.0 if self.by_time else 0.0

    @property
    def best(self) -> MeasuredSeries:
        return self.order[0]

    @property
    def rivals(self) -> list[tuple[MeasuredSeries, Estimate | None]]:
        return list(zip(self.order[1:], self.margins, strict=True))

    @property
    def ties(self) -> list[tuple[MeasuredSeries, Estimate | None]]:
        """Rivals that it is not surely better than."""
        return [(one, margin) for one, margin in self.rivals if not is_sure(margin, self.by_time)]


def rank(subject: Subject) -> Ranking | None:
    """None where no method is better than the base rate, or the records are no comparison.

    The first is compared with every other on shared seeds. Where its intervals exclude no difference it is
    the best at that level although it was chosen by the same numbers (Gutmann and Maymin, "Is the selected
    population the best?", Annals of Statistics 15, 1987).
    """
    score, not_better = subject.fitting_score, subject.not_better
    able = [
        one
        for one in subject.methods
        if one not in not_better
        and one.series.diverged < len(one.values)
        and one.numbers(score.measure("holdout"))
    ]
    if subject.differences or not able:
        return None
    by_time = subject.target is not None and any(one.reached_target for one in able)
    name = f"least_{subject.clock}" if by_time else score.measure("holdout")
    lower = by_time or not score.larger
    able.sort(key=lambda one: one.value(name) if lower else -one.value(name))
    if by_time:
        able.sort(key=lambda one: not one.reached_target)  # who ever missed the target is behind the others
        times = [paired_times(able[0], other, subject.clock) for other in able[1:]]
        margins = [stats.ratio(theirs, mine) for mine, theirs in times]
    else:
        margins = [score_margin(score, *pairs(able[0], other, name)) for other in able[1:]]
    return Ranking(by_time, score, able, margins)


def score_margin(score: Score, mine: list[float], theirs: list[float]) -> Estimate | None:
    """By how much ours is better: in hundredths, errors in their own units."""
    times = 100 if score.most == 1 else 1
    return stats.estimate([times * score.gain(a, b) for a, b in zip(mine, theirs, strict=True)])


def is_sure(margin: Estimate | None, ratio: bool) -> bool:
    """Whether the 95% interval excludes no difference; one trial is never sure."""
    return margin is not None and margin.low is not None and margin.low > (1 if ratio else 0)
