"""A study: several methods, each over the same trials, as one readable settings file and one folder."""

from amsfl.study.estimate import estimate
from amsfl.study.run import Unit, pending, start, work
from amsfl.study.settings import COMPARE, REPRODUCE, Study, read_study, with_changes

__all__ = [
    "COMPARE",
    "REPRODUCE",
    "Study",
    "Unit",
    "estimate",
    "pending",
    "read_study",
    "start",
    "with_changes",
    "work",
]
