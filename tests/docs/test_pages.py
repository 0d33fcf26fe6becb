"""Pages of the documentation: every public name has an entry, every page is in a toctree."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import mercer

DOCS = Path(__file__).parents[2] / "docs"


def load_extension(name: str):
    spec = importlib.util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def public_names() -> set[str]:
    names = {f"mercer.{name}" for name in mercer.__all__} - {"mercer.kernels", "mercer.theory"}
    for package in (mercer.kernels, mercer.theory):
        names |= {f"{package.__name__}.{name}" for name in package.__all__}
    return names


def test_every_public_name_is_in_one_section_of_the_api_reference():
    pages = load_extension("api_pages")
    listed = [name for names in pages.sections().values() for name in names]
    assert len(listed) == len(set(listed))
    assert set(listed) == public_names()
    assert all(pages.sections().values()), "a section is empty"
    assert re.findall(r"^   (mercer\S+)$", pages.index(), flags=re.MULTILINE) == listed


def test_every_page_is_in_a_toctree():
    listed = set()
    for page in DOCS.rglob("*.md"):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), flags=re.DOTALL):
            for line in block.splitlines():
                entry = re.sub(r".*<(.*)>", r"\1", line.strip())
                if entry and not entry.startswith(":"):
                    listed |= set(page.parent.glob(f"{entry}.md"))
    pages = {page for page in DOCS.rglob("*.md") if page != DOCS / "index.md"}
    generated = {DOCS / "api", DOCS / "gallery", DOCS / "_build"}
    assert {page for page in pages if not generated & set(page.parents)} - listed == set()


def test_formulas_of_docstrings_are_escaped_outside_literals():
    escape_line = load_extension("docstrings").escape_line
    assert escape_line("exp(-gamma |x - z|^2)") == r"exp(-gamma \|x - z\|^2)"
    assert escape_line("gamma_ of ``gamma_``, gamma_0") == r"gamma\_ of ``gamma_``, gamma_0"
    assert escape_line(r"**alpha\_** : a * b") == r"**alpha\_** : a \* b"
    assert escape_line(":obj:`a_` and `b`_") == ":obj:`a_` and `b`_"


def test_examples_and_literal_blocks_of_docstrings_are_kept():
    lines = ["k_ is |x|::", "", "    a_ |b|", "", "and |c|", "", ">>> d_ | e", "f_", "", "g_"]
    load_extension("docstrings").escape(None, "function", "f", None, None, lines)
    assert lines == [
        r"k\_ is \|x\|::",
        "",
        "    a_ |b|",
        "",
        r"and \|c\|",
        "",
        ">>> d_ | e",
        "f_",
        "",
        r"g\_",
    ]
