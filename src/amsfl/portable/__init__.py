"""Models that leave: loaded from a run's folder, used with numpy alone, exported for other libraries."""

from amsfl.portable.evaluation import Evaluation, Importance, evaluate, explain
from amsfl.portable.model import PortableModel, load

__all__ = ["Evaluation", "Importance", "PortableModel", "evaluate", "explain", "load"]
