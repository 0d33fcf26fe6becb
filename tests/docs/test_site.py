"""The documentation as it is built: no warning, links that resolve, nothing remote, in Chromium."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from tests.docs.test_pages import public_names
from tests.helpers.browser import CHROMIUM, DRIVER, MISSING, open_page, overflows, start_browser

ROOT = Path(__file__).parents[2]
GROUP = (
    "sphinx",
    "pydata_sphinx_theme",
    "numpydoc",
    "sphinx_gallery",
    "myst_parser",
    "sphinx-mathjax-offline",
    "matplotlib",
)
for package in GROUP:
    pytest.importorskip(package, reason=f"{package} is not installed: pip install --group docs")

fcntl = pytest.importorskip("fcntl", reason="the lock of the build needs fcntl")

pytestmark = pytest.mark.full

# A font, an image or another sheet that a sheet loads from a server.
REMOTE_STYLE = re.compile(r"""(@import|url\()\s*["']?(https?:)?//.{0,60}""")

# Pages that are opened, and whether they have figures; None: they may.
PAGES = {
    "index.html": True,
    "start.html": False,
    "choosing.html": None,
    "theory/index.html": None,
    "gallery/plot_digits.html": True,
    "api/generated/mercer.RandomFourier.html": True,
    "papers.html": True,
}


def build(folder: Path) -> None:
    """Build the site from a copy, so that no example of an earlier build is used."""
    generated = shutil.ignore_patterns("api", "gallery", "_build", "__pycache__")
    for name in ("docs", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=generated)
    for name in ("benchmarks/README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    options = ["-W", "--keep-going", "-q", "-b", "html"]
    result = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, folder / "docs", folder / "html"],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Return the folder of the site, which the first worker of a session builds."""
    session = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        session = session.parent  # that all workers share
    with open(session / "site.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (session / "site").exists():
            folder = tmp_path_factory.mktemp("build")
            build(folder)
            (folder / "html").rename(session / "site")
    return session / "site"


class Page(HTMLParser):
    """Anchors, links and resources of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.resources: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value is not None}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag == "link" and "href" in found:
            self.resources.append(found["href"])
        elif tag in ("script", "img", "iframe", "source", "video", "object"):
            self.resources += [found[name] for name in ("src", "data") if name in found]


@pytest.fixture(scope="session")
def pages(site):
    """Parse all pages; the theme has templates in _static."""
    found = [path for path in sorted(site.rglob("*.html")) if site / "_static" not in path.parents]
    return {path: Page(path) for path in found}


def test_links_and_anchors_resolve(site, pages):
    broken, checked = [], 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            checked += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.is_file():
                broken.append(f"{path.relative_to(site)}: {link}: no such file")
            elif target.suffix == ".html" and anchor not in {"", "top", *pages[target].anchors}:
                broken.append(f"{path.relative_to(site)}: {link}: no such anchor")
    assert broken == []
    assert checked > 1000


def test_no_page_loads_a_remote_resource(site, pages):
    for path, page in pages.items():
        for resource in page.resources:
            parts = urlsplit(resource)
            assert parts.scheme in ("", "data") and not parts.netloc, f"{path}: {resource}"
            if parts.path and not parts.scheme:
                assert (path.parent / unquote(parts.path)).is_file(), f"{path}: {resource}"
    for sheet in site.rglob("*.css"):
        found = REMOTE_STYLE.search(sheet.read_text(encoding="utf-8"))
        assert found is None, f"{sheet}: {found[0]}"


def test_every_public_name_has_an_entry(site, pages):
    for name in public_names():
        assert name in pages[site / "api" / "generated" / f"{name}.html"].anchors


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    pytest.importorskip("selenium", reason="selenium is not installed: pip install --group dev")
    if not (CHROMIUM and DRIVER):
        pytest.skip(MISSING)
    with start_browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


def errors(browser) -> list[str]:
    """Messages of the console, a moment later; the theme states its mode as information."""
    browser.execute_async_script("setTimeout(arguments[0], 300)")
    return [line["message"] for line in browser.get_log("browser") if line["level"] != "INFO"]


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", PAGES)
def test_pages_have_no_error_visible_figures_and_no_overflow(name, width, browser, site):
    open_page(browser, site / name, width)
    assert errors(browser) == []
    assert not overflows(browser)
    widths = browser.execute_script(
        "return Promise.all([...document.querySelectorAll('main img')].map(async (image) => {"
        " image.loading = 'eager'; await image.decode(); return image.naturalWidth }))"
    )
    assert PAGES[name] in (bool(widths), None)
    assert all(widths)


def test_search_finds_a_page(browser, site):
    open_page(browser, site / "search.html", 1280, "?q=leave-one-out")
    links = browser.execute_async_script(
        "const [done] = arguments, started = Date.now();"
        "const look = () => {"
        " const found = [...document.querySelectorAll('#search-results li a')].map(a => a.href);"
        " if (found.some(link => link.includes('alpha.html')) || Date.now() - started > 20000)"
        " done(found); else setTimeout(look, 50) };"
        "look()"
    )
    assert any(urlsplit(link).path.endswith("/decisions/alpha.html") for link in links)
    assert errors(browser) == []


def test_plots_of_a_myst_page_are_all_there(tmp_path):
    """Those of the directive itself and of eval-rst, with a name for each figure."""
    conf = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'docs' / '_ext')!r})\n"
        "extensions = ['myst_parser', 'plots']\nplot_formats = ['svg']\n"
    )
    figure = "import matplotlib.pyplot as plt\nplt.plot([0, {}])\n"
    nested = (
        "```{{eval-rst}}\n.. plot::\n\n   import matplotlib.pyplot as plt\n   plt.plot([{}])\n```\n"
    )
    plain = "```{{plot}}\n" + figure + "```\n"
    (tmp_path / "conf.py").write_text(conf)
    text = "# Figures\n\n" + "\n".join([plain.format(1), nested.format(2), nested.format(3)])
    (tmp_path / "index.md").write_text(text)
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "-q",
        "-b",
        "html",
        tmp_path,
        tmp_path / "html",
    ]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    page = Page(tmp_path / "html" / "index.html")
    figures = {name for name in page.resources if name.endswith(".svg")}
    assert len(figures) == 3
    assert len({(tmp_path / "html" / name).read_bytes() for name in figures}) == 3
