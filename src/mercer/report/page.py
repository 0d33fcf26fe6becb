"""A page of plain HTML in one string: no script, nothing from elsewhere, every word from outside
escaped.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)

_UNSHOWABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]"
)  # no HTML, or no UTF-8, has these
_STYLE = """
:root { color-scheme: light }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 58rem; background: #fff;
  color: #1a1a1a;
  font: 1rem/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: anywhere }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .75rem }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .5rem; padding-top: .75rem; border-top: 1px solid #ddd }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem }
p { margin: .5rem 0 }
.verdict { font-size: 1.2rem; line-height: 1.45; margin: 0 0 1rem; padding: .75rem 1rem;
  background: #f1f6fb;
  border-left: 4px solid #0b5fa5 }
.aside, figcaption, summary { color: #444; font-size: .9rem }
summary { cursor: pointer; margin: .5rem 0 }
figure { margin: 1rem 0 }
figure > svg { display: block; width: 100%; max-width: 38rem; height: auto; margin: 0 auto .4rem }
svg * { stroke-linejoin: round; stroke-linecap: butt }
svg image { image-rendering: pixelated }
.scroll { overflow-x: auto; margin: .75rem 0 }
table { border-collapse: collapse; font-size: .875rem; line-height: 1.35;
  font-variant-numeric: tabular-nums }
th, td { padding: .3rem .45rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid #e6e6e6; vertical-align: top }
th { border-bottom: 2px solid #999; font-weight: 600 }
td.words, th.words { text-align: left; white-space: normal; min-width: 13rem }
tr.marked td { background: #f1f6fb; font-weight: 600 }
tr.early td { color: #666 }
dl { display: grid; grid-template-columns: fit-content(9rem) 1fr; gap: .25rem 1rem;
  margin: .75rem 0; font-size: .9rem }
dt { font-weight: 600 }
dd { margin: 0 }
pre { padding: .75rem 1rem; background: #f5f5f5; overflow-x: auto;
  font: .875rem/1.45 ui-monospace, Menlo, Consolas, monospace }
@media print {
  @page { margin: 16mm }
  body { max-width: none; padding: 0; font-size: 9.5pt }
  h2 { break-after: avoid }
  figure, .verdict, pre, tr { break-inside: avoid }
  figure > svg { max-width: 11.5cm }
  .scroll { overflow: visible }
  pre { white-space: pre-wrap }
  table { font-size: 7.5pt; width: 100% }
  th, td { padding: .2rem .3rem }
  td.words, th.words { min-width: 0 }
  .verdict, tr.marked td, pre { print-color-adjust: exact; -webkit-print-color-adjust: exact }
}
""".strip()


def escaped(text: object) -> str:
    """Text for a page or an attribute; characters that no page can have are replaced."""
    return html.escape(_UNSHOWABLE.sub("\N{REPLACEMENT CHARACTER}", str(text)), quote=True)


def isolated(text: object) -> str:
    """Text from outside, such as a name: escaped, and its direction of writing kept to itself."""
    return f"<bdi>{escaped(text)}</bdi>"


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of escaped text."""
    return f"<p{_kind(kind)}>{escaped(text)}</p>"


def section(heading: str, *parts: str) -> str:
    """A heading and what is below it; parts are HTML."""
    return "\n".join(
        ["<section>", f"<h2>{escaped(heading)}</h2>", *filter(None, parts), "</section>"]
    )


def figure(svg: str, label: str, caption: str) -> str:
    """An svg element with a label for those who do not see it, and a caption, which is HTML."""
    opening = f'<svg role="img" aria-label="{escaped(label)}"'
    drawing = svg.replace("<svg", opening, 1)
    return f"<figure>\n{drawing}\n<figcaption>{caption}</figcaption>\n</figure>"


def table(
    label: str, header: Sequence[str], rows: Iterable[Sequence[str]], kinds: Sequence[str]
) -> str:
    """A table that scrolls by itself where the page is narrow; the kind of a row is "", "marked" or
    "early".

    Names that begin with "<" are those of columns of words, the others of numbers.
    """
    columns = ["words" if name.startswith("<") else "" for name in header]
    head = "".join(
        f'<th scope="col"{_kind(kind)}>{escaped(name.lstrip("<"))}</th>'
        for kind, name in zip(columns, header, strict=True)
    )
    body = [
        f"<tr{_kind(row_kind)}>"
        + "".join(
            f"<td{_kind(kind)}>{isolated(cell) if kind else escaped(cell)}</td>"
            for kind, cell in zip(columns, row, strict=True)
        )
        + "</tr>"
        for row_kind, row in zip(kinds, rows, strict=True)
    ]
    return "\n".join(
        [
            f'<div class="scroll" role="region" aria-label="{escaped(label)}" tabindex="0">',
            f"<table><thead><tr>{head}</tr></thead>",
            "<tbody>",
            *body,
            "</tbody></table></div>",
        ]
    )


def folded(summary: str, *parts: str) -> str:
    """Parts that are shown when they are asked for; on paper they are left out."""
    return "\n".join(["<details>", f"<summary>{escaped(summary)}</summary>", *parts, "</details>"])


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """A list of names and what they are."""
    return "\n".join(
        [
            "<dl>",
            *(f"<dt>{isolated(name)}</dt><dd>{isolated(value)}</dd>" for name, value in pairs),
            "</dl>",
        ]
    )


def command(line: str) -> str:
    """A line for a shell."""
    return f"<pre>{escaped(line)}</pre>"


def document(title: str, *parts: str) -> str:
    """The whole page; parts are HTML."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{escaped(POLICY)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            '<link rel="icon" href="data:,">',
            f"<title>{escaped(title)}</title>",
            f"<style>\n{_STYLE}\n</style>",
            "</head>",
            "<body>",
            "<main>",
            *filter(None, parts),
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _kind(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
