"""Theory pages and choosing.md: complete, names exist, figures are drawn."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import mercer
from mercer.maps import registry

DOCS = Path(__file__).parents[2] / "docs"
FIGURES = DOCS / "figures"
CHOOSING = DOCS / "choosing.md"
THEORY = sorted((DOCS / "theory").glob("*.md"))
PAGES = [CHOOSING, *THEORY]

# Beginning of Map.paper -> page of docs/theory.
PAPERS = {
    "Yang, Sindhwani": "laplace",
    "Wang, Yuan": "anchors",
    "Chang, Sankaranarayanan": "compressive",
    "Li, KDD 2017": "gmm",
    "Li, Lebanon": "chi2",
    "Rahimi and Recht": "fourier",
    "Williams and Seeger": "nystroem",
}


def plots(page: Path) -> list[tuple[str, str]]:
    """(script, function) of the plot directives of a page."""
    return re.findall(r"^\.\. plot:: (\S+) (\S+)$", page.read_text(), flags=re.MULTILINE)


def text_without_code(page: Path) -> str:
    return re.sub(r"^```python\n.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def load_figures(monkeypatch):
    """A function that runs a script of docs/figures, as plot_directive does, and has its names."""
    pytest.importorskip("matplotlib").use("agg")
    style = SimpleNamespace(**runpy.run_path(str(FIGURES / "style.py")))
    monkeypatch.setitem(sys.modules, "style", style)
    return lambda name: SimpleNamespace(**runpy.run_path(str(FIGURES / f"{name}.py")))


def test_every_map_is_in_choosing_with_a_picture(load_figures):
    figures = load_figures("maps").FIGURES
    assert set(figures) == set(registry())
    text = CHOOSING.read_text()
    headings = re.findall(r"^#### (.*)$", text, flags=re.MULTILINE)
    assert sorted(name for line in headings for name in re.findall("`(.*?)`", line)) == sorted(
        registry()
    )
    classes = [cls.__name__ for cls in registry().values()]
    assert not [name for name in classes if f"{{class}}`~mercer.{name}`" not in text]
    assert {function for _, function in plots(CHOOSING)} == {
        function.__name__ for function in figures.values()
    }


@pytest.mark.parametrize("script", ["maps", "theory"])
def test_every_figure_is_on_a_page_and_has_an_alternative_text(script, load_figures):
    drawn = {function.__name__ for function in load_figures(script).FIGURES.values()}
    path = f"figures/{script}.py"
    shown = [function for page in PAGES for file, function in plots(page) if file == path]
    assert sorted(shown) == sorted(drawn)
    text = "".join(page.read_text() for page in PAGES)
    assert text.count(".. plot:: ") == len(re.findall(r"^   :alt: \S", text, flags=re.MULTILINE))


def test_every_paper_has_a_page():
    pages = {page.stem for page in THEORY} - {"index"}
    assert pages == set(PAPERS.values())
    for beginning in PAPERS:
        assert [cls for cls in registry().values() if cls.paper.startswith(beginning)], beginning
    contents = re.search(r"```\{toctree\}.*?```", (DOCS / "theory/index.md").read_text(), re.DOTALL)
    assert set(contents[0].split("\n\n")[1].removesuffix("```").split()) == pages


@pytest.mark.parametrize("name", PAPERS.values())
def test_a_page_names_its_maps_and_has_a_figure(name):
    page = DOCS / "theory" / f"{name}.md"
    text = page.read_text()
    maps = [
        cls.__name__
        for cls in registry().values()
        if any(cls.paper.startswith(start) for start, page_of in PAPERS.items() if page_of == name)
    ]
    assert not [cls for cls in maps if f"{{class}}`~mercer.{cls}`" not in text]
    assert plots(page)
    assert "## Error" in text
    assert "## References" in text


def resolve(name: str) -> object:
    value: object = mercer
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_exist_and_are_of_their_kind(page):
    roles = re.findall(r"\{(class|func|meth|mod)\}`~?(mercer[\w.]*)`", page.read_text())
    assert roles
    for role, name in roles:
        value = resolve(name)
        assert isinstance(value, type) == (role == "class"), name
        assert callable(value) == (role != "mod"), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\((?!https?://)([^)#\s]+)", text_without_code(page)):
        assert (page.parent / target).exists(), target
    for script, _ in plots(page):
        assert (DOCS / script).exists(), script


def test_every_function_of_theory_is_on_a_page():
    text = "".join(page.read_text() for page in THEORY)
    functions = [name for name in mercer.theory.__all__ if name[0].islower()]
    assert not [name for name in functions if f"{{func}}`mercer.theory.{name}`" not in text]


@pytest.mark.full
@pytest.mark.parametrize(
    ("script", "function"), sorted({plot for page in PAGES for plot in plots(page)})
)
def test_a_figure_is_drawn(script, function, load_figures):
    if function == "tabular":
        pytest.importorskip("pandas")
    from matplotlib import pyplot

    getattr(load_figures(Path(script).stem), function)()
    (number,) = pyplot.get_fignums()
    axes = pyplot.figure(number).axes
    pyplot.figure(number).canvas.draw()
    pyplot.close(number)
    assert all(ax.has_data() for ax in axes)
