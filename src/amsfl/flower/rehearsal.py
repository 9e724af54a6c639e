"""A user's own Flower app, its server and its clients, in one process: for `deploy` and `supernode
--check`."""

import importlib
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from logging import WARNING
from pathlib import Path
from typing import Any

from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.supercore.logger import FLOWER_LOGGER

from amsfl.core import UserError
from amsfl.flower.in_process import InProcessGrid

LIKE = "name the folder of a Flower app, one with [tool.flwr.app] in its pyproject.toml"
PATIENCE = 3  # times that a server looks for nodes before there is one more
MOST_NODES = 64


def rehearse(
    folder: Path,
    nodes: Sequence[dict[str, Any]],
    run_config: Mapping[str, Any] | None = None,
    rounds: int | None = None,
) -> InProcessGrid:
    """Run the app that lies in a folder to its end; what its nodes did.

    Args:
        folder: With the app's pyproject.toml.
        nodes: Their node-configs.
        run_config: Over the app's own.
        rounds: In place of what the app's config says, by whatever name it has there.
    """
    about = described(folder)
    config = flattened(about.get("config", {})) | dict(run_config or {})
    if rounds is not None:
        config |= {key: rounds for key in config if "round" in key.replace("_", "-").split("-")[-1]}
    with importable(folder):
        server, client = (loaded(folder, about, part) for part in ("serverapp", "clientapp"))
        if not isinstance(server, ServerApp) or not isinstance(client, ClientApp):
            raise UserError(
                f"The components of the app in {str(folder)!r} are no ServerApp and ClientApp; {LIKE}."
            )
        grid = GrowingGrid(client, nodes, config)
        FLOWER_LOGGER.setLevel(WARNING)  # a dozen lines a round
        server(grid=grid, context=Context(1, 1, {}, RecordDict(), config))
    return grid


class GrowingGrid(InProcessGrid):
    """A server may wait for more nodes than there are: then there is another one like the first."""

    looks = 0

    def get_node_ids(self) -> Iterable[int]:
        self.looks += 1
        if self.looks > PATIENCE and len(self.contexts) < MOST_NODES:
            first = next(iter(self.contexts.values()))
            node = max(self.contexts) + 1
            self.contexts[node] = Context(
                first.run_id, node, dict(first.node_config), RecordDict(), first.run_config
            )
        return super().get_node_ids()

    def push_messages(self, messages: Any) -> Iterable[str]:
        self.looks = 0
        return super().push_messages(messages)


def described(folder: Path) -> dict[str, Any]:
    """[tool.flwr.app] of the folder's pyproject.toml."""
    path = folder / "pyproject.toml"
    if not path.is_file():
        raise UserError(f"There is no pyproject.toml in {str(folder)!r}; {LIKE}.")
    try:
        project = tomllib.loads(path.read_text(encoding="utf-8"))
        about: dict[str, Any] = project["tool"]["flwr"]["app"]
    except (ValueError, KeyError) as error:
        raise UserError(f"{str(path)!r} describes no Flower app ({error}); {LIKE}.") from None
    if not {"serverapp", "clientapp"} <= set(about.get("components", {})):
        raise UserError(f"The app in {str(folder)!r} needs both a serverapp and a clientapp; {LIKE}.")
    return about


def loaded(folder: Path, about: dict[str, Any], part: str) -> Any:
    """A component by its `module:name`."""
    reference = str(about["components"][part])
    module, _, name = reference.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UserError(f"The app in {str(folder)!r} names {reference} as its {part}: {error}.") from error


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """With the folder's modules to be imported, and forgotten afterwards: another app may have the same
    names."""
    before, where = set(sys.modules), str(folder.resolve())
    sys.path.insert(0, where)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(where)
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).is_relative_to(where):
                del sys.modules[name]


def flattened(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """As Flower hands a run-config over: keys of tables with dots."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= flattened(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat
