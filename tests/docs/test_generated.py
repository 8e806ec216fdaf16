"""The pages that the code writes have their text in the repository, so that a code host shows them whole."""

import json
import re

import pytest

from docs import conf, generated
from docs.values.pages import Page
from p2p_sim.scenario import Scenario
from tests.conftest import ROOT

WRITTEN = {
    "command-line": generated.command_line,
    "gallery": generated.gallery,
    "scenario-keys": generated.scenario_keys,
}


@pytest.mark.parametrize(("name", "writes"), [*WRITTEN.items(), ("row-columns", generated.parameter_columns)])
def test_the_code_writes_what_the_pages_have(name, writes):
    page = Page(f"docs/{name}.md")
    assert writes().rstrip() in page.text
    assert page.faults() == []


@pytest.mark.parametrize("name", WRITTEN)
def test_a_line_that_the_code_does_not_write_is_seen_and_mended(name):
    page = Page(f"docs/{name}.md")
    heading = re.search(r"^## .+\n", page.text, re.MULTILINE)
    assert heading
    changed = Page(page.path, page.text.replace(heading[0], "## Something else\n"))
    assert changed.faults() == [f"{page.path}: has '## Something else', its source {heading[0].strip()!r}"]
    assert changed.filled() == page.text


def test_no_page_waits_for_the_site_to_be_built():
    for page in (ROOT / "docs").glob("*.md"):
        assert "<!-- generated -->" not in page.read_text(encoding="utf-8"), page
    assert "docs.generated" not in conf.extensions


def test_installed_plug_ins_leave_the_keys_as_they_are(installed):
    assert "uneven_response" in json.dumps(Scenario.model_json_schema())
    assert generated.scenario_keys().rstrip() in (ROOT / "docs" / "scenario-keys.md").read_text(encoding="utf-8")
