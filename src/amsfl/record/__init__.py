"""Records on disk: one schema, one writer, one reader, for runs, studies and real federations."""

from amsfl.record.disk import safe_name, write_atomically
from amsfl.record.folder import holds_record, read_manifest, read_sealed, write_sealed
from amsfl.record.lock import Busy, Lock
from amsfl.record.outputs import publish
from amsfl.record.parts import check_part_count, holds_parts, part_folder, read_study
from amsfl.record.plain_data import from_plain, plain
from amsfl.record.run import RunWriter, check_free, create, reopen
from amsfl.record.run_reader import read_run
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
from amsfl.record.sealed_text import Damaged, dumps
from amsfl.record.study import StudyWriter
from amsfl.record.verify import verify

__all__ = [
    "FORMAT",
    "Busy",
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
    "verify",
    "write_atomically",
    "write_sealed",
]
