"""Configuration of the documentation: ``make docs`` builds it, without access to a network."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import api_pages
import docstrings
import mercer

project = "mercer"
author = "the mercer developers"
copyright = author
version = release = mercer.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "plots",
]
exclude_patterns = ["_build", "gallery/**/*.ipynb", "gallery/**/*.py"]
templates_path = ["_templates"]
nitpicky = True
pygments_style = "sphinx"

# The API reference: one page for each public name, found by docs/_ext/api_pages.py.
api_pages.write(HERE / "api")
autosummary_generate = True
autodoc_typehints = "none"  # docstrings have the types
autodoc_member_order = "groupwise"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # docs/_templates/autosummary/class.rst lists them
numpydoc_use_plots = False

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

plot_formats = ["svg"]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_rcparams = {"figure.figsize": (6.4, 3.6), "svg.hashsalt": "mercer", "savefig.bbox": "tight"}
plot_apply_rcparams = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("mercer",),
    "reference_url": {"mercer": None},
    "within_subsection_order": "FileNameSortKey",
    "min_reported_time": 1,
    "show_signature": False,
    "write_computation_times": False,  # its page would load scripts from a remote server
    "download_all_examples": False,
    "remove_config_comments": True,
}

# MathJax with its fonts as SVG in one file, of the package sphinx-mathjax-offline.
MATHJAX = Path(importlib.import_module("sphinx-mathjax-offline").__file__ or "").parent / "static"
mathjax_path = "tex-svg-full.js"
mathjax3_config = {"svg": {"fontCache": "global"}, "options": {"enableMenu": False}}

html_theme = "pydata_sphinx_theme"
html_title = "mercer"
html_static_path = ["_static", str(MATHJAX / "mathjax" / "tex-svg-full.js")]
html_css_files = ["mercer.css"]
html_js_files = ["search_summary.js"]
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_sidebars = {"index": [], "start": [], "choosing": [], "papers": [], "benchmarks": []}
html_theme_options: dict[str, Any] = {
    "logo": {"text": "mercer"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

# Files outside docs/ that are pages here, by the name of their page.
OUTSIDE = {
    "../benchmarks/README.md": "benchmarks.md",
    "../CONTRIBUTING.md": "contributing.md",
    "../CHANGELOG.md": "changelog.md",
}


def replace_outside_links(app: Any, docname: str, source: list[str]) -> None:
    """Replace links to files outside docs/ by links to the pages that include them."""
    up = "../" * docname.count("/")
    for path, page in OUTSIDE.items():
        source[0] = source[0].replace(f"]({up}{path}", f"]({up}{page}")


def setup(app: Any) -> None:
    app.connect("source-read", replace_outside_links)
    # After numpydoc, whose priority is 500.
    app.connect("autodoc-process-docstring", docstrings.escape, priority=900)
    app.connect("autodoc-skip-member", docstrings.skip_member)
