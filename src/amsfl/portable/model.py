# ruff: noqa: RUF012 (defaults of a NamedTuple, which nobody changes in place)
"""A trained model that leaves: layers, tensors, preprocessing and classes, in files that anyone can read."""

import warnings
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save

from amsfl.core import VERSION, DiskError, Remark, UserError, listed
from amsfl.core.scores import describe_scores
from amsfl.data.dataset import LabelScale
from amsfl.data.recipe import ColumnRecipe, Recipe
from amsfl.portable.network import KINDS, Array, LayerSpec, Tensors, logits, shapes
from amsfl.record import Damaged, from_plain, plain
from amsfl.record.disk import digest, seal, unseal
from amsfl.record.run import ABOUT_MODEL, BEST, CARD, MODEL, check_models

if TYPE_CHECKING:
    from amsfl.data.read_table import RawTable

FILES = {"last": MODEL, "best": BEST, "auto": BEST}
BLOCK = 4096  # rows at once
OWN = """The network is its users' own; here are its numbers, by the names that its module gives them:

```python
from safetensors.torch import load_file

module.load_state_dict(load_file("FOLDER/model.safetensors"), strict=False)
```

What `strict=False` leaves as it is are frozen parameters, which did not travel.
"""
USE = """```
amsfl predict FOLDER new.csv --out predictions.csv
```

```python
import amsfl.portable
model = amsfl.portable.load("FOLDER")
model.predict("new.csv"){chances}
```
"""


class PortableModel(NamedTuple):
    """A classifier, or a regression, outside of amsfl's engines: numpy is enough to use it."""

    layers: tuple[LayerSpec, ...]  # () for a user's own network, which only its own code can run
    tensors: Tensors
    classes: tuple[str, ...]  # () where it predicts numbers
    features: tuple[str, ...]
    recipe: Recipe | None = None
    about: dict[str, Any] = {}  # method, data, settings, scores; for the card
    amount: LabelScale | None = None  # of numbers: outputs times its scale plus its shift are the user's

    def read(self, rows: Any) -> "RawTable":
        """A file, a data frame or a dict of raw columns, as a table of numbers, dates and words."""
        from amsfl.data.read_table import read_rows

        return read_rows(rows, self.columns)

    def encode(self, rows: Any) -> Array:
        """What the network takes, float32 [rows, features], of raw rows: a file, a data frame, a dict of
        columns, or an array of the same columns in their order."""
        from amsfl.data.features import encode, other_scale, unfamiliar_cells

        recipe, by_place = self.columns, is_array(rows)
        if by_place:
            rows, names = np.asarray(rows), [column.name for column in recipe.columns]
            if rows.ndim != 2 or rows.shape[1] != len(names):
                raise UserError(
                    f"Rows have shape {rows.shape}; the model takes [rows, {len(names)}] raw columns: "
                    f"{listed(names, 5)}. Features that are encoded already go into `outputs`."
                )
            if self.recipe is None:
                return np.asarray(rows)
            rows = dict(zip(names, rows.T, strict=True))
        table = self.read(rows)
        x, scale = encode(recipe, table), other_scale(recipe, table)
        if scale and by_place:
            raise UserError(scale)
        for line in filter(None, [scale, *unfamiliar_cells(recipe, table)]):
            warnings.warn(line, Remark, stacklevel=4)  # of whoever asks for predictions
        return x

    @property
    def columns(self) -> Recipe:
        """How raw rows are read; without a recipe they are features already."""
        return self.recipe or Recipe(tuple(ColumnRecipe(name, "number") for name in self.features))

    def logits(self, rows: Any) -> Array:
        """The network's outputs of raw rows, float32 [rows, classes]; of numbers, standardised, [rows, 1]."""
        return self.outputs(self.encode(rows))

    def outputs(self, features: Array) -> Array:
        """The same of features, as `encode` makes them."""
        if not self.layers:
            raise UserError(
                "This model is a network of the user's own; amsfl keeps its numbers, not its code."
            )
        blocks = (features[start : start + BLOCK] for start in range(0, len(features), BLOCK))
        parts = [logits(self.layers, self.tensors, block) for block in blocks]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.classes) or 1), np.float32)

    def predict_proba(self, rows: Any) -> Array:
        """How likely each class is, of raw rows: float64 [rows, classes], in the order of `classes`."""
        return self.chances(self.logits(rows))

    def predict(self, rows: Any) -> Array:
        """The most likely class of every raw row, by name, or its number in the label's own units."""
        return self.named(self.logits(rows))

    def named(self, outputs: Array) -> Array:
        """What a network's outputs predict: class names, or numbers in the label's own units."""
        if self.classes:
            return np.asarray(np.take(np.array(self.classes), outputs.argmax(axis=1)))
        shift, scale = self.amount or LabelScale(0.0, 1.0)
        return np.asarray(outputs[:, 0].astype(np.float64) * scale + shift)

    def chances(self, logits: Array) -> Array:
        """Probabilities of logits, float64 [rows, classes]."""
        if not self.classes:
            raise UserError("This model predicts a number, which has no probabilities; use predict.")
        powers = logits.astype(np.float64)
        powers = np.exp(powers - powers.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def description(self) -> dict[str, Any]:
        """model.json: all but the tensors, as plain values."""
        return {name: plain(part) for name, part in self._asdict().items() if name != "tensors"}

    def __repr__(self) -> str:
        numbers = sum(part.size for part in self.tensors.values())
        predicts = f"{len(self.classes)} classes" if self.classes else "a number"
        kind, data = self.about.get("model", "own"), self.about.get("data", "unknown data")
        return f"<PortableModel: {kind} on {data}, {numbers:,} numbers, predicts {predicts}>"


def is_array(rows: Any) -> bool:
    """Whether rows are numbers by their place, and not by the names of columns."""
    return isinstance(rows, np.ndarray) or (
        isinstance(rows, list) and bool(rows) and not isinstance(rows[0], dict)
    )


def folder_files(model: PortableModel, best: Tensors | None = None) -> dict[str, bytes]:
    """What a folder that holds a model is made of; `best` are the tensors of another round."""
    rounds = {MODEL: model.tensors} | ({} if best is None else {BEST: best})
    arrays = {
        name: save({key: np.ascontiguousarray(part) for key, part in tensors.items()})
        for name, tensors in rounds.items()
    }
    sums = {name: digest(content) for name, content in arrays.items()}
    about = seal({**model.description(), "sha256": sums}, 1)
    return {**arrays, ABOUT_MODEL: about, CARD: model_card(model).encode()}


def load(folder: str | Path, which: str = "auto") -> PortableModel:
    """The model of a run's folder or of an export: the `best` round's by the hold-out, or the `last` one's.

    Args:
        folder: Of a run or an export.
        which: `best`, `last`, or `auto`: the best where rounds were scored, else the last.

    Returns:
        A model that needs numpy alone.
    """
    where = Path(folder)
    if which not in FILES:
        raise UserError(
            f"A folder holds the 'best' and the 'last' model ('auto': the best if any), not {which!r}."
        )
    if not where.is_dir():
        raise UserError(
            f"{str(where)!r} is {'a file and ' * where.exists()}no folder; give the one that a run wrote, as "
            "in runs/NAME."
        )
    if not (where / ABOUT_MODEL).is_file():
        raise UserError(
            f"The folder {str(where)!r} holds no model: it has no {ABOUT_MODEL}. A run writes it when it "
            f"ends; 'amsfl resume {where}' continues one that did not."
        )
    path = where / FILES[which]
    check_models(where)
    about: dict[str, Any] = {}
    try:
        about = unseal((where / ABOUT_MODEL).read_bytes())
        if path.name not in about["sha256"] and which == "auto":
            path = where / MODEL  # nobody scored rounds, or an export: it holds one model
        if path.name not in about["sha256"]:
            raise UserError(f"The folder {str(where)!r} holds no {which} model; leave --which out.")
        content = path.read_bytes()
        if sha256(content).hexdigest() != about["sha256"][path.name]:
            raise Damaged(f"{path.name} was changed")
        tensors = load_tensors(content)
        layers = tuple(from_plain(LayerSpec, part) for part in about["layers"])
        recipe = None if about["recipe"] is None else from_plain(Recipe, about["recipe"])
        amount = None if about["amount"] is None else from_plain(LabelScale, about["amount"])
        classes, features = tuple(about["classes"]), tuple(about["features"])
        check_layers(layers, tensors)
    except OSError as error:
        raise DiskError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    except (Damaged, SafetensorError, KeyError, TypeError, AttributeError) as bad:
        written = about.get("about")
        version = written.get("version") if isinstance(written, dict) else None
        newer = f", or too new: amsfl {version} wrote it, and this is {VERSION}"
        why = f"damaged ({bad})" + ("" if version in (None, VERSION) else newer)
        raise DiskError(f"The model in {str(where)!r} is {why}; train or export it again.") from None
    facts = {"which": "last"} | about["about"] | ({"which": "best"} if path.name == BEST else {})
    return PortableModel(layers, tensors, classes, features, recipe, facts, amount)


def check_layers(layers: tuple[LayerSpec, ...], tensors: Tensors) -> None:
    """Whether this amsfl knows the layers, and their tensors are there."""
    for part in layers:
        if part.kind not in KINDS and part.kind not in ("keep", "add"):
            raise Damaged(f"it has a layer of the unknown kind {part.kind!r}")
    for name, shape in shapes(layers).items():
        if name not in tensors or tensors[name].shape != shape:
            raise Damaged(f"{name} is not there, or has another shape than {ABOUT_MODEL} says")


def model_card(model: PortableModel) -> str:
    """In Markdown; names from data stand in code marks, so that they mean nothing to it."""
    about, best, score = model.about, model.about.get("best"), str(model.about.get("score", "accuracy"))
    numbers = sum(part.size for part in model.tensors.values())
    lines = [
        f"# {_code(about.get('title', 'A model'))} on {_code(about.get('data', 'unknown data'))}\n",
        f"Trained by amsfl {about.get('version', '')} with federated clients, whose rows are not in it.\n",
        *([_predicts(model), f"- features: {len(model.features)}"] if model.layers else []),
        f"- network: {_code(about.get('model', 'own'))}, {numbers:,} numbers",
        f"- rounds: {about.get('rounds')}; clients: {about.get('clients')}",
    ]
    for split, scores in (about.get("metrics") or {}).items():
        if text := describe_scores(scores):
            lines.append(f"- the last round, {_code(split)}: {text}")
    if best:
        title = score if score.replace("-", "").replace(" ", "").isalnum() else _code(score)  # f1 of a class
        lines.append(
            f"- the best round was {best['round']}, hold-out {title} {best['score']:.4g}: chosen on the very "
            "rows it is scored by, so a little flattered"
        )
    lines += [f"- {note}" for note in about.get("notes", []) if note]
    if model.recipe is not None:
        names = listed([_code(each.name) for each in model.recipe.columns], 100)
        lines.append(f"- takes raw columns: {names}")
    chances = ', model.predict_proba("new.csv")' if model.classes else ""
    use = USE.format(chances=chances) if model.layers else OWN
    return "\n".join([*lines, f"\n## How to use it\n\n{use}"])


def _predicts(model: PortableModel) -> str:
    if model.classes:
        return f"- classes: {', '.join(map(_code, model.classes))}"
    what = _code(model.recipe.label) if model.recipe and model.recipe.label else "y"
    shift, scale = model.amount or (0.0, 1.0)
    return f"- predicts a number: {what}, of mean {shift:.6g} and deviation {scale:.6g} in the training rows"


def _code(text: Any) -> str:
    clean = "".join(c if c.isprintable() else "?" for c in str(text)).replace("`", "'")
    return f"`{clean}`"
