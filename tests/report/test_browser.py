"""The report in headless Chromium: no error, no dialog, visible figures, hostile names as text."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
pytest.importorskip("selenium", reason="selenium is not installed: pip install --group dev")

from selenium.common.exceptions import NoAlertPresentException
from selenium.webdriver.common.by import By
from tests.helpers.browser import CHROMIUM, DRIVER, MISSING, open_page, overflows, start_browser
from tests.helpers.leaderboards import HOSTILE, hostile_report, plain_report

WIDTHS = (390, 1280)

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason=MISSING)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with start_browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Write a plain report, and one with hostile names and texts."""
    folder = tmp_path_factory.mktemp("reports")
    (folder / "plain.html").write_text(plain_report(), encoding="utf-8")
    (folder / "hostile.html").write_text(hostile_report(), encoding="utf-8")
    return folder


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["plain", "hostile"])
def test_no_error_no_dialog_and_every_figure_is_visible_inside_the_page(
    name, width, browser, pages
):
    open_page(browser, pages / f"{name}.html", width)
    assert browser.get_log("browser") == []
    with pytest.raises(NoAlertPresentException):
        _ = browser.switch_to.alert.text
    assert not overflows(browser)
    figures = browser.find_elements(By.CSS_SELECTOR, "figure > svg")
    assert len(figures) == 9
    for figure in figures:
        box = figure.rect
        assert figure.is_displayed() and box["width"] > 300 and box["height"] > 70
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
        assert figure.get_attribute("aria-label")
    assert browser.execute_script("return document.scripts.length") == 0


def test_lines_text_and_images_inside_the_figures_are_painted(browser, pages):
    open_page(browser, pages / "plain.html", 1280)
    glyphs, pictures, text = browser.execute_script(
        "const size = (one) => { const box = one.getBoundingClientRect(); return box.width * "
        "box.height };"
        "const all = (what) => [...document.querySelectorAll(what)];"
        "return [all('figure svg use').filter(one => size(one) > 1).length, all('figure svg "
        "image').map(size),"
        " getComputedStyle(document.querySelector('figure svg path[style]')).fill]"
    )
    assert glyphs > 200  # marks and letters
    assert len(pictures) >= 6 and min(pictures) > 50  # heat maps and their scales
    assert text.startswith("rgb")


def test_hostile_names_are_text_only(browser, pages):
    open_page(browser, pages / "hostile.html", 390)
    text = browser.find_element(By.TAG_NAME, "body").get_attribute("textContent")
    for words in (HOSTILE[0], HOSTILE[1], HOSTILE[2], HOSTILE[4], HOSTILE[5], HOSTILE[7]):
        assert words in text
    assert browser.title == HOSTILE[2]
    assert (
        browser.find_elements(By.CSS_SELECTOR, "script, img, [onerror], [onload], [onmouseover]")
        == []
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_no_table_is_cut_and_every_cell_has_the_name_of_its_column(width, browser, pages):
    open_page(browser, pages / "plain.html", width)
    tables = browser.execute_script(
        "return [...document.querySelectorAll('.scroll')].map(one => "
        "[one.scrollWidth, one.clientWidth])"
    )
    assert len(tables) >= 3 and all(inside <= outside for inside, outside in tables)
    heads, labels = browser.execute_script(
        "const table = document.querySelector('table.models');"
        "const cell = table.querySelector('tbody td[data-label]');"
        "return [getComputedStyle(table.querySelector('thead')).display,"
        " getComputedStyle(cell, '::before').content]"
    )
    assert (heads == "none", labels != "none") == ((True, True) if width == 390 else (False, False))


def test_the_next_command_is_selected_as_a_whole(browser, pages):
    open_page(browser, pages / "plain.html", 390)
    style, text = browser.execute_script(
        "const one = document.querySelector('pre'); return "
        "[getComputedStyle(one).userSelect, one.textContent]"
    )
    assert style == "all" and text == "mercer fit data.csv --target y --map exp-chi2"


def test_the_policy_blocks_an_injected_script(browser, pages, tmp_path):
    text = (pages / "plain.html").read_text(encoding="utf-8")
    broken = tmp_path / "broken.html"
    broken.write_text(
        text.replace("</main>", "<script>document.title = 'run'</script></main>"), encoding="utf-8"
    )
    open_page(browser, broken, 390)
    assert browser.title != "run"
    assert any("Content Security Policy" in line["message"] for line in browser.get_log("browser"))


def test_in_print_the_table_is_complete(browser, pages):
    open_page(browser, pages / "plain.html", 700)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        inside, width, overflow = browser.execute_script(
            "const one = document.querySelector('.scroll');"
            "return [one.querySelector('table').getBoundingClientRect().right, "
            "one.getBoundingClientRect().right,"
            " getComputedStyle(one).overflowX]"
        )
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert inside <= width + 1 and overflow == "visible"
