"""The `amsfl` command."""

import sys


def main() -> None:
    try:  # imports take a second or more, in which Ctrl-C is no error
        from amsfl.cli.app import app
        from amsfl.cli.output import any_terminal
    except KeyboardInterrupt:
        print("\namsfl: stopped; nothing was written yet.", file=sys.stderr)
        sys.exit(130)
    any_terminal()
    app(prog_name="amsfl")
