"""The `amsfl` command."""


def main() -> None:
    from amsfl.cli.app import app
    from amsfl.cli.output import any_terminal

    any_terminal()
    app(prog_name="amsfl")
