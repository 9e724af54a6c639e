"""Records on disk: one schema, one writer, one reader, for runs, studies and real federations."""

from amsfl.record.disk import (
    Damaged,
    dumps,
    from_plain,
    plain,
    publish,
    read_sealed,
    safe_name,
    write_atomically,
    write_sealed,
)
from amsfl.record.folder import Lock, check_same, holds_record, read_manifest
from amsfl.record.run import RunWriter, check_free, create, read_run, reopen
from amsfl.record.schema import (
    FORMAT,
    Checkpoint,
    Manifest,
    Metrics,
    RoundRecord,
    RunRecord,
    StudyRecord,
    Summary,
    TrialRecord,
    flatten,
)
from amsfl.record.study import StudyWriter, read_study
