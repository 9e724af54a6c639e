"""A few numbers in place of an upload: enough to compare clients, and little to remember."""

from amsfl import sampling
from amsfl.combine.weighted import lengths, middle
from amsfl.core import namespace
from amsfl.core.records import Array

SKETCH = 512  # numbers: products of two uploads are right to about 1/sqrt(512) of their lengths
ROUNDS = 8  # of Weiszfeld's steps
NEAREST = 1e-3  # of the usual distance: nobody is nearer to the centre than that


def sketched(rows: Array) -> Array:
    """[n, d] as [n, SKETCH]: coordinates with random signs, every SKETCH-th added up."""
    space = namespace(rows)
    clients, size = rows.shape
    words = sampling.words([SKETCH, size])
    places = space.arange(size, dtype=words.dtype)
    signs = 1 - 2 * space.astype(sampling.uniform((words[:1], words[1:]), places) < 0.5, rows.dtype)
    fill = space.zeros((clients, -size % SKETCH), dtype=rows.dtype)
    return space.concat([rows * signs, fill], axis=1).reshape(clients, -1, SKETCH).sum(1)


def centre(rows: Array, weights: Array) -> tuple[Array, Array]:
    """The geometric median, and how much of each row is in it."""
    space = namespace(rows)
    shares = weights / weights.sum()
    for _ in range(ROUNDS):
        apart = lengths(rows - shares @ rows)
        usual = middle(apart, weights)
        pull = weights / space.maximum(apart, NEAREST * usual + (usual == 0))
        shares = pull / pull.sum()
    return shares @ rows, shares
