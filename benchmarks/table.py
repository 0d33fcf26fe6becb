"""Print rows as a table; write them as JSON in results/ and as Markdown in README.md."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Row
from mercer.system import describe_system

HERE = Path(__file__).parent
HEADINGS = (
    "what",
    "rival",
    "threads",
    "ms",
    "rival's ms",
    "times faster (quartiles)",
    "target",
    "error",
    "rival's error",
    "bytes/row",
)


def show(name: str, rows: Sequence[Row]) -> None:
    """Print the rows; write results/<name>.json and the part of README.md named <name>."""
    used = [i for i in range(len(HEADINGS)) if any(cells(row)[i] for row in rows)]
    table = Table(*(HEADINGS[i] for i in used), title=name)
    for row in rows:
        table.add_row(*(cells(row)[i] for i in used))
    Console(width=180).print(table)
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    text = json.dumps(
        {"machine": describe_system(), "rows": [asdict(row) for row in rows]}, indent=1
    )
    (results / f"{name}.json").write_text(text + "\n")
    lines = [" | ".join(HEADINGS[i] for i in used), " | ".join("---" for _ in used)]
    lines += [" | ".join(cells(row)[i] for i in used) for row in rows]
    replace_part(HERE / "README.md", name, "\n".join(f"| {line} |" for line in lines))


def replace_part(path: Path, name: str, text: str) -> None:
    """Replace the text between <!-- name --> and <!-- /name --> of a Markdown file."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(\n?<!-- /{name} -->)", re.DOTALL)
    whole = path.read_text()
    if not pattern.search(whole):
        raise ValueError(f"{path.name} has no part called {name}")
    path.write_text(pattern.sub(lambda match: f"{match[1]}{text}\n<!-- /{name} -->", whole))


def cells(row: Row) -> tuple[str, ...]:
    """Format a row, one text for each heading."""
    times = f"{row.times[1]:.2f} ({row.times[0]:.2f}-{row.times[2]:.2f})" if row.times else ""
    return (
        row.what,
        row.rival or "",
        _number(row.threads, "d"),
        _number(row.milliseconds, ".3g"),
        _number(row.rival_milliseconds, ".3g"),
        times,
        _number(row.target, "g"),
        _number(row.error, ".2e"),
        _number(row.rival_error, ".2e"),
        _number(row.bytes_per_row, ",.0f"),
    )


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
