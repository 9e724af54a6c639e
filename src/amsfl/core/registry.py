"""Names for things: our own table, packages that register, and a user's own file. One mechanism for all.

A kind (methods, policies, combines, transmits) is a table of factories whose keyword parameters are the
thing's settings. A package registers under the entry point `amsfl.KIND`; `module:attribute` is a file of the
user's own, searched for in the current folder as well. Either may be a factory or the thing itself.
"""

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from traceback import extract_tb
from typing import Any, Generic, NamedTuple, TypeVar

from amsfl.core.errors import UserError, first_line, nearest
from amsfl.core.records import Json, JsonMapping

T = TypeVar("T")
_own_files: dict[str, str] = {}  # of what was loaded from files of the user's own, by module:attribute
OWN_FILE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")  # module:attribute


class Kind(NamedTuple, Generic[T]):
    """One kind of thing, e.g. Kind("method", "methods", Method, {"fedavg": fedavg, ...})."""

    word: str  # of one, in sentences
    group: str  # of all, in the entry point amsfl.GROUP
    type: type[T]
    table: Mapping[str, Callable[..., T]]

    def names(self) -> list[str]:
        """Ours first, then those that installed packages register."""
        return [*self.table, *(name for name in self._registered() if name not in self.table)]

    def spelling(self, name: str) -> str:
        """One of our names in any case is that name; every other is left as it is."""
        return name.lower() if name.lower() in self.table else name

    def factory(self, name: str) -> Callable[..., T]:
        """What makes the thing of that name; a UserError if nothing does."""
        if name in self.table:
            return self.table[name]
        entry = self._registered().get(name)
        if entry is None and not OWN_FILE.fullmatch(name):
            raise UserError(f"Unknown {self.word} {name!r}{nearest(name, self.names())}.")
        loaded = self._loaded(name, entry or EntryPoint(name, name, f"amsfl.{self.group}"))
        return (lambda: loaded) if isinstance(loaded, self.type) else loaded

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

    def chained(self, name_or_thing: "str | T", chain: Callable[[list[T]], T]) -> T | None:
        """`topk:0.1,q8` as one thing, a passed one as it is; None for an empty text."""
        if not isinstance(name_or_thing, str):
            return name_or_thing
        made = [
            self.make(name, dict(zip(self.settings(name), numbers, strict=False)))
            for name, numbers in parse_names(name_or_thing)
        ]
        return chain(made) if len(made) > 1 else made[0] if made else None

    def _registered(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entry_points(group=f"amsfl.{self.group}")}

    def _loaded(self, name: str, entry: EntryPoint) -> Any:
        _search_here()
        try:
            import_module(entry.module)
            loaded = entry.load()
        except (ImportError, AttributeError, ValueError, SyntaxError) as error:
            raise UserError(f"The {self.word} {name!r} cannot be loaded: {error}.") from None
        if OWN_FILE.fullmatch(name):
            _own_files[name] = own_file(name) or ""
        if not (isinstance(loaded, self.type) or callable(loaded)):
            raise UserError(f"{name!r} is a {type(loaded).__name__}, not a {self.type.__name__}.")
        return loaded


def _search_here() -> None:
    """The command's own path does not hold the folder that it is typed in."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def own_names(text: str) -> list[str]:
    """Every `module:attribute` of a text like `topk:0.1,mine:mine`; nothing is loaded."""
    spelled = [part.strip() for part in text.split(",")]  # whole, too: an attribute may be called `inf`
    names = dict.fromkeys([*spelled, *(name for name, _ in parse_names(text))])
    return [name for name in names if OWN_FILE.fullmatch(name)]


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
    inside = [frame for frame in extract_tb(error.__traceback__) if frame.filename in _own_files.values()]
    if not _own_files:
        return ""
    where = f"{inside[-1].filename}, line {inside[-1].lineno}" if inside else ""
    place = where or f"What {' or '.join(map(repr, _own_files))} gives does not fit"
    return (
        f"{place}: {first_line(error)} CONTRIBUTING.md says what such functions take and return; amsfl.run, "
        "in Python, shows all."
    )


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
