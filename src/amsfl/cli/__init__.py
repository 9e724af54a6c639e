"""The `amsfl` command."""

import os
import sys


def main() -> None:
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # which reads what every package installed
    try:  # imports take a moment, in which Ctrl-C is no error
        from amsfl.cli.app import call
        from amsfl.cli.output import any_terminal
    except KeyboardInterrupt:
        print("\namsfl: stopped; nothing was written yet.", file=sys.stderr)
        sys.exit(130)
    any_terminal()
    try:
        sys.exit(call(sys.argv[1:]))
    except KeyboardInterrupt:
        print("\namsfl: stopped.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # nobody reads on, as in `amsfl ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
