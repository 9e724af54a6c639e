"""A study: several methods, each over the same trials, as one readable settings file and one folder."""

from amsfl.study.estimate import estimate
from amsfl.study.run import WHOLE, Part, Unit, part_of, pending, start, units_of, work
from amsfl.study.settings import COMPARE, REPRODUCE, Study, able, as_file, read_study, with_changes
from amsfl.study.store import check_folder, searched
from amsfl.study.tune import LEVELS, trials_worth, tuned

__all__ = [
    "COMPARE",
    "LEVELS",
    "REPRODUCE",
    "WHOLE",
    "Part",
    "Study",
    "Unit",
    "able",
    "as_file",
    "check_folder",
    "estimate",
    "part_of",
    "pending",
    "read_study",
    "searched",
    "start",
    "trials_worth",
    "tuned",
    "units_of",
    "with_changes",
    "work",
]
