"""Layers as lines of Python for torch: what makes each, and what calls it."""

from amsfl.portable.network import LayerSpec

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


def helpers(parts: tuple[LayerSpec, ...]) -> str:
    """What the file defines before the network, as far as its layers need it."""
    kinds = {part.kind for part in parts}
    return (TOKENS if "tokens" in kinds else "") + (ATTEND if "attend" in kinds else "")


def module(part: LayerSpec) -> str:
    made = {
        "dense": f"torch.nn.Linear({part.inputs}, {part.outputs})",
        "conv": f"torch.nn.Conv2d({part.inputs}, {part.outputs}, 3, stride={part.stride}, padding=1)",
        "level": f"torch.nn.LayerNorm({part.inputs})",
        "tokens": f"Tokens({part.inputs}, {part.many}, {part.outputs})",
    }
    return f"self.{part.name} = {made[part.kind]}"


def called(part: LayerSpec) -> str:
    return {
        "keep": "kept = x",
        "add": "x = x + kept",
        "relu": "x = torch.relu(x)",
        "image": f"x = x.reshape(-1, {part.outputs}, {part.inputs}, {part.inputs})",
        "flatten": "x = x.flatten(1)",
        "mean": "x = x.mean(1)",
        "attend": f"x = attend(x, {part.many})",
    }.get(part.kind, f"x = self.{part.name}(x)")
