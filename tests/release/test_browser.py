"""Tests in a browser are skipped where there is none, but not by `make validate`."""

import pytest

from tests import browser as tests_of_pages


def test_without_a_browser_tests_are_skipped_and_slow_ones_fail(monkeypatch):
    monkeypatch.setattr(tests_of_pages, "find_chromium", lambda: None)
    with pytest.raises(pytest.skip.Exception, match=r"tests in a browser need a Chromium on the path$"):
        tests_of_pages.required(slow=False)
    with pytest.raises(pytest.fail.Exception, match="tests in a browser need a Chromium"):
        tests_of_pages.required(slow=True)


def test_with_a_browser_nothing_is_said(monkeypatch):
    monkeypatch.setattr(tests_of_pages, "find_chromium", lambda: "/usr/bin/chromium")
    monkeypatch.setattr(tests_of_pages, "find_spec", lambda name: name)
    tests_of_pages.required(slow=True)
    monkeypatch.setattr(tests_of_pages, "find_spec", lambda name: None)
    assert tests_of_pages.missing() == "the package playwright, the package axe-playwright-python"


@pytest.mark.slow
def test_there_is_a_browser_for_the_tests_that_need_one():
    """So that `make validate` does not pass by skipping; those tests themselves are run by `make test`."""
    tests_of_pages.required(slow=True)
