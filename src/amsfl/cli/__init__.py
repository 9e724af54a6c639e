"""The `amsfl` command."""


def main() -> None:
    from amsfl.cli.app import app

    app()
