"""`python -m amsfl`: the command, where no folder of commands is on the path."""

from amsfl.cli import main

if __name__ == "__main__":
    main()
