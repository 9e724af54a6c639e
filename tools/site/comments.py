"""For the API's pages: the fields of a NamedTuple as a table, each described by the comment on its line.

Our records say behind a field what it is; that is read here, and not written twice.
"""

import ast
import re
from typing import Any

from griffe import Class, Docstring, Extension

COMMENT = re.compile(r"(?<=\s)#\s*(?!noqa|type:)(\S.*)$")


class Comments(Extension):
    def on_class_members(self, *, node: Any, cls: Class, **_: Any) -> None:
        if not isinstance(node, ast.ClassDef) or "NamedTuple" not in map(str, cls.bases):
            return
        lines = cls.filepath.read_text(encoding="utf-8").splitlines()  # type: ignore[union-attr]
        fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
        text = [cls.docstring.value if cls.docstring else "", "", "Attributes:"]
        for field in fields:
            name = ast.unparse(field.target)
            text.append(f"    {name} ({ast.unparse(field.annotation)}): {described(field, lines)}")
            cls.members.pop(name, None)
        if fields:
            cls.docstring = Docstring("\n".join(text), parent=cls, parser="google")


def described(field: ast.AnnAssign, lines: list[str]) -> str:
    """The comment, and the default where there is one."""
    found = COMMENT.search(lines[(field.end_lineno or field.lineno) - 1])
    said = f"{found[1][0].upper()}{found[1][1:]}." if found else ""
    default = "" if field.value is None else f"Default `{ast.unparse(field.value)}`."
    return " ".join(filter(None, [said, default])) or "Needed."
