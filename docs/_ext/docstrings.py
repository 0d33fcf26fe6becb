"""Docstrings as reStructuredText: their formulas are plain text, such as |x - z|^2 and gamma_."""

from __future__ import annotations

import re
from typing import Any

# ``literals``, `references`, **names** of numpydoc and text with a backslash stay as they are.
_PROTECTED = re.compile(r"``.+?``|:\w+:`.+?`|`.+?`_?|\*\*.+?\*\*|\\.")
_TRAILING_UNDERSCORE = re.compile(r"(?<=\w)_(?!\w)")


def _escape_text(text: str) -> str:
    return _TRAILING_UNDERSCORE.sub(r"\\_", text.replace("|", r"\|").replace("*", r"\*"))


def escape_line(line: str) -> str:
    """Escape bars, asterisks and trailing underscores outside literals and references."""
    parts, end = [], 0
    for match in _PROTECTED.finditer(line):
        parts += [_escape_text(line[end : match.start()]), match[0]]
        end = match.end()
    return "".join([*parts, _escape_text(line[end:])])


def escape(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape the lines of a docstring in place, but for directives, examples and literal blocks."""
    example = False
    literal: int | None = None  # indentation of the paragraph before a literal block
    for i, line in enumerate(lines):
        text = line.strip()
        indentation = len(line) - len(line.lstrip())
        if text.startswith(">>>"):
            example = True
        elif not text:
            example = False
        if literal is not None and text and indentation <= literal:
            literal = None
        if not example and literal is None and not text.startswith((".. ", ":")):
            lines[i] = escape_line(line)
        if text.endswith("::") and literal is None:
            literal = indentation


def skip_member(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out members that classes inherit from other packages: scikit-learn's, tuple's."""
    module = getattr(getattr(obj, "fget", obj), "__module__", None) or ""
    return None if module.partition(".")[0] == "mercer" else True
