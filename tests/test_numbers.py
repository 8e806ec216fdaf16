"""Every number of README and docs is written anew from what a named command makes."""

import re
from dataclasses import replace

import pytest

from docs.numbers.page import Page, Source, faults, interval, table
from docs.numbers.pages import PAGES
from tests.conftest import ROOT


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_the_numbers_of_a_page_come_from_its_sources(page):
    assert faults(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_a_changed_digit_is_seen(page):
    text = page.read()
    for source in page.sources:
        passage = " ".join(next(iter(source.passages())).split())
        digits = [match.start() for match in re.finditer(r"\d", passage)]
        changed = passage[: digits[-1]] + str((int(passage[digits[-1]]) + 1) % 10) + passage[digits[-1] + 1 :]
        assert any(
            "lacks" in fault for fault in faults(replace(page, sources=[source]), text.replace(passage, changed))
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_sources_name_tests_that_are_there(page):
    for source in page.sources:
        path, _, name = source.test.partition("::")
        assert re.search(rf"^def {name}\(", (ROOT / "tests" / path).read_text(encoding="utf-8"), re.MULTILINE), source


def test_every_page_is_held_against_its_sources():
    pages = {"README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))}
    assert {page.path for page in PAGES} == pages


def test_numbers_from_nowhere_are_seen():
    page = Page("docs/none.md", [Source("a", "b", lambda: ["error is .023 [.021, .025]"])], given=(r"of 250 users",))
    sound = (
        "By Theorem 2.1 and at ε = 0.5, 1.5 and 2.5 for K >= 100 the error is .023 [.021, .025] of 250 users, `0.9`."
    )
    assert faults(page, sound) == []
    for wrong in (".024", "12.5", "1,000", "7%", "90 %", "123"):
        assert faults(page, f"{sound} It is {wrong}") == [
            f"docs/none.md: {wrong.rstrip(' %')} comes from nowhere: ...{sound[-43:]} It is {wrong}..."
        ], wrong
    assert len(faults(page, sound.replace(".023", ".024"))) == 4  # the passage is not there, nor are its three numbers
    assert any("lacks" in fault for fault in faults(page, sound.replace(".023", "3.023").replace("is 3", "is 3")))


def test_tables_and_intervals_are_written_as_in_the_pages():
    assert table(("a", "b"), [("1", "2")]) == "| a | b |\n|---|---|\n| 1 | 2 |"
    assert interval(0.0754, 0.064, 1.0) == ".075 [.064, 1.000]"
