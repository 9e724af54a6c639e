"""A file of lines while somebody writes it: what is new since the last look, and nothing twice.

A last line without its end is waited for. A file that was cut back, replaced or begun anew is read again
from its beginning, and the reader is told.
"""

import os
from pathlib import Path
from typing import NamedTuple

from amsfl.core.records import Json
from amsfl.record import disk, sealed_text

SOME = 1 << 22  # bytes of a look: a long record comes in parts


class Tail(NamedTuple):
    """How far a file was read."""

    crc: int  # what the next line's checksum begins from
    end: int = 0
    inode: int = 0
    lines: int = 0
    bad: str = ""  # what is wrong with the next line, if it is there and not whole


class News(NamedTuple):
    rows: list[Json]
    tail: Tail
    anew: bool = False  # all rows before these mean nothing any more


def sealed(where: Path, name: str, tail: Tail, start: int) -> News:
    """New lines of a file that `seal_line` writes; `start` is what its first line begins from."""
    content, inode, anew = _new(where, name, tail)
    tail = Tail(start, 0, inode) if anew else tail._replace(inode=inode)
    lines = sealed_text.unseal_lines(content, tail.crc, known=tail.lines)
    if lines.bad and tail.end and not lines.rows:
        # the line after those known does not follow from them: other lines may stand in their place by now
        again = sealed_text.unseal_lines((where / name).read_bytes(), start)
        if again.end > tail.end:
            return News(again.rows, Tail(again.crc, again.end, inode, len(again.rows), again.bad), True)
    return News(
        lines.rows,
        Tail(lines.crc, tail.end + lines.end, inode, tail.lines + len(lines.rows), lines.bad),
        anew,
    )


def plain(where: Path, name: str, tail: Tail) -> News:
    """New lines of a file of JSON without checksums; lines that are not JSON are skipped."""
    content, inode, anew = _new(where, name, tail)
    begin = 0 if anew else tail.end
    whole = content[: content.rfind(b"\n") + 1]
    rows = []
    for line in whole.splitlines():
        try:
            rows.append(sealed_text.loads(line))
        except sealed_text.Damaged:
            continue
    return News(rows, Tail(0, begin + len(whole), inode), anew)


def _new(where: Path, name: str, tail: Tail) -> tuple[bytes, int, bool]:
    """The content after the tail, the file's inode, and whether that is another file, read from its start."""
    path = disk.inside(where, where / name)
    if not disk.exists(path):
        return b"", 0, tail.end > 0
    with disk.explain_errors("read", path), path.open("rb") as file:
        now = os.fstat(file.fileno())
        anew = tail.end > 0 and (now.st_ino != tail.inode or now.st_size < tail.end)
        file.seek(0 if anew else tail.end)
        content = file.read(SOME)
        if b"\n" not in content and len(content) == SOME:
            content += file.readline()  # one line that is longer than a look
        return content, now.st_ino, anew
