"""Models that leave: loaded from a run's folder, used with numpy alone, exported for other libraries."""

from amsfl.portable.model import PortableModel, load

__all__ = ["PortableModel", "load"]
