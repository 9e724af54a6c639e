"""Packages that only some of our users have."""

from importlib import import_module
from typing import Any

from amsfl.core.errors import UserError


def need(package: str, extra: str, what: str) -> Any:
    """The package, or a sentence with what installs it: `need("pandas", "frames", "to_frame()")`.

    Args:
        package: To import.
        extra: Of amsfl that installs it.
        what: Needs it.

    Returns:
        The module.
    """
    try:
        return import_module(package)
    except ImportError as error:
        why = "" if getattr(error, "name", "") in (package, None) else f" ({error})"
        raise UserError(f"{what} needs {package.split('.')[0]}{why}: pip install 'amsfl[{extra}]'.") from None
