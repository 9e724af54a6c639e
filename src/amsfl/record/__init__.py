"""Records on disk: one schema, one writer, one reader, for runs, studies and real federations."""

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
)

__all__ = [
    "FORMAT",
    "Checkpoint",
    "Manifest",
    "MethodFacts",
    "Metrics",
    "RoundRecord",
    "RunRecord",
    "StudyRecord",
    "Summary",
    "TrialRecord",
]
