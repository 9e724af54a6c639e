"""Who is ahead in a study, by how much and how surely: the numbers behind the paragraph at its top."""

from typing import NamedTuple

from amsfl.report.measure import stats
from amsfl.report.measure.measures import Measured, pairs
from amsfl.report.measure.stats import Estimate
from amsfl.report.measure.subject import Study


class Verdict(NamedTuple):
    by_time: bool  # by the time to the target, else by the score at the end
    order: list[Measured]  # best first: methods that learned something (and reached the target, by time)
    margins: list[Estimate | None]  # the first against each other of the order: times as long, or points

    @property
    def nothing(self) -> float:
        """What a margin is between equals."""
        return 1.0 if self.by_time else 0.0

    @property
    def best(self) -> Measured:
        return self.order[0]

    @property
    def rivals(self) -> list[tuple[Measured, Estimate | None]]:
        return list(zip(self.order[1:], self.margins, strict=True))

    @property
    def ties(self) -> list[tuple[Measured, Estimate | None]]:
        """Whom it is not surely ahead of."""
        return [(one, margin) for one, margin in self.rivals if not sure(margin, self.by_time)]


def verdict(study: Study) -> Verdict | None:
    """None where nothing learned anything, or the records are no comparison.

    The first is held against every other on shared seeds. Where its interval keeps clear of theirs it is
    the best at that level although it was chosen by the same numbers (Gutmann and Maymin, "Is the selected
    population the best?", Annals of Statistics 15, 1987).
    """
    able = [one for one in study.found if one not in study.idle and one.series.diverged < len(one.values)]
    able = [one for one in able if one.known(study.score.measure("holdout"))]
    if study.unlike or not able:
        return None
    arrived = [one for one in able if one.arrived] if study.target is not None else []
    name = f"least_{study.clock}" if arrived else study.score.measure("holdout")
    least = bool(arrived) or not study.score.larger
    able.sort(key=lambda one: one.value(name) if least else -one.value(name))
    if arrived:  # who did not always get there is behind who did, whatever its mean
        able.sort(key=lambda one: not one.arrived)
    samples = [pairs(able[0], other, name) for other in able[1:]]
    if arrived:
        margins = [stats.ratio(theirs, mine) for mine, theirs in samples]
    else:
        margins = [points(study, mine, theirs) for mine, theirs in samples]
    return Verdict(bool(arrived), able, margins)


def points(study: Study, mine: list[float], theirs: list[float]) -> Estimate | None:
    """By how much ours is better: in hundredths, errors in their own units."""
    times = 100 if study.score.most == 1 else 1
    return stats.estimate([times * study.score.gain(a, b) for a, b in zip(mine, theirs, strict=True)])


def sure(margin: Estimate | None, ratio: bool) -> bool:
    """Whether the 95% interval keeps clear of no difference; one trial is never sure."""
    return margin is not None and margin.low is not None and margin.low > (1 if ratio else 0)
