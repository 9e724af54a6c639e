"""Data sources by name (`amsfl data` lists them), or any table; and how rows are dealt to clients."""

from amsfl.data.dataset import Dataset, FloatArray, Frame, IntArray, LabelScale, describe
from amsfl.data.partition import partition
from amsfl.data.sources import catalogue, is_named, load
