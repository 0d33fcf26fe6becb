"""What constructors take, read from their source: help and completion need neither NumPy nor
scikit-learn.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_HOME = Path(__file__).parents[1]


@dataclass(frozen=True)
class Signature:
    """A class, the name under which it is registered (None for most), and its parameters with their
    defaults as they are written.
    """

    cls: str
    name: str | None
    parameters: dict[str, str]


@functools.cache
def maps() -> dict[str, Signature]:
    """The registered maps by name."""
    found = (one for path in sorted((_HOME / "maps").glob("*.py")) for one in _classes(path))
    return {
        one.name: one
        for one in sorted(found, key=lambda one: one.name or "")
        if one.name is not None
    }


@functools.cache
def estimators() -> dict[str, Signature]:
    """KernelClassifier and KernelRegressor."""
    found = {
        one.cls: one
        for file in ("base.py", "classifier.py", "regressor.py")
        for one in _classes(_HOME / "linear_model" / file)
    }
    shared = found["KernelModel"].parameters
    return {
        name: Signature(name, None, found[name].parameters or shared)
        for name in ("KernelClassifier", "KernelRegressor")
    }


def _classes(path: Path) -> Iterator[Signature]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            names = [_literal(item) for item in node.body]
            inits = [
                item
                for item in node.body
                if isinstance(item, ast.FunctionDef) and item.name == "__init__"
            ]
            yield Signature(
                node.name,
                next((name for name in names if name), None),
                _parameters(inits[0].args) if inits else {},
            )


def _literal(node: ast.stmt) -> str | None:
    """The words of `name = "words"` in the body of a class."""
    target = (
        node.targets[0]
        if isinstance(node, ast.Assign)
        else node.target
        if isinstance(node, ast.AnnAssign)
        else None
    )
    value = getattr(node, "value", None)
    if isinstance(target, ast.Name) and target.id == "name" and isinstance(value, ast.Constant):
        return value.value if isinstance(value.value, str) else None
    return None


def _parameters(args: ast.arguments) -> dict[str, str]:
    plain = args.args[1:]  # without self
    defaults: list[ast.expr | None] = [*[None] * (len(plain) - len(args.defaults)), *args.defaults]
    pairs = [
        *zip(plain, defaults, strict=True),
        *zip(args.kwonlyargs, args.kw_defaults, strict=True),
    ]
    return {arg.arg: "" if default is None else ast.unparse(default) for arg, default in pairs}
