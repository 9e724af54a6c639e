"""Which amsfl this is."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("amsfl")
except PackageNotFoundError:  # a source tree on the path, not installed
    VERSION = "0.1.0"
