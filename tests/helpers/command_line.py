"""The command, called in this process: what it prints, how it ends, and what it lets through."""

import io
import re
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from amsfl.cli.app import call


class Outcome(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str
    output: str  # both, as they came
    exception: BaseException | None  # a traceback that a user would see


class Tee(io.StringIO):
    def __init__(self, both: io.StringIO) -> None:
        super().__init__()
        self.both = both

    def write(self, text: str) -> int:
        self.both.write(text)
        return super().write(text)


def invoke(*words: object) -> Outcome:
    """`amsfl WORDS`"""
    both = io.StringIO()
    out, err, exception = Tee(both), Tee(both), None
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = call([str(word) for word in words])
        except Exception as error:
            code, exception = 1, error
    return Outcome(code, out.getvalue(), err.getvalue(), both.getvalue(), exception)


def succeed(*words: object) -> Outcome:
    """`amsfl WORDS`, which must end well."""
    done = invoke(*words)
    assert done.exit_code == 0, done.output
    return done


def refused(result: Outcome, sentence: str, code: int = 2) -> None:
    """One sentence, or pattern, on stderr, exit code 2 (1 where a disk is to blame), no traceback."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("amsfl: ") and result.stderr.count("\n") == 1, result.stderr
    assert sentence in result.stderr or re.search(sentence, result.stderr), result.stderr
