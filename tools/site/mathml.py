"""Formulas become MathML while the site is built: browsers draw it by themselves, without a script."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.S)


def on_page_content(content: str, **_: Any) -> str:
    return FORMULA.sub(drawn, content)


def drawn(match: re.Match[str]) -> str:
    display = "block" if match[2] == "[" else "inline"
    return convert(html.unescape(match[3]), display=display)
