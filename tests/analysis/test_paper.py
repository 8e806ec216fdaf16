"""The paper and its checklists: what is cited is in the bibliography, and what is named as evidence is there."""

import re

from tests.conftest import ROOT

PAPER = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
BIB = (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8")
CHECKS = (ROOT / "paper" / "checklist.md").read_text(encoding="utf-8")


def test_what_is_cited_is_in_the_bibliography_and_the_other_way_round():
    assert set(re.findall(r"@(\w+\d\w+)", PAPER)) == set(re.findall(r"^@\w+\{(\w+),", BIB, re.MULTILINE))


def test_figures_and_pages_are_there():
    for link in re.findall(r"\]\(([^)]+\.png)\)", PAPER):
        assert (ROOT / "paper" / link).exists(), link
    for page in re.findall(r"`(docs/[\w-]+\.md)`", PAPER):
        assert (ROOT / page).exists(), page


def test_evidence_of_every_ticked_box_is_there():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for line in re.findall(r"^- \[x\] (.*)$", CHECKS, re.MULTILINE):
        evidence = re.findall(r"`([^`]+)`", line)
        assert evidence, line
        for one in evidence:
            if one.startswith("make "):
                assert one.removeprefix("make ") in targets, one
            elif not one.startswith("p2p-sim "):
                assert (ROOT / one).exists(), one
    assert all("needs " in line for line in re.findall(r"^- \[ \] (.*)$", CHECKS, re.MULTILINE))
