"""What a recorded run says of the paper's claims, printed and corrected; studies/claims/ has the rest."""

from amsfl.theory.check import check_folder, check_run
from amsfl.theory.claim import ClaimResult, Sides, Statement, table

__all__ = ["ClaimResult", "Sides", "Statement", "check_folder", "check_run", "table"]
