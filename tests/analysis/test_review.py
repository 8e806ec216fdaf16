"""The referee's page: green where verdicts are as published, red where one is not."""

import json
import subprocess
import sys

import pytest

from analysis import review
from p2p_sim.privacy.claims import Claim, all_claims
from p2p_sim.privacy.claims.claim import at_most
from tests.conftest import ROOT

QUICK = {"Lemma 1", "Theorem 1", "Plain aggregates"}


def few():
    return tuple(claim for claim in all_claims() if claim.name in QUICK)


def test_claims_as_published_are_green(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(review, "all_claims", few)
    lines = review.review(tmp_path, (review.papers_claims,))
    assert [line.good for line in lines] == [True] * 3
    assert sum("fails on" in line.verdict for line in lines) == 2
    assert "all 3 verdicts are as published" in (tmp_path / "index.html").read_text()
    assert capsys.readouterr().err.count("[1/1]") == 4


def test_a_planted_wrong_claim_turns_the_page_red(tmp_path, monkeypatch):
    sound = few()[0]
    wrong = Claim(sound.name, sound.paper, "planted", lambda: [at_most(1.0, 2.0)])
    monkeypatch.setattr(review, "all_claims", lambda: (wrong, *few()[1:]))
    monkeypatch.setattr(review, "STEPS", (review.papers_claims,))
    monkeypatch.setattr(review.review, "__defaults__", ((review.papers_claims,),))
    monkeypatch.setattr(sys, "argv", ["review", "--out", str(tmp_path)])
    assert review.main() == 1
    page = (tmp_path / "index.html").read_text()
    assert "1 of 3 verdicts are not as published" in page
    assert 'class="bad"' in page
    assert [line["good"] for line in json.loads((tmp_path / "review.json").read_text())].count(False) == 1


def test_a_damaged_certificate_and_a_failing_test_are_red(tmp_path, monkeypatch):
    (tmp_path / "certificates").mkdir()
    source = next((review.PUBLISHED / "certificates").glob("n100*.json"))
    text = source.read_text()
    (tmp_path / "certificates" / "a.json").write_text(text)
    monkeypatch.setattr(review, "PUBLISHED", tmp_path)
    [line] = review.certificates(tmp_path)
    assert line.good
    made = json.loads(text)
    made["claim"]["epsilon"] = str(float(made["claim"]["epsilon"]) / 2)
    (tmp_path / "certificates" / "b.json").write_text(json.dumps(made))
    [line] = review.certificates(tmp_path)
    assert not line.good
    assert "1 of 2 are proved; b.json is not" in line.verdict
    failed = subprocess.CompletedProcess([], 1, "1 failed in 0.1s", "")
    monkeypatch.setattr(review.subprocess, "run", lambda *given, **more: failed)
    assert not any(line.good for line in review.tests(tmp_path))


def test_the_files_of_tests_are_there():
    missing = [
        name
        for _, names in review.TESTS.values()
        for name in names.split()
        if not (ROOT / "tests" / f"{name}.py").exists()
    ]
    assert missing == []


@pytest.mark.slow
@pytest.mark.figures
def test_the_figure_is_drawn_again(tmp_path):
    [line] = review.figure(tmp_path)
    assert line.good
    assert (tmp_path / "reduced.png").stat().st_size > 20_000
