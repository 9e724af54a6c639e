"""Records to plain data and back: NamedTuples of numbers, texts, lists and each other."""

from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from amsfl.record.sealed_text import Damaged

T = TypeVar("T")


def plain(value: Any) -> Any:
    """The record as JSON can hold it; `from_plain` is the way back."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


def from_plain(kind: type[T], data: Any) -> T:
    """The record that `plain` was given; raises Damaged where the data do not fit its fields."""
    names, hints = getattr(kind, "_fields", None), get_type_hints(kind)
    if names is None or not isinstance(data, dict) or set(data) != set(names):
        raise Damaged(f"the fields of {kind.__name__} are not all there, or there are others")
    return kind(**{name: _value(hints[name], data[name], name) for name in names})


def _value(hint: Any, value: Any, name: str) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, UnionType):
        if value is None and NoneType in inner:
            return None
        rest = [part for part in inner if part is not NoneType]
        return value if len(rest) != 1 else _value(rest[0], value, name)
    if getattr(hint, "_fields", None) is not None:
        return from_plain(hint, value)
    wanted: Any = {float: (int, float), tuple: list}.get(origin or hint, origin or hint)
    if not isinstance(value, wanted) or (isinstance(value, bool) and hint is not bool):
        raise Damaged(f"{name} is {str(value)[:40]!r}")
    if origin is list:
        return [_value(inner[0], part, name) for part in value]
    if origin is tuple:
        return tuple(_value(inner[0], part, name) for part in value)
    if origin is dict:
        return {key: _value(inner[1], part, name) for key, part in value.items()}
    return value
