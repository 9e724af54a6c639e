"""Packages that only some of our users have."""

from importlib import import_module
from typing import Any

from amsfl.core.errors import UserError

EXTRAS = {  # of amsfl, by the package that is missing
    "cryptography": "flower",
    "dp_accounting": "privacy",
    "flwr": "flower",
    "mlflow": "mlflow",
    "onnx": "export",
    "openpyxl": "excel",
    "pandas": "frames",
    "peft": "lora",
    "tensorboard": "tensorboard",
    "torch": "torch",
    "transformers": "lora",
    "wandb": "wandb",
}


def missing(error: ModuleNotFoundError) -> str:
    """What to type where an optional package is missing; empty for any other package."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    return f"This needs {package}, which is not installed: pip install 'amsfl[{extra}]'." if extra else ""


def need(package: str, extra: str, what: str) -> Any:
    """The package, or a sentence with what installs it: `need("pandas", "frames", "to_frame()")`."""
    try:
        return import_module(package)
    except ImportError as error:
        why = "" if getattr(error, "name", "") in (package, None) else f" ({error})"
        raise UserError(f"{what} needs {package.split('.')[0]}{why}: pip install 'amsfl[{extra}]'.") from None
