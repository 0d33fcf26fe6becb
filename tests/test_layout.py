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

# module -> what of ours it may import; a package stands for all that is in it
ALLOWED = {
    "hearing": set(),
    "errors": set(),
    "csr": {"errors"},
    "times": set(),
    "door": {"csr", "errors", "hearing", "times"},
    "philox": {"errors"},
    "planner": set(),
    "kernels": {"csr", "door"},
    "theory": {"door", "kernels"},
    "ops": set(),
    "devices": {"hearing", "ops", "planner"},
    "blocks": {"ops"},
    "stages": {"ops", "door", "philox", "blocks"},
    "summaries": {"ops", "blocks", "errors", "philox"},
    "histograms": {"blocks", "summaries"},
    "tiles": {"errors", "planner"},
    "symmetric": {"devices", "ops", "planner", "tiles"},
    "moments": {"blocks", "devices", "ops", "summaries", "symmetric", "planner", "tiles"},
    "classes": {"door", "blocks", "ops", "summaries", "planner", "tiles"},
    "together": {"blocks", "summaries"},
    "atomic": set(),
    "tensors": {"atomic"},
    "known": set(),
    "records": {"csr", "known"},
    "checkpoints": {"tensors", "summaries"},
    "grams": {"devices", "door", "kernels", "ops", "tiles", "planner"},
    "streams": {"csr", "door", "atomic"},
    "sources": {"devices", "door", "blocks", "planner", "streams", "tiles"},
    "jobs": {"hearing", "ops", "sources", "summaries", "tiles", "together"},
    "cluster": {"door", "hearing", "jobs", "planner", "sources", "summaries", "tiles"},
    "folding": {
        "cluster",
        "devices",
        "door",
        "ops",
        "summaries",
        "together",
        "blocks",
        "tiles",
        "planner",
        "streams",
        "sources",
        "atomic",
        "checkpoints",
    },
    "maps": {
        "cluster",
        "csr",
        "devices",
        "door",
        "philox",
        "planner",
        "kernels",
        "ops",
        "blocks",
        "stages",
        "summaries",
        "histograms",
        "moments",
        "classes",
        "together",
        "streams",
        "sources",
        "tiles",
        "times",
        "grams",
        "folding",
        "theory",
    },
}
ALLOWED["outline"] = {"maps", "planner"}
ALLOWED["learn"] = {"maps", "machine", "outline", "checkpoints", "symmetric", *ALLOWED["maps"]}
ALLOWED["model"] = {"learn", "known", "records", "tensors", *ALLOWED["learn"]}
ALLOWED["pairs"] = {"maps", *ALLOWED["maps"]}
ALLOWED["pilots"] = {"pairs", *ALLOWED["pairs"]}
ALLOWED["certificate"] = {"pilots", *ALLOWED["pilots"]}
ALLOWED["machine"] = {"devices", "ops", "tiles"}
ALLOWED["quotation"] = {"atomic", "certificate", "learn", "machine", *ALLOWED["certificate"], *ALLOWED["learn"]}
ALLOWED["race"] = {"learn", "pairs", *ALLOWED["learn"]}
ALLOWED["leaderboard"] = {"door", "kernels", "machine", "philox", "race"}
ALLOWED["report"] = {"atomic", "leaderboard", "machine", "theory", "certificate", *ALLOWED["certificate"]}
ALLOWED["papers"] = {*ALLOWED}
ALLOWED["cli"] = {*ALLOWED}

HOMES = {
    "torch": {f"ops/gpu/{path.name}" for path in (SOURCE / "ops" / "gpu").glob("*.py")},
    "triton": {"ops/gpu/transforms.py", "ops/gpu/written.py"},
    "dask": {"cluster.py", "streams/dask.py"},
    "distributed": {"cluster.py", "jobs.py"},
    "pyarrow": {"streams/arrow.py"},
    "matplotlib": {"report/figures.py", "report/labels.py", "papers/pictures.py"},
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


FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path.parent != SOURCE or path.name != "__init__.py"]


def relative(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def test_imports_go_one_way():
    wrong = {}
    for path in FILES:
        ours = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        names = {name.split(".")[1] for name in imports(path) if name.startswith("mercer.")}
        wrong[relative(path)] = names - {ours, "__version__", "_native"} - ALLOWED[ours]
    assert not {path: names for path, names in wrong.items() if names}


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
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    listed = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        home = (node.module or "").removeprefix("mercer").lstrip(".")
        listed |= {alias.asname: home for alias in node.names}
    assert listed == mercer._home


def test_every_public_name_exists_and_has_a_docstring():
    assert not [name for name in mercer.__all__ if not getattr(mercer, name).__doc__ or name not in dir(mercer)]


def test_no_public_function_has_the_name_of_a_module():
    modules = {path.stem for path in SOURCE.iterdir()}
    assert not modules & {name for name, home in mercer._home.items() if home}


def test_a_misspelt_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'RandomFurier'"):
        _ = mercer.RandomFurier


def loaded_by(statement: str) -> set[str]:
    """The packages that a fresh process has loaded after the statement."""
    code = f"{statement}; import json, sys; print(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
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
    "matplotlib",
    "rich",
    "click",
    "threadpoolctl",
    "joblib",
}


def test_import_mercer_loads_nothing_that_numpy_does_not():
    assert not loaded_by("import mercer") & HEAVY


@pytest.mark.parametrize("words", [["--help"], ["fit", "--help"], ["fit", "data.csv", "--map", "gwcs"]], ids=" ".join)
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
    assert not [path for path in [*FILES, *Path(__file__).parent.rglob("*.py")] if path.stem in empty]
