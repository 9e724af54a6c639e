"""MODEL.md: what a model is, what it was trained on, how well it does, and how to use it."""

from typing import TYPE_CHECKING, Any

from amsfl.core.scores import describe_scores

if TYPE_CHECKING:
    from amsfl.portable.model import PortableModel


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


def model_card(model: "PortableModel") -> str:
    """In Markdown; names from data stand in code marks, so that they mean nothing to it."""
    about, best, score = model.about, model.about.get("best"), str(model.about.get("score", "accuracy"))
    texts = {split: describe_scores(scores) for split, scores in (about.get("metrics") or {}).items()}
    flattered = "chosen on the very rows it is scored by, so a little flattered"
    lines = [
        f"# {_code(about.get('title', 'A model'))} on {_code(about.get('data', 'unknown data'))}",
        "",
        f"Trained by amsfl {about.get('version', '')} with federated clients, whose rows are not in it.",
        "",
        *([_predicts(model), f"- features: {len(model.features)}"] if model.layers else []),
        f"- network: {_code(about.get('model', 'own'))}, "
        f"{sum(part.size for part in model.tensors.values()):,} numbers",
        f"- rounds: {about.get('rounds')}; clients: {about.get('clients')}",
        *[f"- the last round, {_code(split)}: {text}" for split, text in texts.items() if text],
    ]
    if best:
        lines.append(
            f"- the best round was {best['round']}, hold-out {_plain(score)} {best['score']:.4g}: {flattered}"
        )
    lines += [f"- {note}" for note in about.get("notes", []) if note]
    if model.recipe is not None:
        lines += ["", "## What it takes", "", "Raw columns, as the table had them:", ""]
        lines += [f"- {_code(column.name)}: {column.read}" for column in model.recipe.columns[:100]]
    lines += ["", "## How to use it", ""]
    chances = ', model.predict_proba("new.csv")' if model.classes else ""
    return "\n".join([*lines, USE.format(chances=chances) if model.layers else OWN])


def _predicts(model: "PortableModel") -> str:
    if model.classes:
        return f"- classes: {', '.join(map(_code, model.classes))}"
    what = _code(model.recipe.label) if model.recipe and model.recipe.label else "y"
    shift, scale = model.amount or (0.0, 1.0)
    return f"- predicts a number: {what}, of mean {shift:.6g} and deviation {scale:.6g} in the training rows"


def _code(text: Any) -> str:
    clean = "".join(c if c.isprintable() else "?" for c in str(text)).replace("`", "'")
    return f"`{clean}`"


def _plain(text: str) -> str:
    """A score's title; one of a class holds a name from data."""
    return text if text.replace("-", "").replace(" ", "").isalnum() else _code(text)
