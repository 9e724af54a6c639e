"""`python -m amsfl.flower.node ...`: the SuperNode without the rest of the command line."""

import sys

from amsfl.flower.node.supernode import main

main(sys.argv[1:])
