"""Imports go one way, names are lazy, lists that are kept twice agree."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import mercer

SOURCE = Path(mercer.__file__).parent

# A module may import from its own layer's package and from the layers before. A package stands for
# all that is in it, but for what is named by itself.
LAYERS = [
    {"_typing"},
    {"errors", "ops", "parallel.tile_size", "parallel.warnings", "persistence.atomic_write"},
    {"parallel.device", "parallel.threads"},
    {"data.calendar", "maps.block", "persistence.container", "rng", "validation"},
    {"data", "kernels", "maps.stages", "stats", "system"},
    {"data.batches", "kernels.gram", "theory"},
    {"parallel.dask_worker"},
    {"parallel.dask_cluster"},
    {"stats.checkpoint"},
    {"stats.reduce"},
    {"maps"},
    {"linear_model"},
    {"evaluation", "persistence"},
    {"model_selection"},
    {"report"},
    {"cli"},
]
RANKS = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}

HOMES = {
    "torch": {f"ops/torch/{path.name}" for path in (SOURCE / "ops" / "torch").glob("*.py")},
    "triton": {"ops/torch/triton_hadamard.py", "ops/torch/triton_kernels.py"},
    "dask": {"parallel/dask_cluster.py", "data/dask.py"},
    "distributed": {"parallel/dask_cluster.py", "parallel/dask_worker.py"},
    "pyarrow": {"data/arrow.py"},
    "jinja2": {"report/report.py"},
    "matplotlib": {"report/figures.py", "report/labels.py"},
    "mercer._native": {"ops/cpu.py"},
}


@cache
def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


FILES = [
    path
    for path in sorted(SOURCE.rglob("*.py"))
    if path.parent != SOURCE or path.name != "__init__.py"
]


def relative(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in FILES
}


def layer(module: str) -> str:
    """The longest name of LAYERS that the module is, or is in."""
    return max((name for name in RANKS if f"{module}.".startswith(f"{name}.")), key=len)


def test_imports_go_one_way():
    wrong = []
    for module, path in MODULES.items():
        if "." not in module and path.name == "__init__.py" and module not in RANKS:
            continue  # a package of several layers says nothing but what it is
        for name in imports(path):
            other = name.removeprefix("mercer.")
            if other in MODULES and other != module and (other in RANKS or "." in other):
                ours, theirs = layer(module), layer(other)
                if (
                    ours != theirs
                    and RANKS[theirs] >= RANKS[ours]
                    and MODULES[other].name != "__init__.py"
                ):
                    wrong.append(f"{module} imports {other}")
    assert not wrong


def test_optional_packages_are_imported_in_the_listed_files_only():
    assert not [
        (relative(path), package)
        for path in FILES
        for package, homes in HOMES.items()
        if any(name == package or name.startswith(package + ".") for name in imports(path))
        and relative(path) not in homes
    ]


def test_every_lazy_name_is_listed_for_type_checkers_too():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    block = next(
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    listed = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        home = (node.module or "").removeprefix("mercer").lstrip(".")
        listed |= {alias.asname: home for alias in node.names}
    assert listed == mercer._modules


def test_every_public_name_exists_and_has_a_docstring():
    assert not [
        name
        for name in mercer.__all__
        if not getattr(mercer, name).__doc__ or name not in dir(mercer)
    ]


def test_no_public_function_has_the_name_of_a_module():
    modules = {path.stem for path in SOURCE.iterdir()}
    assert not modules & {name for name, home in mercer._modules.items() if home}


def test_a_misspelt_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'RandomFurier'"):
        _ = mercer.RandomFurier


def loaded_by(statement: str) -> set[str]:
    """The packages that a fresh process has loaded after the statement."""
    code = (
        f"{statement}; import json, sys; print(json.dumps(sorted({{name.split('.')[0] for "
        f"name in sys.modules}})))"
    )
    return set(
        json.loads(
            subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            ).stdout.splitlines()[-1]
        )
    )


HEAVY = {
    "scipy",
    "sklearn",
    "pandas",
    "torch",
    "dask",
    "distributed",
    "pyarrow",
    "jinja2",
    "matplotlib",
    "rich",
    "click",
    "threadpoolctl",
    "joblib",
}


def test_import_mercer_loads_nothing_that_numpy_does_not():
    assert not loaded_by("import mercer") & HEAVY


@pytest.mark.parametrize(
    "words", [["--help"], ["fit", "--help"], ["fit", "--hlep"], ["maps", "--hlep"]], ids=" ".join
)
def test_help_and_mistakes_of_usage_need_neither_numpy_nor_scikit_learn(words):
    command = (
        "from click.testing import CliRunner; from mercer.cli import main; "
        f"assert CliRunner().invoke(main, {words}).exit_code in (0, 2)"
    )
    assert not loaded_by(command) & (HEAVY | {"numpy"}) - {"click"}


def test_kernels_load_without_scipy():
    assert not loaded_by("import mercer; mercer.kernels.Chi2()([[1.0]])") & HEAVY


def test_the_version_is_that_of_the_package():
    import importlib.metadata

    assert mercer.__version__ == importlib.metadata.version("mercer")


def test_no_module_has_a_name_that_says_nothing():
    empty = {"utils", "util", "helpers", "common", "misc", "toolkit"}
    assert not [
        path for path in [*FILES, *Path(__file__).parent.rglob("*.py")] if path.stem in empty
    ]
