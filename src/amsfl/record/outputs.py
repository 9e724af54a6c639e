"""Files that are made from records and can be made again: a manifest beside them says which are ours."""

from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from zlib import crc32

from amsfl.core import DiskError, UserError
from amsfl.record import disk, sealed_text
from amsfl.record.folder import write_sealed
from amsfl.record.lock import Lock

LISTED = "report.json"
LOCK = ".amsfl-report-lock"


def publish(where: Path, files: Mapping[str, disk.Content]) -> None:
    """Write the files in place of those of the last report; other files in the folder are left alone."""
    with Lock(where, LOCK):
        old = listed(where)
        taken = [name for name in (*files, LISTED) if name not in old and disk.exists(where / name)]
        if taken:
            raise UserError(
                f"The folder {str(where)!r} has a file {taken[0]!r} that is no report's of this amsfl, and "
                "it would be overwritten; choose another --out, or move it away."
            )
        # the list before the files: what a killed process leaves is still known to be ours
        write_sealed(where / LISTED, {"files": dict.fromkeys([*old, *files, LISTED], "")})
        for name in (*old, LISTED):
            disk.clear(where / name)
        for name, content in files.items():
            disk.make_folder((where / name).parent)
            disk.write_atomically(disk.inside(where, where / name), content)
        for name in old.keys() - files.keys() - {LISTED}:
            disk.remove(disk.inside(where, where / name))
        sums = {name: f"{reduce(_add, disk.pieces(content), 0):08x}" for name, content in files.items()}
        write_sealed(where / LISTED, {"files": sums | {LISTED: ""}})


def _add(crc: int, piece: bytes | memoryview) -> int:
    return crc32(piece, crc)


def listed(where: Path) -> dict[str, str]:
    """Our files and their checksums, "" where none is known."""
    path = where / LISTED
    if not disk.exists(path):
        return {}
    content = disk.read(path)
    try:
        return {str(name): str(crc) for name, crc in sealed_text.unseal(content)["files"].items()}
    except (sealed_text.Damaged, KeyError, AttributeError) as bad:
        raise DiskError(
            f"{str(path)!r} is damaged ({bad}); remove it and the report, then run 'amsfl report' again."
        ) from None


def changed(where: Path) -> list[str]:
    """Files of ours that are not as they were written, or that a stopped process did not come to write."""
    names = []
    for name, crc in listed(where).items():
        path = where / name
        if name != LISTED and (not path.is_file() or f"{crc32(path.read_bytes()):08x}" != crc):
            names.append(name)
    return names
