"""A study: several methods, each over the same trials, as one readable settings file and one folder."""

from amsfl.study.run import (
    WHOLE,
    StudyPart,
    TrialBlock,
    blocks_of,
    estimate,
    parse_part,
    pending,
    run_blocks,
)
from amsfl.study.settings import (
    COMPARE,
    REPRODUCE,
    Study,
    read_study,
    to_settings_file,
    with_changes,
    without_unable,
)
from amsfl.study.store import check_folder, open_folder, recorded_search
from amsfl.study.tune import LEVELS, search_cost, tune_study

__all__ = [
    "COMPARE",
    "LEVELS",
    "REPRODUCE",
    "WHOLE",
    "Study",
    "StudyPart",
    "TrialBlock",
    "blocks_of",
    "check_folder",
    "estimate",
    "open_folder",
    "parse_part",
    "pending",
    "read_study",
    "recorded_search",
    "run_blocks",
    "search_cost",
    "to_settings_file",
    "tune_study",
    "with_changes",
    "without_unable",
]
