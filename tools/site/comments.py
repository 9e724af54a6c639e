"""For the API's pages: a field that has no docstring is described by the comment on its line."""

import ast
import re
from typing import Any

from griffe import Docstring, Extension

COMMENT = re.compile(r"(?<=\s)#\s*(?!noqa|type:)(\S.*)$")


class Comments(Extension):
    """Our NamedTuples say what a field is behind it; that is read here, and not written twice."""

    def on_attribute_instance(self, *, node: Any, attr: Any, **_: Any) -> None:
        if attr.docstring is not None or not isinstance(node, ast.AST) or attr.lineno is None:
            return
        lines = attr.filepath.read_text(encoding="utf-8").splitlines()
        found = COMMENT.search(lines[(attr.endlineno or attr.lineno) - 1])
        if found:
            attr.docstring = Docstring(f"{found[1][0].upper()}{found[1][1:]}.", parent=attr)
