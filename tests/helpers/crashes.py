"""Ways to hurt a record: crash at every file operation, fail it, flip bits."""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

OPERATIONS = ("open", "write", "fsync", "replace", "unlink", "ftruncate", "mkdir")
Happened = list[tuple[str, str]]  # operation, the name of the file


class Crash(BaseException):
    """The process is gone: nothing that it does after this reaches the disk."""


@contextmanager
def watched(before: Callable[[int, str, tuple[Any, ...]], None]) -> Iterator[Happened]:
    """Every file operation that changes something, in order; `before(number, name, arguments)` may raise."""
    real = {name: getattr(os, name) for name in OPERATIONS}
    close, happened, files = os.close, list[tuple[str, str]](), dict[int, str]()

    def changes(name: str, arguments: tuple[Any, ...]) -> bool:
        # a file that is only read, or a folder that is opened to be flushed, cannot be left half-done
        return name != "open" or bool(arguments[1] & (os.O_WRONLY | os.O_RDWR))

    def stand_in(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            if changes(name, arguments):
                target = arguments[0]
                said = files.get(target, "?") if isinstance(target, int) else Path(target).name
                happened.append((name, said))
                before(len(happened) - 1, name, arguments)
            done = real[name](*arguments, **keywords)
            if name == "open":
                files[done] = Path(arguments[0]).name
            return done

        return call

    def forget(file: int) -> None:
        files.pop(file, None)
        close(file)

    for name in OPERATIONS:
        setattr(os, name, stand_in(name))
    os.close = forget
    try:
        yield happened
    finally:
        for name in OPERATIONS:
            setattr(os, name, real[name])
        os.close = close
        for file in files:  # what the system does for a dead process: its files are closed, its locks go
            close(file)


def operations(work: Callable[[], object]) -> Happened:
    """What the work does to the disk."""
    with watched(lambda *_: None) as happened:
        work()
    return happened


def crash_at(number: int, work: Callable[[], object], torn: bool = False) -> None:
    """Do the work, and die before its operation of that number, or in the middle of it if it is a write."""
    dead = False

    def before(place: int, name: str, arguments: tuple[Any, ...]) -> None:
        nonlocal dead
        if place >= number and not dead:
            dead = True
            if torn and name == "write":
                # the real thing, half of it: what a power cut or a kill may leave
                os.pwrite(
                    arguments[0], arguments[1][: len(arguments[1]) // 2], os.fstat(arguments[0]).st_size
                )
        if dead:
            raise Crash

    try:
        with watched(before):
            work()
    except Crash:
        return


def fail_at(number: int, error: int, work: Callable[[], object]) -> None:
    """Do the work on a disk that refuses its operation of that number, and all writes after it."""

    def before(place: int, name: str, _: tuple[Any, ...]) -> None:
        if place == number or (place > number and name in ("write", "open")):
            raise OSError(error, os.strerror(error))

    with watched(before):
        work()


def flips(folder: Path, count: int, seed: int) -> Iterator[str]:
    """So many single bits of the folder's files, all files alike: each is flipped while the loop looks."""
    rng = random.Random(seed)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    for number in range(count):
        path = files[number % len(files)]
        content = path.read_bytes()
        place, bit = rng.randrange(len(content)), rng.randrange(8)
        spoiled = bytearray(content)
        spoiled[place] ^= 1 << bit
        path.write_bytes(spoiled)
        try:
            yield f"{path.relative_to(folder)}, byte {place} of {len(content)}, bit {bit}"
        finally:
            path.write_bytes(content)


def everything(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, hidden ones too."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
