"""Write the results as a Markdown page with pictures: docs/papers.md, docs/papers/*.svg."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from experiments.pictures import Figures, svg
from experiments.records import Experiment, Measured, Paper
from experiments.running import Results
from experiments.verdicts import ABSENT, AGREES, ASIDE, MISSES, NOT_RUN, Row, misses, table

FOLDER = "papers"  # of the pictures, beside the page

_RULES = """\
- **split**: within 1 point, where training and test rows are the paper's;
- **random**: within 2.5 points, where the paper's split was random, and ours is another one;
- **order**: the rows of a column are in the paper's order; published differences up to the number
  that is stated are ties, and so are differences of ours below the spread of our draws;
- **not comparable**: data or machine differ, the numbers stand side by side without a verdict."""


def page(papers: Iterable[Paper], size: str, results: Results) -> dict[str, bytes]:
    """Return {path relative to the page: contents}; "papers.md" is the page.

    Papers without a result of this size are omitted.
    """
    shown = [paper for paper in papers if _dates(paper, size, results)]
    if not shown:
        raise ValueError(
            f"There is no page to write: the results have none of size {size}. Run python -m "
            "experiments first."
        )
    files = {"papers.md": _text(shown, size, results).encode()}
    for paper in shown:
        for experiment in paper.experiments:
            figures = figures_of(experiment, size, results)
            if experiment.picture is not None and figures:
                files[f"{FOLDER}/{_name(experiment)}.svg"] = svg(experiment, figures)
    return files


def figures_of(experiment: Experiment, size: str, results: Results) -> Figures:
    """Return {row: {column: measured number}}, for the rows that have some."""
    found: dict[str, dict[str, Measured]] = {}
    for row in table(experiment, size, results):
        if row.ours is not None:
            found.setdefault(row.label, {})[row.column] = row.ours
    return found


def markdown(rows: Sequence[Row], form: str) -> str:
    """Format a table: a line for each published number, or for each row where there are none."""
    if all(row.published is None for row in rows):
        return _wide(rows, form)
    costs = [
        name
        for name in ("features", "seconds", "bytes")
        if any(row.ours and getattr(row.ours, name) for row in rows)
    ]
    lines = [["", "", "published", "ours", "difference", "verdict", "draws", *costs]]
    for row in rows:
        draws = "" if row.ours is None else str(row.ours.draws)
        cost = ["" if row.ours is None else _cost(name, getattr(row.ours, name)) for name in costs]
        lines.append([_name_of(row), row.column, *format_row(row, form), draws, *cost])
    return _grid(lines)


def format_row(row: Row, form: str) -> list[str]:
    """Format published, measured, difference and verdict of a row."""
    published = "-" if row.published is None else format(row.published, form)
    difference = "" if row.difference is None else f"{row.difference:+{form}}"
    why = f": {row.reason}" if row.reason and row.verdict in (ABSENT, ASIDE) else ""
    return [published, _number(row.ours, form), difference, f"{row.verdict}{why}"]


def _name_of(row: Row) -> str:
    return f"*{row.label}*" if row.own else row.label


def _wide(rows: Sequence[Row], form: str) -> str:
    columns = list(dict.fromkeys(row.column for row in rows))
    by_label: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_label.setdefault(_name_of(row), {})[row.column] = row
    lines = [["", *columns]]
    for label, found in by_label.items():
        lines.append([label, *(_wide_cell(found.get(column), form) for column in columns)])
    return _grid(lines)


def _wide_cell(row: Row | None, form: str) -> str:
    if row is None:
        return ""
    return _number(row.ours, form) if row.ours is not None else format_row(row, form)[3]


def _number(one: Measured | None, form: str) -> str:
    if one is None:
        return "-"
    return format(one.mean, form) + (f" ± {one.spread:{form}}" if one.spread is not None else "")


def _cost(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if name == "seconds" else f"{value:,.0f}"


def _grid(lines: Sequence[Sequence[str]]) -> str:
    texts = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    rule = ["---"] * len(texts[0])
    return "\n".join(f"| {' | '.join(line)} |" for line in (texts[0], rule, *texts[1:]))


def _text(papers: Sequence[Paper], size: str, results: Results) -> str:
    parts = [
        "# The five papers, reproduced",
        "What the papers have published beside what this library finds on real data, by `python "
        "-m experiments run` "
        f"(size: {size}). Tables and pictures are made from `papers.json`; "
        "texts and reasons stand in the experiment files.",
        _made(papers, size, results),
        "Accuracies are in per cent, ± is the standard deviation over draws, whose seeds are 0, "
        "1, 2, ... Rows in italics are ours, "
        "and in no paper. The rules:",
        _RULES,
        _summary(papers, size, results),
        "## Rows that miss",
        _missing(papers, size, results),
    ]
    for paper in papers:
        parts += [
            f"## {paper.title}",
            f"{paper.citation}. `python -m experiments run {paper.name}`",
        ]
        parts += [paper.about] if paper.about else []
        for experiment in paper.experiments:
            parts += _section(experiment, size, results)
    return "\n\n".join(parts) + "\n"


def _section(experiment: Experiment, size: str, results: Results) -> list[str]:
    rows = table(experiment, size, results)
    parts = [f"### {experiment.source}: {experiment.title}"]
    rule = experiment.rule
    stated = f"Rule: {'not comparable' if rule.name == 'none' else rule.name}"
    stated += (
        f" ({rule.reason})" if rule.reason else f", ties up to {rule.ties:g}" if rule.ties else ""
    )
    stated += _other_rules(experiment)
    parts += [" ".join(filter(None, (experiment.about, f"Numbers: {experiment.unit}. {stated}.")))]
    if experiment.picture is not None and figures_of(experiment, size, results):
        parts.append(f"![{experiment.title}]({FOLDER}/{_name(experiment)}.svg)")
    if rows and experiment.table:
        parts.append(markdown(rows, experiment.form))
    return parts


def _other_rules(experiment: Experiment) -> str:
    """Return the rules of the rows that have their own."""
    rows: dict[str, list[str]] = {}
    for cell in experiment.cells:
        if cell.rule not in (None, experiment.rule):
            name = (
                f"not comparable ({cell.rule.reason})"
                if cell.rule.name == "none"
                else cell.rule.name
            )
            rows.setdefault(name, []).append(cell.label)
    return "".join(
        f"; {name} for {', '.join(dict.fromkeys(labels))}" for name, labels in rows.items()
    )


def _made(papers: Sequence[Paper], size: str, results: Results) -> str:
    dates = sorted(date for paper in papers for date in _dates(paper, size, results))
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    machine = {
        name: results.machine.get(name, "unknown")
        for name in ("mercer", "python", "packages", "threads", "core")
    }
    about = (
        f"mercer {machine['mercer']}, Python {machine['python']}, {machine['packages']}; "
        f"{machine['threads']} threads, core: {machine['core']}"
    )
    return f"Run {when}. {about}."


def _summary(papers: Sequence[Paper], size: str, results: Results) -> str:
    names = (AGREES, MISSES, ASIDE, ABSENT, NOT_RUN)
    lines = [["paper", *names, "without a published number"]]
    for paper in papers:
        rows = [row for experiment in paper.experiments for row in table(experiment, size, results)]
        counts = Counter(row.verdict for row in rows)
        lines.append(
            [
                paper.title,
                *(str(counts[name]) for name in names),
                str(len(rows) - sum(counts[name] for name in names)),
            ]
        )
    return _grid(lines)


def _missing(papers: Sequence[Paper], size: str, results: Results) -> str:
    """Group the rows that are missing by experiment and reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for paper in papers:
        for experiment, row in misses(paper, size, results):
            form = experiment.form
            found.setdefault((experiment.key, row.note), []).append(
                f"  - {row.label}, {row.column}: published {row.published:{form}}, ours "
                f"{_number(row.ours, form)}; {row.reason}"
            )
    if not found:
        return "None."
    return "\n".join(
        f"- **{key}**: {note or 'no reason is known'}\n" + "\n".join(rows)
        for (key, note), rows in found.items()
    )


def _dates(paper: Paper, size: str, results: Results) -> list[str]:
    found = [results.get(size, one, cell) for one in paper.experiments for cell in one.cells]
    return [outcome.date for outcome in found if outcome is not None]


def _name(experiment: Experiment) -> str:
    return experiment.key.replace("/", "-")
