"""A folder's record as a list of events that only grows, until the folder holds another record.

Every look reads what is new on the disk and nothing twice. A reader names how far it has come (a cursor) and
gets what came after; one whose cursor is of another record begins anew.
"""

from pathlib import Path
from typing import Any

from amsfl.core import Score, UserError
from amsfl.record import Manifest, RoundRecord, Summary, folder, parts, read_manifest, run_reader, study, tail
from amsfl.report.live import page_text, sites, track
from amsfl.report.live.track import Latest

AT_MOST = 2000  # events of one answer: a phone takes a long record in parts
KINDS = ("run", "flower", "study")
Event = dict[str, Any]


class Follower:
    def __init__(self, where: Path):
        self.where, self.generation, self.said = where, 0, ""
        self._begin(None)

    def _begin(self, manifest: Manifest | None) -> None:
        """A record that nothing is known of yet."""
        self.generation += 1
        self.manifest = manifest
        self.events: list[Event] = []
        self.lines = self.trouble = tail.Tail(0)
        if manifest:
            study_of_many = manifest.kind == "study"
            self.lines = tail.Tail(study.running_start(manifest) if study_of_many else manifest.identity)
        self.files: set[str] = set()  # of a study's finished trials, those that were read
        self.trials: dict[tuple[str, int], Latest] = {}
        self.latest: Latest | None = None
        self.moved = 0  # how many events there were when `latest` came
        self.summary: Summary | None = None
        self.main: Score | None = None  # what the run goes by
        self.scores: dict[str, bool] = {}  # key -> whether all its values lie between 0 and 1

    def news(self, cursor: str) -> dict[str, Any]:
        """What came after the cursor, as JSON holds it."""
        self._look()
        anew = cursor.rpartition(".")[0] != str(self.generation)
        known = 0 if anew else _number(cursor.rpartition(".")[2])
        upto = min(known + AT_MOST, len(self.events))
        found = {
            "cursor": f"{self.generation}.{upto}",
            "anew": anew,
            "more": upto < len(self.events),
            "events": self.events[known:upto],
            "state": page_text.state(self.where, self.manifest, self.latest, self.summary, self.said),
        }
        if anew:
            found["head"] = page_text.head(self.where, self.manifest)
        if self.manifest:
            found["scores"] = page_text.scores(self.manifest, self.scores, self.main)
        if self.manifest and self.latest and (anew or self.moved > known):
            found["sites"] = sites.sites(self.manifest, self.latest)
        return found

    def _look(self) -> None:
        """Whatever cannot be read now is said, and looked at again the next time."""
        self.said = ""
        try:
            self._record()
        except UserError as trouble:
            self.said = str(trouble)
        except (KeyError, TypeError, ValueError, IndexError) as strange:  # sealed, and yet no record of ours
            self.said = f"The record has a shape that this amsfl does not know ({strange!r})."

    def _record(self) -> None:
        if parts.holds_parts(self.where):
            one = parts.parts(self.where)[0]
            raise UserError(f"The study is in parts; watch one of them: 'amsfl watch {one}'.")
        there = self.where.is_dir() and folder.holds_record(self.where)
        manifest = read_manifest(self.where, *KINDS) if there else None
        old = self.manifest
        if (manifest and manifest.identity) != (old and old.identity) or (manifest and manifest.replaces):
            self._begin(manifest)
        self.manifest = manifest
        if manifest is None or manifest.replaces:
            return
        if manifest.kind == "study":
            self._study(manifest)
        else:
            self._run(manifest)

    def _run(self, manifest: Manifest) -> None:
        entry = next(iter(manifest.methods))
        # the end before the rounds: those of an ended run are all there
        ended = run_reader.read_summary(self.where, manifest)
        while True:
            found = tail.sealed(self.where, run_reader.ROUNDS, self.lines, manifest.identity)
            if found.anew:
                self._begin(manifest)
            self.lines = found.tail
            for row in found.rows:
                self._round(manifest, entry, 0, RoundRecord.of(row))
            if not found.rows:
                break
        self.summary = ended
        if self.lines.bad:
            self.said = (
                f"{run_reader.ROUNDS}: {self.lines.bad}. Waiting for it; see 'amsfl verify {self.where}'."
            )
        if run_reader.TROUBLE in manifest.files:
            told = tail.plain(self.where, run_reader.TROUBLE, self.trouble)
            self.trouble = told.tail
            self.events += [{"trouble": sites.trouble(manifest, row)} for row in told.rows]

    def _study(self, manifest: Manifest) -> None:
        for name in manifest.files:
            if name.startswith(f"{study.TRIALS}/") and name not in self.files:
                trials = study.read_trials(self.where, manifest, name)
                self.files.update([name] if trials else [])
                for trial in trials:
                    for each in trial.rounds:
                        self._round(manifest, trial.entry, trial.trial, each)
        if study.RUNNING not in manifest.files:
            return
        found = tail.sealed(self.where, study.RUNNING, self.lines, study.running_start(manifest))
        self.lines = found.tail
        for row in found.rows:
            self._round(manifest, str(row["entry"]), int(row["trial"]), RoundRecord.of(row["round"]))

    def _round(self, manifest: Manifest, entry: str, trial: int, record: RoundRecord) -> None:
        """A round becomes an event; one that is known already, of a study that was stopped, is none."""
        before = self.trials.get((entry, trial))
        if before and record.round <= before.record.round:
            return
        self.latest = self.trials[entry, trial] = track.next_latest(before, entry, trial, record)
        self.main = self.main or track.judged_by(manifest, record)
        values = track.values(record, self.main)
        for key, value in values.items():
            self.scores[key] = self.scores.get(key, True) and 0 <= value <= 1
        self.events.append(track.event(manifest, self.latest, values))
        self.moved = len(self.events)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 12 else 0
