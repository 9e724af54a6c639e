"""The user's own Flower app for `amsfl deploy APP`: looked at, and copied with other settings.

Flower's run-config can override only what an app's pyproject.toml already names. The app is therefore
bundled by Flower's own rules into a temporary folder, and the settings are written into the copy.
"""

import ast
import importlib.util
import io
import zipfile
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from amsfl.core import UserError
from amsfl.flower import internals
from amsfl.flower.server.app import merged

LIKE = "name the folder of a Flower app, one with [tool.flwr.app] in its pyproject.toml"


class FlowerApp(NamedTuple):
    folder: Path
    project: dict[str, Any]  # its pyproject.toml
    config: dict[str, Any]  # of that, what a run-config may override; flat


def read(folder: Path) -> FlowerApp:
    """The app in a folder; a UserError if it is none, or if its server or client is not in it."""
    if not (folder / "pyproject.toml").is_file():
        raise UserError(f"There is no pyproject.toml in {str(folder)!r}; {LIKE}.")
    try:
        project, _ = internals.load_and_validate(folder / "pyproject.toml", check_module=False)
    except (ValueError, OSError) as error:
        why = " ".join(str(error).partition(":\n")[2].split() or str(error).split())
        raise UserError(f"{str(folder)!r} is no Flower app that can be run: {why}; {LIKE}.") from None
    app = project["tool"]["flwr"]["app"]
    if not {"serverapp", "clientapp"} <= set(app["components"]):
        raise UserError(f"The app in {str(folder)!r} needs both a serverapp and a clientapp; {LIKE}.")
    for part in ("serverapp", "clientapp"):
        _there(folder, part, str(app["components"][part]))
    return FlowerApp(folder, project, dict(internals.flatten_dict(app.get("config", {}))))


def _there(folder: Path, part: str, reference: str) -> None:
    """Whether `module:name` is in the folder, or of an installed package; the app is not run for it."""
    module, _, name = reference.partition(":")
    path = folder / module.replace(".", "/")
    files = [each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()]
    lacks = f"The app in {str(folder)!r} names {reference} as its {part}, but "
    if not files:
        if not importlib.util.find_spec(module.partition(".")[0]):
            raise UserError(f"{lacks}there is no module {module}; mend [tool.flwr.app.components].")
        return
    try:
        names = _names(ast.parse(files[0].read_bytes()))
    except (SyntaxError, ValueError) as error:
        raise UserError(f"{lacks}{files[0].name} is not Python that can be read: {error}.") from None
    if name.partition(".")[0] not in names:
        raise UserError(
            f"{lacks}{module} has no {name} that Flower finds; write `{name} = ...`, on its own, or mend "
            "[tool.flwr.app.components]."
        )


def _names(tree: ast.AST) -> set[str]:
    """What Flower finds in a module's text: names that are assigned one by one, or stand in __all__."""
    names = set()
    for node in (each for each in ast.walk(tree) if isinstance(each, ast.Assign)):
        for target in node.targets:
            if isinstance(target, ast.Name):
                names.add(target.id)
                if target.id == "__all__" and isinstance(node.value, ast.List | ast.Tuple):
                    names |= {str(each.value) for each in node.value.elts if isinstance(each, ast.Constant)}
    return names


def clients(app: FlowerApp, settings: Mapping[str, Any], run_config: Mapping[str, Any]) -> int:
    """How many SuperNodes: as the user says, or the app's run-config."""
    default = merged({}, {**app.config, **run_config}).get("clients")
    number = settings.get("clients", default)
    if not isinstance(number, int) or number < 1:
        raise UserError(
            "How many clients the app wants is not in its run-config; say how many SuperNodes to start: "
            "--clients 3."
        )
    return number


def parse(text: str, app: FlowerApp) -> dict[str, Any]:
    """A run-config as `flwr run --run-config` takes it: key=value pairs, text in quotes, and of keys that the
    app has, since Flower itself takes no others."""
    import click

    try:
        config = dict(internals.parse_config_args([text]))
    except (click.ClickException, ValueError, OSError):
        config = {}
    if text and not config:
        raise UserError(f'The run-config is written as key=1 name="text" on=true; got {text!r}.')
    strange = sorted({*config} - {*app.config})
    if strange:
        keys = ", ".join(sorted(app.config)) or "none"
        raise UserError(f"The app's run-config has no {', '.join(strange)}; its keys are: {keys}.")
    return config


def copy(app: FlowerApp, where: Path, config: Mapping[str, Any]) -> None:
    """What Flower would bundle of the app, with `config` over its own."""
    import click

    try:
        content = internals.build_fab_from_disk(app.folder)
    except (ValueError, OSError, click.ClickException) as error:
        raise UserError(f"Flower could not bundle the app in {str(app.folder)!r}: {error}") from None
    with zipfile.ZipFile(io.BytesIO(content)) as bundle:
        bundle.extractall(where, [name for name in bundle.namelist() if not name.startswith(".info")])
    spelled = {key.replace("_", "-") for key in config}
    kept = {key: value for key, value in app.config.items() if key.replace("_", "-") not in spelled}
    project = deepcopy(app.project)
    project["tool"]["flwr"]["app"]["config"] = kept | dict(config)
    (where / "pyproject.toml").write_text(tomli_w.dumps(project))
