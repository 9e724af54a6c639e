"""Records on disk: one schema, one writer, one reader, for runs, studies and real federations."""

from amsfl.record.disk import publish, safe_name, write_atomically
from amsfl.record.folder import Lock, check_same, holds_record, read_manifest
from amsfl.record.run import RunWriter, check_free, create, read_run, reopen
from amsfl.record.schema import (
    FORMAT,
    Checkpoint,
    Manifest,
    MethodFacts,
    Metrics,
    RoundRecord,
    RunRecord,
    StudyRecord,
    Summary,
    TrialRecord,
    flatten,
)
from amsfl.record.study import StudyWriter, check_part_count, holds_parts, part_folder, read_study
from amsfl.record.sums import Damaged, dumps, from_plain, plain, read_sealed, write_sealed

__all__ = [
    "FORMAT",
    "Checkpoint",
    "Damaged",
    "Lock",
    "Manifest",
    "MethodFacts",
    "Metrics",
    "RoundRecord",
    "RunRecord",
    "RunWriter",
    "StudyRecord",
    "StudyWriter",
    "Summary",
    "TrialRecord",
    "check_free",
    "check_part_count",
    "check_same",
    "create",
    "dumps",
    "flatten",
    "from_plain",
    "holds_parts",
    "holds_record",
    "part_folder",
    "plain",
    "publish",
    "read_manifest",
    "read_run",
    "read_sealed",
    "read_study",
    "reopen",
    "safe_name",
    "write_atomically",
    "write_sealed",
]
