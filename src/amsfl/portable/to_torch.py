"""Layers as lines of Python for torch: what makes each, and what calls it."""

from amsfl.portable.network import LayerSpec, kernel_side

TOKENS = '''

class Tokens(torch.nn.Module):
    """A vector for every token and one for every place."""

    def __init__(self, words, places, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(words, width))
        self.bias = torch.nn.Parameter(torch.empty(places, width))

    def forward(self, x):
        return self.weight[x.long()] + self.bias
'''
ATTEND = """

def attend(x, heads):
    rows, places, width = x.shape
    q, k, v = x.reshape(rows, places, 3, heads, width // (3 * heads)).permute(2, 0, 3, 1, 4)
    mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    return mixed.transpose(1, 2).reshape(rows, places, width // 3)
"""

IMPORTS = """import json
import re
from zlib import crc32
"""
ENCODER = '''

RECIPE = json.loads(Path(__file__).with_name("model.json").read_text(encoding="utf-8"))["recipe"]
GAPS = {"", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "?"}


def encode(rows):
    """Raw columns to features: numbers, dates as days since 1970-01-01, times as parts of a day, else text.

    A gap is None, NaN, pandas' NA or an empty text.
    """
    client = RECIPE["client"]
    sites = [spell(site) for site in read(rows[client])] if client and client in rows else None
    parts = [encode_column(column, read(rows[column["name"]]), sites) for column in RECIPE["columns"]]
    return torch.cat(parts, 1).float()


def read(cells):
    """Plain values of a list, an array, a tensor or a data frame's column."""
    return [cell.item() if hasattr(cell, "item") else cell for cell in cells]


def encode_column(column, cells, sites):
    fills = [column["fill"]] * len(cells)
    if sites and column["site_fill"]:
        fills = [column["site_fill"].get(site, column["fill"]) for site in sites]
    gaps = [is_gap(cell, column) for cell in cells]
    cells = [fill if gap else cell for cell, gap, fill in zip(cells, gaps, fills)]
    if column["read"] in ("number", "date"):
        numbers = scale(column, torch.tensor([float(cell) for cell in cells], dtype=torch.float64))
        both = [numbers, torch.tensor(gaps, dtype=torch.float64)]
        return torch.stack(both if column["indicator"] else both[:1], 1)
    known = {*column["words"], *column["counts"]}
    plain = {plain_word(word): word for word in sorted(known)}
    words = [word if word in known else plain.get(plain_word(word), word) for word in map(spell, cells)]
    if column["read"] == "frequency":
        counts = [float(column["counts"].get(word, 0)) for word in words]
        return scale(column, torch.tensor(counts, dtype=torch.float64))[:, None]
    width = len(column["words"]) if column["read"] == "words" else column["buckets"]
    x = torch.zeros(len(words), width, dtype=torch.float64)
    places = {word: place for place, word in enumerate(column["words"])}
    for row, word in enumerate(words):
        if column["read"] == "words":
            if word in places:
                x[row, places[word]] = 1
        elif column["read"] == "hash":
            x[row, crc32(word.encode()) % width] = 1
        else:
            for token in re.findall(r"\\w+", word.lower()):
                x[row, crc32(token.encode()) % width] += 1
    return x if column["read"] != "text" else x / x.norm(dim=1, keepdim=True).clamp(min=1)


def is_gap(cell, column):
    """Codes are compared by their spelling; those of numbers by their values, too: -999 is -999.0."""
    word = spell(cell)
    if cell is None or word.lower() in GAPS or word in column["codes"]:
        return True
    return column["read"] in ("number", "date") and any(number(c) == float(cell) for c in column["codes"])


def number(word):
    try:
        return float(word)
    except ValueError:
        return None


def spell(cell):
    """Whole numbers without a point."""
    whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell)) if whole else str(cell).strip()


def plain_word(word):
    """1.0 is 1, TRUE is True."""
    flag = word.lower() in ("true", "false")
    return word.lower() if flag else re.sub(r"^([+-]?\\d+)\\.0+$", r"\\1", word)


def scale(column, values):
    values = torch.log1p(values) if column["log"] else values
    if not column["scale"]:
        return torch.zeros_like(values)
    values = values / column["scale"] - column["shift"] / column["scale"]
    limited = column["low"] is not None or column["high"] is not None
    return values.clamp(column["low"], column["high"]) if limited else values
'''


def helpers(parts: tuple[LayerSpec, ...]) -> str:
    """What the file defines before the network, as far as its layers need it."""
    kinds = {part.kind for part in parts}
    return (TOKENS if "tokens" in kinds else "") + (ATTEND if "attend" in kinds else "")


def module(part: LayerSpec) -> str:
    made = {
        "dense": f"torch.nn.Linear({part.inputs}, {part.outputs})",
        "conv": f"torch.nn.Conv2d({part.inputs}, {part.outputs}, {kernel_side(part)}, stride={part.stride}, "
        f"padding={int(not part.many)})",
        "norm": f"torch.nn.GroupNorm({part.many}, {part.inputs})",
        "level": f"torch.nn.LayerNorm({part.inputs})",
        "tokens": f"Tokens({part.inputs}, {part.many}, {part.outputs})",
    }
    return f"self.{part.name} = {made[part.kind]}"


def called(part: LayerSpec) -> str:
    return {
        "keep": "kept = x",
        "add": "x = x + kept",
        "relu": "x = torch.relu(x)",
        "image": f"x = x.reshape(-1, {part.outputs or 1}, {part.inputs}, {part.inputs})",
        "flatten": "x = x.flatten(1)",
        "pool": "x = x.mean((2, 3))",
        "max": "x = torch.nn.functional.max_pool2d(x, 2)",
        "mean": "x = x.mean(1)",
        "attend": f"x = attend(x, {part.many})",
    }.get(part.kind, f"x = self.{part.name}(x)")
