"""Names for things: our own tables', or `module:attribute` of a user's own file; or the thing itself.

A kind (methods, policies, rules, transmissions, round ends ...) is a table of factories, whose keywords are
the thing's settings. A file is searched for in the current folder as well; its attribute is a factory or the
thing itself.
"""

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from traceback import extract_tb
from typing import Any, Generic, NamedTuple, TypeVar

from amsfl.core.errors import UserError, first_line, nearest
from amsfl.core.records import Json, JsonMapping

T = TypeVar("T")
_own_files: dict[str, str] = {}  # of what was loaded from files of the user's own, by module:attribute
TABLES = "csv:", "table:"  # what data that were read or passed are called
OWN = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*(?:\.[^\W\d]\w*)*)")  # module:attribute


class Kind(NamedTuple, Generic[T]):
    """One kind of thing, e.g. Kind("method", Method, {"fedavg": fedavg, ...})."""

    word: str  # of one, in sentences
    type: type[T]
    table: Mapping[str, Callable[..., T]] = {}

    def factory(self, name: str) -> Callable[..., T]:
        """What makes the thing of that name; a UserError if nothing does."""
        if name in self.table:
            return self.table[name]
        if not OWN.fullmatch(name):
            raise UserError(f"Unknown {self.word} {name!r}{nearest(name, self.table)}.")
        loaded = _loaded(self.word, name)
        if isinstance(loaded, self.type):
            return lambda: loaded
        if not callable(loaded):
            raise UserError(f"{name!r} is a {type(loaded).__name__}, not a {self.type.__name__}.")
        return loaded  # type: ignore[no-any-return]  # what it gives is looked at in `make`

    def settings(self, name: str) -> Json:
        """The factory's own settings and their defaults; `inspect.Parameter.empty` where there is none."""
        return {key: p.default for key, p in inspect.signature(self.factory(name)).parameters.items()}

    def make(self, name: str, settings: JsonMapping | None = None) -> T:
        """The thing of that name with these settings; every mistake is a sentence."""
        factory, defaults = self.factory(name), self.settings(name)
        for key in settings or {}:
            if key not in defaults:
                has = nearest(key, defaults) if defaults else " (it has none)"
                raise UserError(f"The {self.word} {name!r} has no setting {key!r}{has}.")
        missing = [key for key, default in defaults.items() if default is inspect.Parameter.empty]
        missing = [key for key in missing if key not in (settings or {})]
        if missing:
            raise UserError(f"The {self.word} {name!r} needs {', '.join(missing)}; give it a number.")
        made = factory(**settings or {})
        if not isinstance(made, self.type):
            raise UserError(f"{name!r} gives a {type(made).__name__}, not a {self.type.__name__}.")
        return made

    def of(self, name_or_thing: "str | T", settings: JsonMapping | None = None) -> T:
        """The thing itself where it was passed, else by its name."""
        return self.make(name_or_thing, settings) if isinstance(name_or_thing, str) else name_or_thing

    def numbered(self, text: str, **own: Any) -> T:
        """`quorum:3`, or `module:attribute:3`: numbers for its settings, but those of `own` that it has."""
        (name, numbers), *more = parse_names(text) or [(text, [])]
        free = [key for key in self.settings(name) if key not in own]
        if more or len(numbers) > len(free):
            raise UserError(f"The {self.word} {text!r}: {name} takes {len(free) or 'no'} number(s).")
        given = {key: value for key, value in own.items() if key in self.settings(name) and value is not None}
        return self.make(name, dict(zip(free, numbers, strict=False)) | given)

    def chained(self, name_or_thing: "str | T", chain: Callable[[list[T]], T]) -> T | None:
        """`topk:0.1,q8` as one thing, a passed one as it is; None for an empty text."""
        if not isinstance(name_or_thing, str):
            return name_or_thing
        made = [
            self.make(name, dict(zip(self.settings(name), numbers, strict=False)))
            for name, numbers in parse_names(name_or_thing)
        ]
        return chain(made) if len(made) > 1 else made[0] if made else None


def parse_names(text: str) -> list[tuple[str, list[float]]]:
    """`topk:0.1,q8` as [("topk", [0.1]), ("q8", [])]; `module:attribute` stays a name."""
    links = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, numbers = part.rpartition(":")
        try:
            links.append((name, [float(number) for number in numbers.split("/")]) if name else (part, []))
        except ValueError:
            links.append((part, []))
    return links


def own_names(text: str) -> list[str]:
    """Every `module:attribute` of a text like `topk:0.1,mine:mine`; nothing is loaded."""
    spelled = [part.strip() for part in text.split(",")]  # whole, too: an attribute may be called `inf`
    names = dict.fromkeys([*spelled, *(name for name, _ in parse_names(text))])
    return [name for name in names if OWN.fullmatch(name) and not name.startswith(TABLES)]


def own_file(name: str) -> str | None:
    """The file that a `module:attribute` is loaded from."""
    _search_here()
    try:
        spec = find_spec(name.partition(":")[0])
    except (ImportError, ValueError):
        return None
    return spec.origin if spec and spec.has_location else None


def blame(error: Exception) -> str:
    """Where code of the user's own went wrong, or what of it does not fit; "" if none was loaded."""
    if not _own_files:
        return ""
    inside = [frame for frame in extract_tb(error.__traceback__) if frame.filename in _own_files.values()]
    where = f"{inside[-1].filename}, line {inside[-1].lineno}" if inside else ""
    place = where or f"What {' or '.join(map(repr, _own_files))} gives does not fit"
    return (
        f"{place}: {first_line(error)} CONTRIBUTING.md says what such functions take and return; amsfl.run, "
        "in Python, shows all."
    )


def _loaded(word: str, name: str) -> Any:
    _search_here()
    module, _, path = name.partition(":")
    try:
        loaded: Any = import_module(module)
        for attribute in path.split("."):
            loaded = getattr(loaded, attribute)
    except (ImportError, AttributeError, ValueError, SyntaxError) as error:
        raise UserError(f"The {word} {name!r} cannot be loaded: {error}.") from None
    _own_files[name] = own_file(name) or ""
    return loaded


def _search_here() -> None:
    """The command's own path does not hold the folder that it is typed in."""
    if "" not in sys.path:
        sys.path.insert(0, "")
