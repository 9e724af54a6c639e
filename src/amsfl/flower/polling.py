"""How soon Flower asks again for a part of a message that is still on its way.

Flower announces a message first and sends its parts after that. Whoever looks in between finds a part missing
and sleeps a second, then two, then four: of a short round that was the most. Here the first sleep is short.
"""

from functools import partial
from types import ModuleType

FIRST, LONGEST = 0.03, 1.0  # seconds; each sleep is twice the one before (Flower's own: 1 and 10)
TRIES = 5000  # Flower's own 500 tries last over an hour; ours are to last as long


def hasten(module: ModuleType, at_most: float | None = None) -> None:
    """Let a module of Flower's that fetches messages ask again soon, for `at_most` so many seconds: of who
    died while it sent, parts never come. It has no setting for it."""
    fetch = getattr(module, "pull_objects")  # noqa: B009  (a name that the module only imports)
    fetch = fetch.func if isinstance(fetch, partial) else fetch
    soon = partial(fetch, initial_backoff=FIRST, backoff_cap=LONGEST, max_tries_per_object=TRIES)
    setattr(module, "pull_objects", partial(soon, max_time=at_most) if at_most else soon)  # noqa: B010
