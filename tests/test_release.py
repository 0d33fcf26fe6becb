"""The version is stated in one place, and everything that repeats it agrees."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import mercer

ROOT = Path(__file__).parents[1]


def test_the_citation_and_the_changelog_have_the_version_of_the_package():
    assert metadata.version("mercer") == mercer.__version__
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {mercer.__version__}\n" in citation
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None and newest[1] == mercer.__version__
