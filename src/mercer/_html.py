"""HTML of results in notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


class TextAsHtml:
    """Mixin: a notebook shows the text that ``print`` shows."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]], below: str) -> str:
    """Return an HTML table, numbers to the right, and text below it."""
    style = "text-align:right"

    def line(cells: Sequence[str], tag: str) -> str:
        first, *others = map(escape, cells)
        right = "".join(f'<{tag} style="{style}">{cell}</{tag}>' for cell in others)
        return f'<tr><{tag} style="text-align:left">{first}</{tag}>{right}</tr>'

    body = "".join(line(row, "td") for row in rows)
    head = f"<thead>{line(header, 'th')}</thead>"
    return f"<table>{head}<tbody>{body}</tbody></table><p>{escape(below)}</p>"
