"""A folder's record as a list of events that only grows, until the folder holds another record.

Every call reads what is new on disk and nothing twice. A reader sends a cursor and gets the events after it;
one whose cursor belongs to another record starts over.
"""

from pathlib import Path

from amsfl.core import Score, UserError
from amsfl.core.records import Json
from amsfl.record import Manifest, RoundRecord, Summary, folder, parts, read_manifest, run_reader, study, tail
from amsfl.report.live import page_text, progress
from amsfl.report.live.progress import TrialProgress
from amsfl.report.measure.text import shown

AT_MOST = 2000  # events of one answer: a phone loads a long record in parts
KINDS = ("run", "flower", "study")
Event = Json


class Follower:
    def __init__(self, where: Path):
        self.where, self.generation, self.problem = where, 0, ""
        self._begin(None)

    def _begin(self, manifest: Manifest | None) -> None:
        """Forget everything: the folder holds another record."""
        self.generation += 1
        self.manifest = manifest
        self.events: list[Event] = []
        self.lines = self.trouble = tail.Tail(0)
        if manifest:
            is_study = manifest.kind == "study"
            self.lines = tail.Tail(study.running_start(manifest) if is_study else manifest.identity)
        self.files: set[str] = set()  # of finished trials, already read
        self.trials: dict[tuple[str, int], TrialProgress] = {}
        self.latest: TrialProgress | None = None
        self.latest_at = 0  # number of events when `latest` was set
        self.summary: Summary | None = None
        self.main: Score | None = None  # of the run
        self.scores: dict[str, bool] = {}  # key -> whether all its values lie between 0 and 1

    def news(self, cursor: str) -> Json:
        """The events after the cursor, as JSON."""
        self._update()
        anew = cursor.rpartition(".")[0] != str(self.generation)
        number = cursor.rpartition(".")[2]
        start = int(number) if not anew and number.isdecimal() and len(number) < 12 else 0
        end = min(start + AT_MOST, len(self.events))
        answer = {
            "cursor": f"{self.generation}.{end}",
            "anew": anew,
            "more": end < len(self.events),
            "events": self.events[start:end],
            "state": page_text.state(self.where, self.manifest, self.latest, self.summary, self.problem),
        }
        if anew:
            answer["head"] = page_text.head(self.where, self.manifest)
        if self.manifest:
            answer["scores"] = page_text.scores(self.manifest, self.scores, self.main)
        if self.manifest and self.latest and (anew or self.latest_at > start):
            answer["sites"] = progress.site_table(self.manifest, self.latest)
            answer["worth"] = progress.worth_table(self.manifest, self.latest)
        return answer

    def _update(self) -> None:
        """What cannot be read now is reported, and tried again the next time."""
        self.problem = ""
        try:
            self._record()
        except UserError as error:
            self.problem = str(error)
        except (KeyError, TypeError, ValueError, IndexError) as error:  # sealed, and yet of another shape
            self.problem = f"The record has a shape that this amsfl does not know ({error!r})."

    def _record(self) -> None:
        if parts.holds_parts(self.where):
            one = parts.parts(self.where)[0]
            raise UserError(f"The study is in parts; watch one of them: 'amsfl watch {one}'.")
        exists = self.where.is_dir() and folder.holds_record(self.where)
        manifest = read_manifest(self.where, *KINDS) if exists else None
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
        # before the rounds: then those of an ended run are complete
        summary = run_reader.read_summary(self.where, manifest)
        while True:
            new = tail.sealed(self.where, run_reader.ROUNDS, self.lines, manifest.identity)
            if new.anew:
                self._begin(manifest)
            self.lines = new.tail
            for row in new.rows:
                self._round(manifest, entry, 0, RoundRecord.of(row))
            if not new.rows:
                break
        self.summary = summary
        if self.lines.bad:
            self.problem = (
                f"{run_reader.ROUNDS}: {self.lines.bad}. Waiting for it; see 'amsfl verify {self.where}'."
            )
        if run_reader.TROUBLE in manifest.files:
            refused = tail.plain(self.where, run_reader.TROUBLE, self.trouble)
            self.trouble = refused.tail
            for row in refused.rows:
                client, why = row.get("client"), str(row.get("reason", ""))
                label = "an unknown client" if client is None else f"client {client}"
                who = str(row.get("name") or label)
                self.events.append({"trouble": {"who": shown(who), "why": shown(why)}})

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
        new = tail.sealed(self.where, study.RUNNING, self.lines, study.running_start(manifest))
        self.lines = new.tail
        for row in new.rows:
            self._round(manifest, str(row["entry"]), int(row["trial"]), RoundRecord.of(row["round"]))

    def _round(self, manifest: Manifest, entry: str, trial: int, record: RoundRecord) -> None:
        """Append a round as an event, unless it was read before a study was stopped and continued."""
        before = self.trials.get((entry, trial))
        if before and record.round <= before.record.round:
            return
        self.latest = self.trials[entry, trial] = progress.next_progress(
            manifest, before, entry, trial, record
        )
        self.main = self.main or progress.main_score(manifest, record)
        values = progress.score_values(record, self.main)
        for key, value in values.items():
            self.scores[key] = self.scores.get(key, True) and 0 <= value <= 1
        at = {
            "time": progress.seconds_now(manifest, self.latest),
            "rounds": record.round,
            "wall": self.latest.wall,
        }
        series = list(manifest.methods).index(entry)
        self.events.append({"series": series, "trial": trial, "at": at, "scores": values})
        self.latest_at = len(self.events)
