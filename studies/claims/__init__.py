"""The paper's claims on problems with known constants: printed and corrected."""

from claims import allocation, assumptions, recursion, residual
from claims.claim import CLAIMS

__all__ = ["CLAIMS", "allocation", "assumptions", "recursion", "residual"]
