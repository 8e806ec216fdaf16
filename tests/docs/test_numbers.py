"""Every number of README and docs comes from what a named command makes, put into the page by cog."""

import re
from pathlib import Path

import pytest

from docs.markdown import table
from docs.values import forms
from docs.values.pages import BEGIN, END, PAGES, Page
from tests.conftest import ROOT

SOUND = "<!-- given: of 250 users -->\n" + (
    "By Theorem 2.1 and at ε = 0.5, 1.5 and 2.5 for K >= 100 the error is\n"
    '<!-- [[[cog fill("shipped", "of {quickstart[\'accuracy\']:.3f} against") ]]] -->\n'
    "of 0.887 against nothing,\n<!-- [[[end]]] -->\nof 250 users, `0.9`.\n"
)


def changed(text: str, begin: int, end: int) -> str:
    """A text whose last digit between two places is another one."""
    place = max(match.start() for match in re.finditer(r"\d", text[begin:end])) + begin
    return text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :]


@pytest.mark.parametrize("path", PAGES)
def test_the_numbers_of_a_page_come_from_its_sources(path):
    page = Page(path)
    assert page.faults() == []
    for command, test in page.used:
        assert command
        file, _, name = test.partition("::")
        assert re.search(rf"^def {name}\(", (ROOT / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE), test


WORDS_ALONE = ("docs/row-columns.md",)
"""Pages whose filled parts have no number."""


@pytest.mark.parametrize("path", [path for path in PAGES if "[[[cog" in Page(path).text and path not in WORDS_ALONE])
@pytest.mark.slow_where(lambda path: Path(path).stem in {"mechanisms", "paid-comparison", "who-pays"})
def test_a_changed_digit_is_seen_and_mended(path):
    page = Page(path)
    marked = page.filled(BEGIN, END)
    values = [match.span() for match in re.finditer(f"{BEGIN}[^{END}]*{END}", marked)]
    numbers = [(begin, end) for begin, end in values if re.search(r"\d", marked[begin:end])]
    assert numbers
    wrong = marked
    for begin, end in numbers:
        wrong = changed(wrong, begin, end)
    text = re.sub(f"[{BEGIN}{END}]", "", wrong)
    assert len(text) == len(page.text)
    assert Page(path, text).filled() == page.text
    for begin, end in {numbers[0], numbers[-1]}:
        one = Page(path, re.sub(f"[{BEGIN}{END}]", "", changed(marked, begin, end)))
        assert any(fault.startswith(f"{path}: has ") for fault in one.faults())


def test_pages_without_numbers_name_no_source():
    without = {path for path in PAGES if not Page(path).used and "[[[cog" not in Page(path).text}
    assert {"docs/index.md", "docs/api.md", "docs/observers.md"} <= without
    assert len(PAGES) - len(without) == 33


def test_numbers_from_nowhere_are_seen():
    assert Page("docs/none.md", SOUND).faults() == []
    for wrong in (".024", "12.5", "1,000", "7%", "90 %", "123"):
        [fault] = Page("docs/none.md", f"{SOUND}It is {wrong}").faults()
        assert fault.startswith(f"docs/none.md: {wrong.rstrip(' %')} comes from nowhere: ...")
        assert fault.endswith(f"`0.9`. It is {wrong}...")
    assert Page("docs/none.md", SOUND.replace("250 users,", "251 users,")).faults() != []


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        ("0.887", "0.888", "docs/none.md: has 'of 0.888 against nothing,', its source 'of 0.887 against nothing,'"),
        ("0.887", "10.887", "has 'of 10.887 against"),
        ("of 0.887", "near 0.887", "no place for"),
        ("0.887", "so many", "no place for"),
        ("quickstart[", "slowstart[", "name 'slowstart' is not defined"),
        ('"shipped"', '"sunk"', "No module named 'docs.values.sunk'"),
        ("<!-- [[[end]]] -->", "", "Missing '[[[end]]]' before end of file"),
    ],
)
def test_a_block_that_does_not_fit_is_seen(right, wrong, fault):
    assert fault in Page("docs/none.md", SOUND.replace(right, wrong)).faults()[0]


def test_words_may_be_wrapped_and_values_may_be_words_or_intervals():
    templates = '"{word(3)} [{short(.065)}, {short(-.1, 2)}]", "{interval(.1, 0, .2, 1)} of {1439:,} users"'
    begin, end = f'<!-- [[[cog fill("forms", {templates}) ]]] -->\n', "<!-- [[[end]]] -->\n"
    page = Page("docs/none.md", f"{begin}two [.064,\n.086], .1\n[.1, .3] of\n1,438 users\n{end}")
    assert with_source(page) == f"{begin}three [.065,\n-.10], .1\n[.0, .2] of\n1,439 users\n{end}"


def with_source(page: Page) -> str:
    """The page filled from `docs.values.forms`, which has no source of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forms, "SOURCE", ("a", "b"), raising=False)
        return page.filled()


def test_cells_of_a_table_are_filled_and_its_words_kept():
    page = Page("docs/none.md", '<!-- [[[cog fill("forms", cells="CELLS") ]]] -->\n' + TABLE + "<!-- [[[end]]] -->\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forms, "CELLS", [["1", ""], ["**2**", "3"]], raising=False)
        assert with_source(page).splitlines()[1:5] == [
            "| a | b | c |",
            "|---|---|---|",
            "| x \\| y | 1 |  |",
            "| z | **2** | 3 |",
        ]


TABLE = table(("a", "b", "c"), [("x \\| y", "7", "8"), ("z", "9", "9")])


def test_numbers_are_written_as_in_the_pages():
    assert TABLE.splitlines()[:3] == ["| a | b | c |", "|---|---|---|", "| x \\| y | 7 | 8 |"]
    assert forms.interval(0.0754, 0.064, 1.0) == ".075 [.064, 1.000]"
    assert (forms.signed(-0.0131), forms.signed(0.5), forms.bold([0.1, 0.1001])) == ("-.013", "+.500", ["**.100**"] * 2)
