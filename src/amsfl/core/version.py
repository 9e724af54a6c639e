"""Which amsfl this is: pyproject.toml reads it here."""

VERSION = "0.1.0"
