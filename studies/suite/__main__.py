"""`python studies/suite`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # studies/, where common.py is

from common import main
from suite.study import Settings, study

main(Settings, study)
