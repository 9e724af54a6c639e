"""An ONNX graph that takes raw columns, each by its name: preprocessing is inside, gaps and words too.

| column | input, [rows, 1] | a gap |
| number | double | NaN |
| date | double: days since 1970-01-01; of a column of times the part of a day | NaN |
| words, frequency | string | "" |
| hash | int64: crc32 of the word's UTF-8, modulo the buckets (ONNX cannot hash) | the bucket of its fill |
| text | float [rows, buckets]: hashed tokens, divided by their norm | the tokens of its fill |

Where sites fill their own gaps, the client's column is a string input, too. `raw_inputs` makes all of them.
"""

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from amsfl.core import UserError
from amsfl.data.preprocessing import encode, scaled
from amsfl.data.read_column import code_numbers, read_numbers, read_words
from amsfl.data.read_csv import GAPS
from amsfl.data.read_table import open_rows
from amsfl.data.recipe import NUMERIC, ColumnRecipe, Recipe
from amsfl.portable.model import PortableModel
from amsfl.portable.network import Array
from amsfl.portable.to_onnx import Graph, finish_graph

OUTPUTS = ("logits", "probabilities", "outputs", "prediction")
MISSING, STRANGE = -2, -1  # places of a gap and of a word that no training row had


def raw_graph(model: PortableModel, recipe: Recipe) -> bytes:
    """Raw columns in."""
    net, inputs = Graph(), []
    sites: dict[str, int] = {}
    for column in recipe.columns:
        if column.name in OUTPUTS:
            raise UserError(f"A column is called {column.name!r} as an output of the graph is; rename it.")
        sites |= {site: len(sites) + nth for nth, site in enumerate(sorted({*column.site_fill} - {*sites}))}
        kind, width, about = _input_kind(column)
        inputs.append(helper.make_tensor_value_info(column.name, kind, ["rows", width], about))
    site = ""
    if sites:
        what = "the row's client"
        inputs.append(helper.make_tensor_value_info(recipe.client, TensorProto.STRING, ["rows", 1], what))
        site = _look_up(net, recipe.client, sites, len(sites))
    parts = [_features(net, column, site, list(sites)) for column in recipe.columns]
    features = net.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
    return finish_graph(net, model, features, inputs)


def raw_inputs(model: PortableModel, rows: Any) -> dict[str, Array]:
    """What the graph of raw columns takes, from a file, a data frame or a dict of columns.

    Args:
        model: Of `amsfl.portable.load`.
        rows: As in `PortableModel.encode`.

    Returns:
        Arrays by name of the input, for `InferenceSession.run`.
    """
    if model.recipe is None:
        raise UserError("This model was trained on features as they are: its graph takes no raw columns.")
    recipe, table = model.recipe, open_rows(rows)
    inputs: dict[str, Array] = {}
    for column in recipe.columns:
        if column.read in NUMERIC:
            inputs[column.name] = read_numbers(column, table)[:, None]
        elif column.buckets:
            x = encode(Recipe((column,), client=recipe.client), table)
            inputs[column.name] = x if column.read == "text" else x.argmax(1)[:, None]
        else:
            inputs[column.name] = _texts(read_words(column, table).text.to_pylist())
    if any(column.site_fill for column in recipe.columns):
        sites = table.columns.get(recipe.client)  # without them every row has the shared fills
        inputs[recipe.client] = _texts(sites.text.to_pylist() if sites else [None] * table.rows)
    return inputs


def _texts(words: list[str | None]) -> Array:
    return np.array([[word or ""] for word in words], object)


def _input_kind(column: ColumnRecipe) -> tuple[int, int, str]:
    if column.read in NUMERIC:
        days = "days since 1970-01-01" if column.spelling != "time" else "the part of a day, 0.5 at noon"
        what = days if column.read == "date" else "a number"
        return TensorProto.DOUBLE, 1, f"{what}; NaN for a gap"
    gap = f"a gap is {column.fill!r}"
    if column.read == "hash":
        return TensorProto.INT64, 1, f"crc32 of the word, modulo {column.buckets}; {gap}"
    if column.read == "text":
        return TensorProto.FLOAT, column.buckets, f"hashed tokens, divided by their norm; {gap}"
    return TensorProto.STRING, 1, "a word; empty for a gap"


def _features(net: Graph, column: ColumnRecipe, site: str, sites: list[str]) -> str:
    if column.read in NUMERIC:
        return _number(net, column, site, sites)
    if column.read == "text":
        return net.add("Identity", column.name)
    if column.read == "hash":
        return _one_hot(net, column.name, column.buckets)
    words = list(column.words or column.counts)
    places = {word: nth for nth, word in enumerate(words)}
    gaps = {gap: MISSING for gap in (*GAPS, *column.codes)}
    place = _look_up(net, column.name, places | gaps, STRANGE)
    filled = [places.get(str(column.site_fill.get(name, column.fill)), STRANGE) for name in (*sites, "")]
    fill = _fill(net, filled, site if column.site_fill else "", np.int64)
    place = net.add("Where", net.add("Equal", place, net.constant([[MISSING]])), fill, place)
    if column.read == "words":
        return _one_hot(net, place, len(words))
    counts = np.array([*(column.counts[word] for word in words), 0], np.float64)  # 0: a word never met
    values = net.constant(scaled(column, counts), np.float32)
    last = net.add("Where", net.add("Less", place, net.constant([[0]])), net.constant([[len(words)]]), place)
    return net.add("Gather", values, last)


def _number(net: Graph, column: ColumnRecipe, site: str, sites: list[str]) -> str:
    value, gaps = column.name, net.add("IsNaN", column.name)
    for code in code_numbers(column):
        gaps = net.add("Or", gaps, net.add("Equal", value, net.constant([[code]], np.float64)))
    if column.fill is not None:
        fills = [float(column.site_fill.get(name, column.fill)) for name in (*sites, "")]
        fill = _fill(net, fills, site if column.site_fill else "", np.float64)
        value = net.add("Where", gaps, fill, value)
    if column.log:
        value = net.add("Log", net.add("Add", value, net.constant([[1.0]], np.float64)))
    if column.scale:
        value = net.add("Div", value, net.constant([[column.scale]], np.float64))
        value = net.add("Sub", value, net.constant([[column.shift / column.scale]], np.float64))
    else:
        value = net.add("Mul", value, net.constant([[0.0]], np.float64))
    if column.low is not None:
        value = net.add("Max", value, net.constant([[column.low]], np.float64))
    if column.high is not None:
        value = net.add("Min", value, net.constant([[column.high]], np.float64))
    value = net.add("Cast", value, to=TensorProto.FLOAT)
    if column.indicator:
        return net.add("Concat", value, net.add("Cast", gaps, to=TensorProto.FLOAT), axis=1)
    return value


def _fill(net: Graph, fills: list[Any], site: str, kind: Any) -> str:
    """What stands for a gap: each site's own, or the last one for all."""
    if site:
        return net.add("Gather", net.constant(fills, kind), site)
    return net.constant([[fills[-1]]], kind)


def _one_hot(net: Graph, place: str, width: int) -> str:
    """A column a place; -1 is all zeros."""
    same = net.add("Equal", place, net.constant([list(range(width))]))
    return net.add("Cast", same, to=TensorProto.FLOAT)


def _look_up(net: Graph, value: str, places: dict[str, int], other: int) -> str:
    table = {"keys_strings": list(places), "values_int64s": list(places.values()), "default_int64": other}
    return net.add("LabelEncoder", value, domain="ai.onnx.ml", **table)
