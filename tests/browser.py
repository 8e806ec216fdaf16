"""Tests in a browser: what they need, and what axe finds."""

from importlib.util import find_spec

import pytest

from docs.chromium import find_chromium

TAGS = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21aa"]}}


def missing():
    """What tests in a browser lack on this machine, in words; empty: nothing."""
    found = {
        "a Chromium on the path": find_chromium(),
        "the package playwright": find_spec("playwright"),
        "the package axe-playwright-python": find_spec("axe_playwright_python"),
    }
    return ", ".join(name for name, there in found.items() if not there)


def required(slow):
    """Skip a test in a browser where something is missing; a slow one fails."""
    if lacks := missing():
        (pytest.fail if slow else pytest.skip)(f"tests in a browser need {lacks}")


def violations(page, **options):
    """Rules of WCAG 2.1 AA that a page breaks by axe, each with what breaks it."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={**TAGS, **options}).response["violations"]
    return [(each["id"], [node["html"] for node in each["nodes"]]) for each in found]
