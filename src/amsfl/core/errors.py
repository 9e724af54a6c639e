"""Errors that a user can mend: they say what is wrong, why, and what to type. Missing packages."""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import Any

MOST = 40  # names in a sentence


class UserError(ValueError):
    """A mistake in the input, not in the program: printed as a sentence, exit code 2, no traceback."""

    code = 2


class DiskError(UserError):
    """What the disk refuses or gives back damaged; the message is a sentence, as for a user's mistake."""

    code = 1


class Remark(UserWarning):
    """Something worth a line before work begins, no mistake: a setting without effect, a bound."""


def listed(names: Iterable[str], most: int = MOST) -> str:
    """Names in a sentence; of very many, as a wide table has them, the first ones, and how many more."""
    some = list(names)
    more = f" and {len(some) - most:,} more" if len(some) > most else ""
    return ", ".join(some[:most]) + more


def nearest(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'fedavg'?)` for an unknown word, or the list of what there is."""
    names = list(known)
    close = get_close_matches(word.lower(), names, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else f" (known: {listed(names)})"


def first_line(error: Exception) -> str:
    """Its kind and what it says, without the pages that some libraries add."""
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0].rstrip('.')}."


EXTRAS = {  # of amsfl, by the package that is missing
    "cryptography": "flower",
    "dp_accounting": "privacy",
    "flwr": "flower",
    "mlflow": "mlflow",
    "onnx": "export",
    "openpyxl": "excel",
    "prometheus_client": "prometheus",
    "pyarrow": "parquet",
    "tensorboard": "tensorboard",
    "torch": "torch",
    "wandb": "wandb",
}


def missing(error: ModuleNotFoundError) -> str:
    """What to type where an optional package is missing; empty for any other package."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    return f"This needs {package}, which is not installed: pip install 'amsfl[{extra}]'." if extra else ""


def need(package: str, what: str) -> Any:
    """The package, or a sentence with what installs it: `need("openpyxl", "Reading t.xlsx")`."""
    top = package.partition(".")[0]
    try:
        return import_module(package)
    except ImportError as error:
        why = "" if getattr(error, "name", "") in (package, top, None) else f" ({error})"
        raise UserError(f"{what} needs {top}{why}: pip install 'amsfl[{EXTRAS[top]}]'.") from None
