"""The README and docs/ are true: code runs, the table of maps is the registry, files exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sklearn.datasets import load_digits
from tests.helpers.selection_data import select
from tests.helpers.shell import call

from mercer.maps import registry

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
DOCUMENTS = [README, *sorted(DOCS.glob("*.md")), *sorted((DOCS / "theory").glob("*.md"))]
# Pages whose code takes a second or more.
LONG = (
    "alpha.md",
    "choosing.md",
    "codes.md",
    "metric.md",
    "out-of-core.md",
    "scikit-learn.md",
    "selection.md",
    "several-kernels.md",
    "uncertainty.md",
)


def code(path: Path) -> list[tuple[str, str]]:
    """(code, what it prints) of the examples of a document; "" where no output is shown."""
    example = r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?"
    return re.findall(example, path.read_text(), flags=re.DOTALL)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(path, marks=pytest.mark.full) if path.name in LONG else path
        for path in DOCUMENTS
        if code(path)
    ],
    ids=name_of,
)
def test_the_code_runs_and_prints_what_is_shown(document, capsys, folder):
    for block, shown in code(document):
        exec(compile(block, document.name, "exec"), {})
        printed = capsys.readouterr().out
        if shown:
            assert_alike(printed, shown)


def assert_alike(printed: str, shown: str) -> None:
    """Assert that two texts are equal but for the last digits of numbers, which depend on BLAS."""
    for found, expected in zip(printed.split(), shown.split(), strict=True):
        number = re.fullmatch(r"(\d+\.\d+)%?\)?", expected)
        if number is None:
            assert re.sub(r"\d\.\d+", "", found) == re.sub(r"\d\.\d+", "", expected)
        else:
            assert float(found.strip("%)")) == pytest.approx(float(number[1]), rel=0.05)


def test_the_example_of_a_pipeline_does_what_it_says(capsys):
    ((block, _),) = code(DOCS / "scikit-learn.md")
    exec(block, {})
    first, second = capsys.readouterr().out.splitlines()
    assert float(first.split(":")[1]) > 0.95
    assert float(re.search(r"features (0\.\d+)", second)[1]) < 0.02


def commands(path: Path) -> list[tuple[str, str]]:
    """(command, what it says) of the terminal sessions of a document; comments are left out."""
    found = []
    for kind, block in re.findall(r"```(sh|console)\n(.*?)```", path.read_text(), flags=re.DOTALL):
        mark = r"^\$ " if kind == "console" else "^"
        for part in re.split(mark, block, flags=re.MULTILINE):
            line, _, output = part.partition("\n")
            if line.startswith("mercer "):
                found.append((line.partition("  #")[0].removeprefix("mercer ").strip(), output))
    return found


@pytest.mark.full
@pytest.mark.parametrize("document", [path for path in DOCUMENTS if commands(path)], ids=name_of)
def test_the_commands_run_and_their_errors_are_as_they_are_shown(document, folder, monkeypatch):
    monkeypatch.setattr("mercer.model_selection.select.select", select)
    load_digits(as_frame=True).frame.to_csv("digits.csv", index=False)
    for line, shown in commands(document):
        result = call(f"{line} --kernels hellinger" if line.startswith("compare d") else line)
        error = re.search(r"^Error: .*", shown, flags=re.MULTILINE)
        assert (result.exit_code == 0) == (error is None), result.output
        if error is not None:
            assert error[0] in result.stderr.splitlines()


def test_the_first_pages_show_the_road_from_data_to_predictions():
    road = ["compare", "plan", "fit", "inspect", "predict"]
    for document in (README, DOCS / "start.md"):
        assert [line.split()[0] for line, _ in commands(document)] == road


def size_parameter(cls) -> str:
    return f"`{cls.size_parameter}`" if cls.size_parameter else "-"


def test_the_table_of_maps_is_the_registry():
    table = (DOCS / "maps.md").read_text()
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    expected = [
        f"| `{name}` | `{cls.__name__}` | {', '.join(cls.kernels)} | {cls().domain} | "
        f"{size_parameter(cls)} | {cls.paper} |"
        for name, cls in sorted(registry().items())
    ]
    assert rows == expected


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_to_files(document):
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", document.read_text()):
        generated = target.startswith(("api/", "gallery/"))  # by make docs, whose links are tested
        assert generated or (document.parent / target).exists(), target


@pytest.mark.full
def test_docstring_examples_run():
    import doctest
    import importlib
    import pkgutil

    import mercer

    ran = 0
    for module in pkgutil.walk_packages(mercer.__path__, "mercer."):
        if module.name != "mercer._native" and not module.name.startswith(
            "mercer.ops.torch"
        ):  # which needs torch
            result = doctest.testmod(importlib.import_module(module.name))
            assert result.failed == 0, module.name
            ran += result.attempted
    assert ran > 10
