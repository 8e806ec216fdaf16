"""The Chromium in which pages are tested, and in which pictures of them are taken."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")
"""Its programs, in the order in which they are looked for."""


def find_chromium() -> str | None:
    """Its path; None: there is none on the path."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def chromium() -> Iterator["Browser"]:
    """Chromium, driven by Playwright.

    Raises:
        FileNotFoundError: there is no Chromium on the path.
    """
    from playwright.sync_api import sync_playwright

    path = find_chromium()
    if path is None:
        raise FileNotFoundError(f"none of {', '.join(NAMES)} is on the path")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()
