"""A pyproject.toml of a Flower app, for tests that write one."""


def project(name: str, server: str, client: str, config: str) -> str:
    """`server` and `client` are places in the package `name`, as in app:server; `config` is TOML."""
    return f"""
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "{name}"
version = "1.0.0"
description = "tests"
[tool.flwr.app]
publisher = "tests"
[tool.flwr.app.components]
serverapp = "{name}.{server}"
clientapp = "{name}.{client}"
[tool.flwr.app.config]
{config}"""
