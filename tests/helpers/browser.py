"""Headless Chromium for tests that read pages as a user does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
MISSING = "chromium and chromedriver are not there: apt-get install chromium chromium-driver"
FLAGS = [
    "--headless=new",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def start_browser(profile: Path) -> Iterator[Any]:
    """Start Chromium with a profile in this folder; quit it at the end."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS, f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # which Chromium does not have for root
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.set_capability("unhandledPromptBehavior", "ignore")
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield browser
    finally:
        browser.quit()


def open_page(browser: Any, path: Path, width: int, query: str = "") -> None:
    """Open a page of the file system in a window of this width, with an empty log."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    browser.get_log("browser")
    browser.get(path.as_uri() + query)


def overflows(browser: Any) -> bool:
    """Whether the page is wider than the window."""
    return browser.execute_script(
        "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )
