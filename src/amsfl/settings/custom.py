"""What a user brings in place of what the settings name; their own Dataset is checked first."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from amsfl.clock import RoundEnd
from amsfl.core import Combine, Transmit, UserError, listed
from amsfl.core.records import Array, Json, JsonMapping
from amsfl.data import Dataset, Frame, load
from amsfl.data.dataset import label_scale, standardise
from amsfl.engines.models import Model
from amsfl.engines.optimizers import ClientSteps, client_steps
from amsfl.methods import Method
from amsfl.planning import Policy
from amsfl.settings.definitions import OF_ROWS

OF_TABLES = OF_ROWS - {"data"}


class CustomParts(NamedTuple):
    """What a user brings in place of what the settings name; the settings then hold its name alone."""

    dataset: Dataset | None = None
    network: Model | None = None
    method: Method | None = None
    policy: Policy | None = None
    robust: Combine | None = None
    transmit: Transmit | None = None
    round_end: RoundEnd | None = None
    client_optimizer: ClientSteps | None = None

    def names(self) -> dict[str, str]:
        """The settings that follow from what was brought."""
        places = {"dataset": "data", "network": "model"}  # the others are called as their setting is
        own = {key: part for key, part in self._asdict().items() if part is not None}
        return {places.get(key, key): part.name for key, part in own.items()}


def table_of(settings: JsonMapping, given: Dataset | Frame | None) -> tuple[Json, Dataset | None]:
    """A data frame, as `dataset` or as the setting `data`, becomes a Dataset by the settings of tables.

    The settings come back without those.
    """
    rest = dict(settings)
    data = rest.get("data")
    if isinstance(data, Path):
        rest["data"] = str(data)
    elif data is not None and not isinstance(data, str):
        if given is not None:
            raise UserError("Both data and dataset are objects of your own: leave one of them out.")
        given = rest.pop("data")
    if (
        given is None
        or isinstance(given, Dataset)
        or not (hasattr(given, "columns") or isinstance(given, dict))
    ):
        return rest, given  # type: ignore[return-value]  # check_dataset refuses all else
    return rest, load(given, **{key: rest.pop(key) for key in OF_TABLES if rest.get(key) is not None})


def split_custom(
    settings: JsonMapping, dataset: Dataset | Frame | None = None, network: Model | None = None
) -> tuple[CustomParts, Json]:
    """What among the settings is an object and no name, and the settings without it."""
    settings, own = table_of(settings, dataset)
    kinds: dict[str, type] = {
        "method": Method,
        "policy": Policy,
        "robust": Combine,
        "transmit": Transmit,
        "round_end": RoundEnd,
        "client_optimizer": ClientSteps,
    }
    if not isinstance(optimizer := settings.get("client_optimizer", ""), str | None):
        if not hasattr(optimizer, "init"):
            raise UserError("client_optimizer is a name or an optimizer of optax, as in optax.adamw(1e-3).")
        settings["client_optimizer"] = client_steps(optimizer)
        some = np.zeros((2, 2), np.float32)
        try:
            optimizer.update(some, optimizer.init(some), some)
        except Exception as error:  # of any other the run tells, on the model's own numbers
            if "required keyword" in str(error):
                raise UserError(
                    f"client_optimizer steps by gradients alone, and this one asks for more ({error}); take "
                    "another, as in optax.adamw(1e-3)."
                ) from None
    objects = {key: settings[key] for key, kind in kinds.items() if isinstance(settings.get(key), kind)}
    rest = {key: value for key, value in settings.items() if key not in objects}
    for key in [*(sorted(OF_ROWS) if own is not None else ()), *(("model",) if network else ())]:
        if key in rest:
            raise UserError(f"Setting {key!r} and an object of your own in its place: leave one of them out.")
    return CustomParts(None if own is None else check_dataset(own), network, **objects), rest


def check_dataset(data: Dataset) -> Dataset:
    """A user's own Dataset: shapes, labels and numbers that the engines would fail on later, and darkly.

    What comes back has floating numbers for x and whole ones for y and sites, whatever they came as. Without
    classes y are numbers to predict, in their own units: they come back standardised, by sums over the sites.
    """
    if not isinstance(data, Dataset):
        raise UserError(
            f"A dataset is a data frame (with label=...) or an amsfl.Dataset, not a {type(data).__name__}; "
            "arrays X and y go into amsfl.FederatedClassifier().fit(X, y, groups=site)."
        )
    name = f"The dataset {str(data.name)!r}"
    if not str(data.name) or not isinstance(data.evals, dict) or "holdout" not in data.evals:
        raise UserError(f"{name} needs a name and a split 'holdout' in its evals; runs are judged by it.")
    if not len(data.features):
        width = np.shape(data.x)[1] if np.ndim(data.x) == 2 else 0
        data = data._replace(features=tuple(f"x{column}" for column in range(width)))
    for what, names in (("classes", data.classes), ("features", data.features)):
        if isinstance(names, str) or len(set(map(str, names))) != len(names):
            shown = repr(names) if isinstance(names, str) else listed(map(repr, names), 12)
            raise UserError(f"{name}: {what} are different names in a tuple, not {shown}.")
    x, y = _split(f"{name}, split 'train'", data, data.x, data.y)
    evals = {
        split: _split(f"{name}, split {str(split)!r}", data, *pair) for split, pair in data.evals.items()
    }
    checked = data._replace(x=x, y=y, evals=evals, sites=_sites(name, data))
    return checked if checked.classes or checked.amount is not None else _standardised(name, checked)


def _split(where: str, data: Dataset, x: Array, y: Array) -> tuple[Array, Array]:
    try:
        rows, labels = np.asarray(x), np.asarray(y).astype(np.float64)
        rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float32)
    except (ValueError, TypeError) as error:
        raise UserError(f"{where}: x and y are arrays of numbers ({error}).") from None
    if rows.ndim != 2 or labels.shape != rows.shape[:1] or not len(labels):
        raise UserError(
            f"{where}: x has shape {rows.shape} and y {labels.shape}; x is [rows, features], y is [rows]."
        )
    if rows.shape[1] != len(data.features):
        raise UserError(f"{where}: {rows.shape[1]} columns, but {len(data.features)} names in features.")
    with np.errstate(over="ignore"):
        finite = np.isfinite(rows.astype(np.float32, copy=False))
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise UserError(
            f"{where}: row {row}, column {str(data.features[column])!r} is {rows[row, column]}; "
            "fill it in or drop the row."
        )
    if not data.classes:
        if not np.isfinite(labels).all():
            row = int(np.argmin(np.isfinite(labels)))
            raise UserError(f"{where}: y holds numbers to predict, and row {row} has none.")
        return rows, labels if data.amount is None else labels.astype(np.float32)
    return rows, _whole(where, "labels", labels, "classes", len(data.classes))


def _standardised(name: str, data: Dataset) -> Dataset:
    """Numbers to predict, by their mean and deviation over the training rows."""
    amount = label_scale(data.y)
    if np.ptp(data.y) == 0:
        raise UserError(f"{name}: every training row has y {data.y[0]:g}; there is nothing to predict.")
    evals = {split: (x, standardise(y, amount)) for split, (x, y) in data.evals.items()}
    return data._replace(y=standardise(data.y, amount), evals=evals, amount=amount)


def _whole(where: str, what: str, values: Array, of: str, count: int) -> Array:
    """Numbers of classes or sites: whole, each one of `count`."""
    wrong = ~((values >= 0) & (values < count) & (values == np.floor(values)))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise UserError(
            f"{where}: {what} are whole numbers from 0 to {count - 1}, for {count} {of}; row {row} has "
            f"{values[row]:g}."
        )
    return values.astype(np.int32)


def _sites(name: str, data: Dataset) -> Array | None:
    """Who owns which row, where the data says so."""
    if data.sites is None:
        return None
    try:
        sites = np.asarray(data.sites).astype(np.float64)
    except (ValueError, TypeError) as error:
        raise UserError(f"{name}: sites are numbers, one a training row ({error}).") from None
    if sites.shape != (len(data.y),):
        raise UserError(
            f"{name}: sites has shape {sites.shape} for {len(data.y)} training rows; give one each."
        )
    if isinstance(data.site_names, str) or not len(data.site_names):
        raise UserError(f"{name} has sites but no site_names; give one name a site.")
    return _whole(name, "sites", sites, "site_names", len(data.site_names))
