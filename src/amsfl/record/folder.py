"""record.json: what a folder is, which of its files are ours, and how one record replaces another.

It is written first. From then on the folder holds the new record: files of the one before are listed in
`replaces`, mean nothing any more, and are removed by whoever opens the folder next, if not right now.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from amsfl.core import DiskError, UserError
from amsfl.core.records import Json
from amsfl.record import disk, sealed_text
from amsfl.record.lock import Lock
from amsfl.record.schema import FORMAT, Manifest, MethodFacts

MANIFEST = "record.json"
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
    disk.write_atomically(folder / MANIFEST, sealed_text.seal(plain))


def change_settings(folder: Path, manifest: Manifest, settings: Json, machine: Json, since: Json) -> Manifest:
    """Write what a record goes on with, where that is not what it had; both stay in the manifest."""
    was, now = manifest.settings | manifest.machine, settings | machine
    pairs = {key: [was.get(key), now.get(key)] for key in sorted(was.keys() | now.keys())}
    fresh = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
    if fresh:
        changed = [*manifest.changed, since | fresh]
        manifest = manifest._replace(settings=settings, machine=machine, changed=changed)
        write_manifest(folder, manifest)
    return manifest


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


def start_record(folder: Path, manifest: Manifest, old: Iterable[str]) -> None:
    """The new record stands with one rename; what the old one left goes after it."""
    stale = [name for name in old if disk.exists(folder / name)]
    write_manifest(folder, manifest._replace(replaces=stale))


def remove_replaced(folder: Path, manifest: Manifest) -> Manifest:
    """Remove what the record before this one left behind. Whoever writes must hold the lock."""
    if not manifest.replaces:
        return manifest
    for name in manifest.replaces:
        disk.remove(disk.inside(folder, folder / name))
    manifest = manifest._replace(replaces=[])
    write_manifest(folder, manifest)
    return manifest


def remove_temporary(folder: Path, manifest: Manifest) -> None:
    """Half-written files of a process that was killed."""
    for name in (MANIFEST, *manifest.files):
        disk.clear(folder / name)


def lock_folder(folder: Path) -> Lock:
    """The folder with us as its only writer."""
    disk.make_folder(folder)
    return Lock(folder)


def damaged(path: Path, why: object, then: str) -> DiskError:
    return DiskError(f"{str(path)!r} is damaged ({why}): {then}")


def read_settings(
    path: Path, manifest: Manifest, then: str, why: Callable[[bytes], str] = lambda content: ""
) -> Json | None:
    """A sealed TOML file of settings as we wrote it, None if it is gone; `why` may know what was changed."""
    if not disk.exists(path):
        return None
    content = disk.read(path)
    try:
        return sealed_text.unseal_toml(content, manifest.identity)
    except sealed_text.Damaged as bad:
        raise damaged(path, why(content) or bad, then) from None


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
