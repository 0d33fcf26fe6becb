"""The index of the API reference, from the public names of mercer."""

from __future__ import annotations

from pathlib import Path

import mercer

_TITLES = {
    "linear_model": "Estimators",
    "maps": "Feature maps",
    "data": "Data",
    "stats": "Data",
    "model_selection": "Choosing and measuring",
    "evaluation": "Choosing and measuring",
    "report": "Choosing and measuring",
    "kernels": "Kernels",
    "theory": "Theory",
    "persistence": "Model files",
    "parallel": "Devices",
}
_INTRODUCTIONS = {
    "Kernels": "Exact kernels, ``k(X, Z)``, a Gram matrix; the reference of every map.",
    "Theory": "Variances of features, bounds of their error, and the sizes that they require.",
}


def sections() -> dict[str, list[str]]:
    """Return the public names, qualified, by the title of their section."""
    found: dict[str, list[str]] = {title: [] for title in _TITLES.values()}
    for name, module in mercer._modules.items():
        if module:
            found[_TITLES[module.partition(".")[0]]].append(f"mercer.{name}")
        else:
            members = getattr(mercer, name).__all__
            found[_TITLES[name]] += [f"mercer.{name}.{member}" for member in members]
    return {title: sorted(names) for title, names in found.items()}


def index() -> str:
    """Return the text of the index, whose tables autosummary follows."""
    parts = ["API reference", "=============", ""]
    for title, names in sections().items():
        parts += [title, "-" * len(title), ""]
        if title in _INTRODUCTIONS:
            module = f"mercer.{title.lower()}"
            parts += [f".. py:module:: {module}", "", ".. py:currentmodule:: None", ""]
            parts += [_INTRODUCTIONS[title], ""]
        parts += [".. autosummary::", "   :toctree: generated", "   :nosignatures:", ""]
        parts += [f"   {name}" for name in names] + [""]
    return "\n".join(parts)


def write(folder: Path) -> None:
    """Write index.rst, unless it has this text already, which keeps builds incremental."""
    path, text = folder / "index.rst", index()
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        folder.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
