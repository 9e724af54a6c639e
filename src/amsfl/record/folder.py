"""record.json: what a folder is, which of its files are ours, and how one record replaces another.

It is written first. From then on the folder holds the new record: files of the one before are listed in
`replaces`, mean nothing any more, and are removed by whoever opens the folder next, if not right now.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from amsfl.core import DiskError, UserError
from amsfl.core.records import Json, JsonMapping
from amsfl.record import disk, sealed_text
from amsfl.record.lock import Lock
from amsfl.record.schema import FORMAT, Manifest, MethodFacts

MANIFEST = "record.json"
SETTINGS = {"run": "config.toml", "flower": "config.toml", "study": "study.toml"}
KINDS = {
    "run": "a simulated run; continue it with 'amsfl resume'",
    "flower": "a run of real clients; continue it with Flower and resume=true",
    "study": "a study; continue it with the command that began it",
}


def holds_record(folder: Path) -> bool:
    return disk.exists(folder / MANIFEST)


def read_manifest(folder: Path, *kinds: str) -> Manifest:
    """What the folder says it is; of one of these kinds, if any are named."""
    path = folder / MANIFEST
    if not disk.exists(folder):
        raise UserError(f"There is no folder {str(folder)!r}; give one that a run or a study wrote.")
    if not disk.exists(path):
        raise UserError(
            f"The folder {str(folder)!r} holds no record: it has no {MANIFEST}. Either nothing was written "
            "there, or by an amsfl too old for this one."
        )
    content = disk.read(path)
    try:
        stored = sealed_text.loads(content)
        if stored.get("format") != FORMAT:
            raise DiskError(
                f"The record in {str(folder)!r} has format {stored.get('format')!r}, and this amsfl reads "
                f"and writes format {FORMAT}: use the amsfl that wrote it "
                f"({stored.get('version', 'unknown')}), or start a new one in another folder."
            )
        stored = sealed_text.unseal(content)
        methods = {entry: MethodFacts(**facts) for entry, facts in stored.pop("methods").items()}
        manifest = Manifest(**stored, methods=methods)
    except (sealed_text.Damaged, TypeError, KeyError, AttributeError) as bad:
        raise DiskError(
            f"{str(path)!r} is damaged ({bad}); what is in the folder cannot be told without it: start a new "
            "record in another folder."
        ) from None
    if kinds and manifest.kind not in kinds:
        what = KINDS.get(manifest.kind, manifest.kind)
        raise UserError(f"The folder {str(folder)!r} holds {what}. Or choose another folder.")
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    plain = manifest._asdict()
    plain["methods"] = {entry: facts._asdict() for entry, facts in manifest.methods.items()}
    write_sealed(folder / MANIFEST, plain)


def changed_values(was: JsonMapping, now: JsonMapping) -> dict[str, list[Any]]:
    """Both values of what is not the same, by key."""
    pairs = {key: [was.get(key), now.get(key)] for key in sorted(was.keys() | now.keys())}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def check_free(folder: Path, files: Iterable[str], kinds: Sequence[str], force: bool) -> Manifest | None:
    """A new record may begin here: none is there, or one to be replaced (returned), and no foreign file."""
    if holds_record(folder):
        stored = read_manifest(folder, *kinds)
        if not force:
            raise UserError(
                f"The folder {str(folder)!r} already holds a {stored.kind}; choose another --out, continue "
                f"it with 'amsfl resume {folder}', or overwrite it with --force."
            )
        return stored
    for name in files:
        if disk.exists(folder / name):
            raise UserError(
                f"The folder {str(folder)!r} has a file {name!r} that is no record's of this amsfl, and it "
                "would be overwritten; choose another --out, or move it away."
            )
    return None


def start_record(folder: Path, manifest: Manifest, old: Manifest | None) -> None:
    """The new record stands with one rename; what the old one left goes after it."""
    stale = [name for name in (old.files if old else []) if disk.exists(folder / name)]
    write_manifest(folder, manifest._replace(replaces=stale))


class RecordWriter:
    """A record's folder with us as its only writer, until the `with` ends."""

    def __init__(self, where: Path, lock: Lock, *kinds: str):
        self.where, self.lock, self.manifest = where, lock, read_manifest(where, *kinds)
        self._remove_leftovers()
        if read_settings(where, self.manifest) != self._settings():  # gone, or from before settings changed
            self._write_settings()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.lock.release()

    def set_manifest(self, **fields: Any) -> None:
        self.manifest = self.manifest._replace(**fields)
        write_manifest(self.where, self.manifest)

    def change(self, settings: Json, machine: Json, since: int | None = None) -> None:
        """What the record goes on with, from a round on; what it had before stays in the manifest."""
        had = self.manifest.settings | self.manifest.machine
        if fresh := changed_values(had, settings | machine):
            changed = [*self.manifest.changed, ({} if since is None else {"round": since}) | fresh]
            self.set_manifest(settings=settings, machine=machine, changed=changed)
            self._write_settings()

    def _remove_leftovers(self) -> None:
        """What the record before this one left behind, and half-written files of a killed process."""
        if self.manifest.replaces:
            for name in self.manifest.replaces:
                disk.remove(disk.inside(self.where, self.where / name))
            self.set_manifest(replaces=[])
        for name in (MANIFEST, *self.manifest.files):
            disk.clear(self.where / name)

    def _settings(self) -> Json:
        """What the file of settings says; TOML has no None."""
        return {key: value for key, value in self.manifest.settings.items() if value is not None}

    def _write_settings(self) -> None:
        content = sealed_text.seal_toml(self._settings(), self.manifest.identity)
        disk.write_atomically(self.where / SETTINGS[self.manifest.kind], content)


def damaged(path: Path, why: object, then: str) -> DiskError:
    return DiskError(f"{str(path)!r} is damaged ({why}): {then}")


def read_settings(where: Path, manifest: Manifest) -> Json | None:
    """The file of settings as we wrote it, None if it is gone; edited settings are an error."""
    path = where / SETTINGS[manifest.kind]
    if not disk.exists(path):
        return None
    content = disk.read(path)
    try:
        return sealed_text.unseal_toml(content, manifest.identity)
    except sealed_text.Damaged as bad:
        if manifest.kind == "study":
            then = "Remove the file, and the study's command writes it."
            raise damaged(path, bad, f"a study keeps the settings it began with. {then}") from None
        raise damaged(
            path,
            _edited(content, manifest.settings) or bad,
            "a run keeps the settings it began with. Remove the file, and 'amsfl resume' writes the true "
            f"one; for other settings start a new run: 'amsfl run --config {path} --out FOLDER'.",
        ) from None


def _edited(content: bytes, was: Json) -> str:
    """Which settings somebody changed; "" if the file cannot be read."""
    try:
        stored = sealed_text.toml(content)
    except sealed_text.Damaged:
        return ""
    changes = changed_values(stored, was).items()
    return "; ".join([f"{key} is {there!r} there, the run has {own!r}" for key, (there, own) in changes][:3])


def read_sealed(path: Path, then: str, start: int = 0) -> Json:
    """A sealed JSON file; `then` is the way out if it is not as it was written."""
    content = disk.read(path)
    try:
        return sealed_text.unseal(content, start)
    except sealed_text.Damaged as bad:
        raise damaged(path, bad, then) from None


def write_sealed(path: Path, value: Json, start: int = 0, private: bool = False) -> None:
    """JSON that notices when it was changed, whole or not at all; a `private` file only its owner reads."""
    disk.write_atomically(path, sealed_text.seal(value, start), 0o600 if private else 0o666)
