"""What goes wrong is one sentence on stderr: exit code 2 for a mistake, 1 for the machine's trouble."""

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cyclopts import CycloptsError, MissingArgumentError, UnknownOptionError

from amsfl.cli.output import plain
from amsfl.core import Remark, UserError, missing, nearest
from amsfl.core.names import blame

OTHER_NAMES = {  # flags of other tools, and ours
    "--algorithm": "--method",
    "--alpha": "--partition",
    "--batch-size": "--batch",
    "--budget-seconds": "--budget",
    "--clients-per-round": "--cohort",
    "--compression": "--transmit",
    "--csv": "--data",
    "--dataset": "--data",
    "--duration": "--seconds",
    "--file": "--data",
    "--fraction": "--cohort",
    "--iterations": "--rounds",
    "--learning-rate": "--lr",
    "--local-epochs": "--epochs",
    "--local-steps": "--steps",
    "--n-clients": "--clients",
    "--network": "--model",
    "--num-clients": "--clients",
    "--num-rounds": "--rounds",
    "--output": "--out",
    "--random-seed": "--seed",
    "--strategy": "--method",
    "--target-column": "--label",
}


def usage(mistake: CycloptsError, words: Sequence[str]) -> str:
    """What is wrong with the words that were typed, in a sentence that suggests the right ones."""
    command = " ".join(["amsfl", *words[: len(mistake.command_chain or ())]])
    if isinstance(mistake, UnknownOptionError):
        typed = str(mistake.token.keyword or mistake.token.value).partition("=")[0]
        flags = [name for each in mistake.argument_collection for name in each.names if name.startswith("--")]
        other = OTHER_NAMES.get(typed)
        close = f" (did you mean {other}?)" if other in flags else nearest(typed, flags)
        return f"'{command}' has no flag {typed}{close}."
    if isinstance(mistake, MissingArgumentError) and mistake.argument is not None:
        what = mistake.argument
        return f"'{command}' needs {what.names[0]}, {what.parameter.help}; see '{command} --help'."
    mistake.verbose = False
    sentence = " ".join(str(mistake).split()).rstrip(".")
    return f"{sentence}; see '{command} --help'."


@contextmanager
def sentences() -> Iterator[None]:
    """`with sentences():`, or `sentences()(command)`: what a user's mistake or a full disk comes to."""
    show = warnings.showwarning

    def showwarning(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
        """Remarks as one line each; other warnings as ever."""
        if issubclass(category, Remark):
            _say(str(message))
        else:
            show(message, category, *rest, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", Remark)
        warnings.showwarning = showwarning
        try:
            yield
        except UserError as mistake:
            _say(str(mistake))
            raise SystemExit(mistake.code) from mistake
        except ModuleNotFoundError as absent:
            if not missing(absent):
                raise
            _say(missing(absent))
            raise SystemExit(2) from absent
        except (BrokenPipeError, CycloptsError):
            raise
        except OSError as trouble:
            what = trouble.strerror or str(trouble) or type(trouble).__name__
            _say(f"{trouble.filename}: {what}." if trouble.filename else f"{what}.")
            raise SystemExit(1) from trouble
        except Exception as trouble:
            # how Python says that a thread's stack got no memory
            if isinstance(trouble, MemoryError) or str(trouble) == "can't start new thread":
                _say("There is not enough memory for this; use fewer clients, a smaller model or less data.")
                raise SystemExit(1) from trouble
            said = blame(trouble)
            if not said:
                raise
            _say(said)
            raise SystemExit(2) from trouble


def _say(sentence: str) -> None:
    print(f"amsfl: {plain(sentence)}", file=sys.stderr)
