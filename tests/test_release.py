"""A release: the version is stated in one place, and what repeats the metadata agrees with it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import mercer

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
DEPENDENCIES = [
    *PROJECT["dependencies"],
    *(text for extra in PROJECT["optional-dependencies"].values() for text in extra),
]


def requirement(text: str) -> tuple[str, str]:
    """Split "dask[array]>=2025.1" into dask and >=2025.1."""
    name, bound = re.fullmatch(r"([\w-]+)(?:\[\w+\])?(>=[\d.]+)", text).groups()  # type: ignore[union-attr]
    return name, bound


def classified_pythons() -> list[str]:
    minors = (re.fullmatch(r".*:: Python :: (3\.\d+)", c) for c in PROJECT["classifiers"])
    return [match[1] for match in minors if match]


def workflow(name: str) -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    path = ROOT / ".github/workflows" / name
    if not path.exists():
        pytest.skip("a source distribution has no workflows")
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_citation_and_the_changelog_have_the_version_of_the_package():
    assert metadata.version("mercer") == mercer.__version__
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {mercer.__version__}\n" in citation
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None and newest[1] == mercer.__version__


def test_the_oldest_python_is_the_same_everywhere():
    oldest = classified_pythons()[0]
    assert PROJECT["requires-python"] == f">={oldest}"
    assert PYPROJECT["tool"]["mypy"]["python_version"] == oldest
    assert f"find_package(Python {oldest} " in (ROOT / "CMakeLists.txt").read_text()
    assert f"Python {oldest} or newer" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_python_of_the_classifiers_is_tested():
    jobs = workflow("tests.yml")["jobs"]
    assert jobs["linux"]["strategy"]["matrix"]["python"] == classified_pythons()
    assert jobs["oldest"]["name"].startswith(f"Python {classified_pythons()[0]},")


def test_there_is_a_wheel_for_every_python_of_the_classifiers():
    abi3 = PYPROJECT["tool"]["scikit-build"]["wheel"]["py-api"]
    built = [build.removesuffix("-*") for build in PYPROJECT["tool"]["cibuildwheel"]["build"]]
    assert abi3 in built
    tags = ["cp" + python.replace(".", "") for python in classified_pythons()]
    assert set(tags) == {t for t in tags if t in built or int(t[2:]) >= int(abi3[2:])}


@pytest.mark.parametrize("name", ["tests.yml", "wheels.yml"])
def test_workflows_pin_actions_and_jobs_need_no_rights(name: str):
    file = workflow(name)
    assert file["permissions"] == {"contents": "read"}
    for job in file["jobs"].values():
        for step in job["steps"]:
            if "uses" in step:
                action, version = step["uses"].split("@")
                assert re.fullmatch(r"v\d+(\.\d+)*|[0-9a-f]{40}", version), action
    if name == "wheels.yml":
        publish = file["jobs"]["publish"]
        assert publish["permissions"] == {"id-token": "write"}
        assert set(publish["needs"]) == set(file["jobs"]) - {"publish"}
        assert publish["steps"][-1]["with"]["attestations"] is True


def test_makefile_has_every_target_of_the_workflows():
    targets = set(re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for job in workflow("tests.yml")["jobs"].values():
        for step in job["steps"]:
            if step.get("run", "").startswith("make "):
                assert step["run"].split()[1] in targets


def dependency_table() -> dict[str, tuple[str, str]]:
    text = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w-]+) \| (>=[\d.]+) \|[^|]*\| (\S+) \|$", text, re.MULTILINE)
    return {name: (bound, licence) for name, bound, licence in rows}


def test_the_page_of_the_installation_has_every_dependency():
    table = dependency_table()
    assert {(name, bound) for name, (bound, _) in table.items()} == {
        requirement(text) for text in DEPENDENCIES
    }


@pytest.mark.parametrize("name", [requirement(text)[0] for text in DEPENDENCIES])
def test_licences_of_dependencies_are_those_of_their_metadata(name: str):
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    licence = dependency_table()[name][1]
    family = {"PSF-2.0": "Python Software Foundation"}.get(licence, licence.split("-")[0])
    classifiers = [c for c in found.get_all("Classifier", []) if c.startswith("License ::")]
    stated = [found.get("License-Expression", ""), *classifiers]
    if not any(stated):  # only the text of the licence
        stated = [found.get("License", "")]
    assert any(licence in text or family in text for text in stated), stated
    assert not any("GPL" in text or "General Public" in text for text in stated), stated


def test_the_wheel_states_what_is_linked_into_it():
    from mercer import ops

    if not ops.cpu.available():
        pytest.skip("the compiled core is not in use")
    files = metadata.files("mercer") or []
    (sbom,) = [f for f in files if f.parent.name == "sboms" and f.name == "mercer.cdx.json"]
    bom = json.loads(sbom.read_text())
    assert bom["bomFormat"] == "CycloneDX"
    component = bom["metadata"]["component"]
    assert (component["name"], component["version"]) == ("mercer", mercer.__version__)
    licences = {f.name for f in files if "licenses" in f.parts}
    assert [c["name"] for c in bom["components"]] == ["nanobind", "robin-map"]
    for part in bom["components"]:
        assert re.fullmatch(r"\d+\.\d+\.\d+", part["version"])
        assert part["purl"].endswith(f"/{part['name']}@{part['version']}")
        assert f"{part['name']}.txt" in licences
        (licence,) = part["licenses"]
        assert licence["license"]["id"] in metadata.metadata("mercer")["License-Expression"]


@pytest.mark.full
def test_the_source_distribution_builds_without_a_network(tmp_path: Path):
    pytest.importorskip("scikit_build_core")
    build = "from scikit_build_core.build import build_sdist as b; import sys; b(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames() if "/" in name]
        archive.extractall(tmp_path, filter="data")
    assert {"LICENSE", "CMakeLists.txt", "native/ops.cpp", "native/licenses/nanobind.txt"} <= set(
        names
    )
    assert {"src/mercer/py.typed", "tests/conftest.py", "docs/install.md"} <= set(names)
    assert not [n for n in names if re.search(r"(^|/)\.|__pycache__|\.(so|pyc|whl)$|^build/", n)]
    unpacked = tmp_path / sdist.name.removesuffix(".tar.gz")
    command = "-m pip wheel --quiet --no-index --no-build-isolation --no-deps --wheel-dir"
    environment = {**os.environ, "MERCER_PURE": "1"}
    environment.pop("MERCER_NATIVE", None)
    subprocess.run(
        [sys.executable, *command.split(), str(tmp_path), str(unpacked)],
        env=environment,
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"mercer-{mercer.__version__}-py3-none-any.whl"
