"""Run a study in blocks of one method and up to ten trials; what is on record is never run again."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from amsfl.core import UserError
from amsfl.data import Dataset
from amsfl.record import RoundRecord, StudyWriter, TrialRecord
from amsfl.simulation import run_batch
from amsfl.study import store
from amsfl.study.settings import CHUNK, Study

Watch = Callable[["TrialBlock", int, RoundRecord], None]  # block, place in the block, the round


class TrialBlock(NamedTuple):
    entry: str
    trials: tuple[int, ...]


StudyPart = tuple[int, int]  # its number from 1, and of how many
WHOLE: StudyPart = (1, 1)


def parse_part(text: str) -> StudyPart:
    """`3/8` is the third of eight parts; nothing is all of it."""
    if not text:
        return WHOLE
    number, slash, of = text.partition("/")
    if not (slash and number.isascii() and number.isdigit() and of.isascii() and of.isdigit()):
        raise UserError(f"--part {text!r} is no part; write --part 3/8 for the third of eight.")
    if not 1 <= int(number) <= int(of):
        raise UserError(f"--part {text}: parts of {of} are numbered from 1 to {of}.")
    return int(number), int(of)


def blocks_of(study: Study, part: StudyPart = WHOLE) -> list[TrialBlock]:
    """A study's blocks, or those of a part of it: every so many, so that parts have all methods and blocks.

    Blocks of trials are outermost: a study stopped half-way has all methods side by side. They begin at
    multiples of ten and are saved whole, so a study that was stopped and continued, or cut into parts, is
    made of the same batches as one that was not.
    """
    ranges = [range(first, min(first + CHUNK, study.trials)) for first in range(0, study.trials, CHUNK)]
    blocks = [TrialBlock(entry, tuple(trials)) for trials in ranges for entry in study.methods]
    number, of = part
    if of > len(blocks):
        raise UserError(
            f"--part {number}/{of}: the study has {len(blocks)} blocks (one method and up to "
            f"{CHUNK} trials each), so it can be cut into {len(blocks)} parts at most."
        )
    return blocks[number - 1 :: of]


def pending(home: StudyWriter, study: Study, part: StudyPart = WHOLE) -> list[TrialBlock]:
    """What is left of it."""
    done = {entry: {trial.trial for trial in home.finished(entry)} for entry in study.methods}
    left = (
        TrialBlock(block.entry, tuple(trial for trial in block.trials if trial not in done[block.entry]))
        for block in blocks_of(study, part)
    )
    return [block for block in left if block.trials]


def run_blocks(
    home: StudyWriter,
    study: Study,
    dataset: Dataset,
    blocks: list[TrialBlock],
    watch: Watch = lambda *_: None,
) -> Iterator[TrialBlock]:
    """Run the blocks one by one; each is on the disk when it is yielded."""
    for block in blocks:
        config, own = study.config(block.entry), study.own(block.entry)._replace(dataset=dataset)
        configs = [config.model_copy(update={"seed": study.seed + trial}) for trial in block.trials]
        results = run_batch(configs, own, partial(watch, block))
        key = results[0].parts.score.key
        trials = [
            TrialRecord(block.entry, trial, one.summary, [store.trimmed(each, key) for each in one.rounds])
            for trial, one in zip(block.trials, results, strict=True)
        ]
        home.save(block.entry, trials)
        yield block
