"""The few records that travel between rooms, and the one kind of error a user sees."""

from amsfl.core.errors import UserError, nearest
from amsfl.core.records import Plan, Reading, RoundRecord, Upload

__all__ = ["Plan", "Reading", "RoundRecord", "Upload", "UserError", "nearest"]
