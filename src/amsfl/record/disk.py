"""Files that are written whole or not at all, and JSON that notices when it was changed.

A file of JSON, or each line of one, ends in a checksum of all before it. Errors are sentences.
"""

import errno
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
from pydantic import TypeAdapter, ValidationError

from amsfl.core import DiskError, UserError
from amsfl.core.records import Array, Json

T = TypeVar("T")
SUM = b'"crc": "'
LONGEST = 100  # characters of a name that becomes a folder's
LISTED = "report.json"  # says that a folder's files are a report's or an export's
WAYS_OUT = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EACCES: "see who may write there, or choose another folder",
    errno.EROFS: "choose a folder that can be written",
}
LEFT = re.compile(r"\..+\.\d+-[0-9a-f]{8}\.new")  # beside a file that was being written


def user_cache() -> Path:
    """The user's folder for what can be had again."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "amsfl"


@contextmanager
def explain_errors(what: str, path: Path, then: Callable[[], str] = str) -> Iterator[None]:
    """`with explain_errors("written", path):` around what the disk may refuse; `then` says what to do."""
    try:
        yield
    except OSError as error:
        ways = error.strerror or str(error), WAYS_OUT.get(error.errno or 0), then()
        why = "; ".join(filter(None, ways))
        raise DiskError(f"{str(path)!r} cannot be {what}: {why}.") from error


def write_all(file: int, content: bytes) -> None:
    view = memoryview(content)
    while view:  # a nearly full disk takes a part of a write
        view = view[os.write(file, view) :]


def read(path: Path) -> bytes:
    with explain_errors("read", path):
        return path.read_bytes()


def write_atomically(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a new file beside it, flush it to the disk, rename it over the old one, and flush the folder.

    A device or a pipe is written into.
    """
    with explain_errors("written", path):
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("wb") as special:  # it cannot be replaced, and must not be
                special.write(content)
            return
        beside = path.with_name(f".{path.name}.{os.getpid()}-{token_hex(4)}.new")
        try:
            file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
            try:
                write_all(file, content)
                os.fsync(file)
            finally:
                os.close(file)
            os.replace(beside, path)
        except BaseException:
            with suppress(OSError):
                beside.unlink()
            raise
        sync_folder(path.parent)


def publish(where: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a report or an export, over those of the last one and over no others."""
    make_folder(where)
    taken = [name for name in (*files, LISTED) if exists(where / name)]
    if taken and LISTED not in taken:
        raise UserError(
            f"The folder {str(where)!r} has a file {taken[0]!r} that is no report's of this amsfl, and "
            "it would be overwritten; choose another --out, or move it away."
        )
    # before the files: what a killed process leaves is still known to be ours
    write_atomically(where / LISTED, json.dumps({"files": sorted(files)}, indent=1).encode())
    for name, content in files.items():
        make_folder((where / name).parent)
        write_atomically(where / name, content)


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def sync_folder(folder: Path) -> None:
    """Names to the disk: without this a power cut may take back a rename. Windows has no such call."""
    if os.name == "nt":
        return
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno != errno.EINVAL:  # file systems that cannot do it say so this way
            raise
    finally:
        os.close(file)


def remove(path: Path) -> None:
    with explain_errors("removed", path):
        path.unlink(missing_ok=True)


def make_folder(folder: Path, private: bool = False) -> None:
    """With the folders above it; a `private` one only its owner enters."""
    with explain_errors("made", folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(exist_ok=True, mode=0o700 if private else 0o777)


def clear(folder: Path) -> None:
    """Remove what killed `write_atomically`s left in a folder."""
    for beside in folder.glob(".*.new"):
        if LEFT.fullmatch(beside.name):
            remove(beside)


def exists(path: Path) -> bool:
    """Whether the name is taken, be it by a link to nowhere."""
    return os.path.lexists(path)


def safe_name(name: str, what: str) -> str:
    """A name that becomes a file's or folder's: it must not lead out of where it is put."""
    bad = (
        not name.strip()
        or name.startswith(".")
        or len(name) > LONGEST
        or len(name.encode("utf-8", "surrogatepass")) > 200
        or any(c in '/\\:*?"<>|' or not c.isprintable() for c in name)
    )
    if bad:
        short = name if len(name) <= 60 else name[:57] + "..."
        raise UserError(
            f"{what} {short!r} cannot name a folder: it takes letters, digits, spaces and most signs, at "
            f"most {LONGEST} of them, no slash, colon or star, and no dot in front."
        )
    return name


class Damaged(Exception):
    """Not what was written; says in a few words what is wrong with it."""


def dumps(value: Any, indent: int | None = None) -> str:
    """JSON that every reader takes: it has no NaN and no infinity, so those become null."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), indent=indent, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def checksum(value: Any) -> int:
    """A number that stands for plain data, whatever the order of its keys."""
    return crc32(json.dumps(value, sort_keys=True).encode())


def checksum_arrays(*arrays: Array) -> str:
    """A checksum of numbers, their shape and their type."""
    crc = 0
    for array in arrays:
        crc = crc32(f"{array.dtype.str}{array.shape}".encode(), crc)
        crc = crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, crc)
    return f"{crc:08x}"


def seal(value: Json, indent: int | None = None) -> bytes:
    """A line of JSON, or with `indent` a file of one field a line."""
    body = dumps(value, indent)[:-1].rstrip("\n").encode() + (b", " if value else b"")
    return body + SUM + b'%08x"}\n' % crc32(body)


def unseal(text: bytes) -> Json:
    """What `seal` was given."""
    body, _, end = text.rpartition(SUM)
    if end.rstrip(b"\n") != b'%08x"}' % crc32(body):
        raise Damaged("its checksum does not fit")
    return loads(body.rstrip().removesuffix(b",") + b"}")


def loads(text: bytes) -> Json:
    """JSON as it stands: an object, or it is damaged."""
    try:
        value = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else str(error)[:200]
        raise Damaged(f"it is not valid JSON: {why}") from None
    if not isinstance(value, dict):
        raise Damaged("it is JSON, but no object")
    return value


def unseal_lines(text: bytes, numbered: str = "") -> tuple[list[Json], int, str]:
    """The lines of a file up to a damaged one, their bytes, and what is wrong with the line after them.

    A last one that was left half-written is passed over. `numbered`: the field that is 1, 2, ... by line.
    """
    rows: list[Json] = []
    begin = 0
    while (end := text.find(b"\n", begin)) >= 0:
        try:
            row, place = unseal(text[begin:end]), len(rows) + 1
            if numbered and row.get(numbered) != place:
                raise Damaged(f"it is of {numbered} {row.get(numbered)}")
        except Damaged as bad:
            return rows, begin, f"line {len(rows) + 1}: {bad}"
        rows.append(row)
        begin = end + 1
    return rows, begin, ""


def plain(value: Any) -> Any:
    """A NamedTuple of numbers, texts, lists and others like it as JSON can hold it."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def from_plain(kind: type[T], data: Any) -> T:
    """The record that `plain` was given; raises Damaged where the data do not fit its fields."""
    try:
        return TypeAdapter(kind).validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or kind.__name__
        raise Damaged(f"{where} is {str(first['input'])[:40]!r}: {first['msg']}") from None


def damaged(path: Path, why: object, then: str) -> DiskError:
    return DiskError(f"{str(path)!r} is damaged ({why}): {then}")


def read_sealed(path: Path, then: str) -> Json:
    """A file that `write_sealed` wrote; `then` is the way out if it is not as it was written."""
    content = read(path)
    try:
        return unseal(content)
    except Damaged as bad:
        raise damaged(path, bad, then) from None


def write_sealed(path: Path, value: Json, private: bool = False) -> None:
    """JSON that notices when it was changed, whole or not at all; a `private` file only its owner reads."""
    write_atomically(path, seal(value, 1), 0o600 if private else 0o666)
