"""The papers' claims: every verdict as expected, and checkers that refute what is wrong and only that."""

import itertools
import json
import math
import re
import sys

import numpy as np
import pytest

from docs.values.forms import word
from p2p_sim.privacy import LabelExchange, lemma9_epsilon, theorem3
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.claims import Claim, Verdict, all_claims, bag_counts, exchange_theorems, other_papers
from p2p_sim.privacy.claims import centralised_privacy as privacy
from p2p_sim.privacy.claims import centralised_utility as utility
from p2p_sim.privacy.claims import clustering_matrices as matrices
from p2p_sim.privacy.claims.algorithm1_laws import label_epsilon, laplace_nodes
from p2p_sim.privacy.claims.claim import at_least, at_most
from p2p_sim.privacy.claims.paper_against_exact import bounds_table, gaussian_epsilon, shuffled_epsilon
from p2p_sim.privacy.rivals.centralised import ClusterResampling, laplace_tail
from p2p_sim.privacy.rivals.noisy_share import released_distribution
from tests.conftest import ROOT

FAILING = {"Theorem 1", "Corollary 1 (rate)", "Table 1, last row, by Theorem 3", "Plain aggregates"}

SLACK = {
    "Lemma 1": (1.414921, 10.0),
    "Lemma 2": (1.0005, 10.0),
    "Lemma 4": (2.828427, 72.15228),
    "Lemma 5": (1.511785, 1215.105),
    "Lemma 6": (1.002998, None),
    "Lemma 8": (1.0, 1.874792),
    "Lemma 9": (9.360946, 701.393),
    "Theorem 3": (76.66072, 1007.891),
    "Theorem 3, line (32)": (1.000001, None),
    "Table 1, last row, by Theorem 3": (7.254329e-05, 0.2849304),
    "Table 1, last row, exact ε": (1.670242, 4.303148),
    "Section 5.1, peer's δ": (1.000002, 5.0),
    "Section 5.1, peer's ε": (1.0, 1.0),
    "Section 5.1, no amplification": (1.0, 1.0),
    "Theorem 1": (0.5049026, 1.379294),
    "Theorem 6": (1.0, 50.0),
    "Corollary 1 (privacy)": (1.0, 1.0),
    "Corollary 1 (rate)": (0.04019663, 1.999983),
    "Corollary 2 (privacy)": (1.587208, 3.249692),
    "Theorem 5": (1.051896, 11.59256),
    "Theorem 1 (vector)": (1.0, 1.0),
    "Proposition 1 (PLR)": (1.892023, 3.639115),
    "Theorem 2.4 (stability-based histogram)": (4.0, 4.0),
    "Histogram rule": (1.0, 1.994244),
    "Plain aggregates": (0.5, 0.5),
    "Noisy aggregates": (1.0, 1.0),
}
"""Tightest and loosest slack of each claim, to seven digits; None where it is a rounding error's."""


LONG = {"Lemma 9", "Table 1, last row, exact ε", "Corollary 2 (privacy)"}
"""Claims that take two seconds or more each."""


@pytest.fixture(scope="module", params=["quick", pytest.param("all", marks=pytest.mark.slow)])
def verdicts(request) -> dict[str, Verdict]:
    every = request.param == "all"
    return {claim.name: claim.check() for claim in all_claims() if every or claim.name not in LONG}


def holds(cases) -> bool:
    return Claim("control", "", "", lambda: cases).check().holds


def test_every_verdict(verdicts):
    assert len(all_claims()) == 26
    assert {claim.name for claim in all_claims()} - set(verdicts) <= LONG
    assert {name for name, verdict in verdicts.items() if not verdict.holds} == FAILING
    for verdict in verdicts.values():
        assert (verdict.counterexample is None) == verdict.holds == (verdict.tightest >= 1.0 - 1e-9)
        assert verdict.holds or verdict.corrected
        assert verdict.loosest >= verdict.tightest


def test_the_page_on_the_papers_says_what_was_found(verdicts):
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| .+? \| (.+?) \|.*\| (holds|fails) \|$", page, re.MULTILINE)
    found = [(name, "holds" if verdict.holds else "fails") for name, verdict in verdicts.items()]
    assert [line for line in listed if line[0] in verdicts] == found
    assert {name for name, _ in listed} - set(verdicts) <= LONG
    beliefs = {claim.name for claim in all_claims() if claim.belief}
    wrong = [name for name, verdict in listed if verdict == "fails" and name not in beliefs]
    assert f"{word(len(wrong)).capitalize()} claims of papers fail, and so does the belief." in page
    assert beliefs == {name for name, verdict in listed if verdict == "fails"} - set(wrong)


def test_the_slack_of_every_claim_stays_what_it_was(verdicts):
    """The grids and what is computed on them: a change here is a change of what `check-bounds` prints."""
    assert set(verdicts) <= set(SLACK)
    for name in verdicts:
        tightest, loosest = SLACK[name]
        assert verdicts[name].tightest == pytest.approx(tightest, rel=1e-5), name
        assert loosest is None or verdicts[name].loosest == pytest.approx(loosest, rel=1e-5), name


def test_the_smallest_counter_example_of_theorem_1(verdicts):
    found = verdicts["Theorem 1"].counterexample
    assert found["K"] == found["n"] == 2
    ratio = math.log(found["probability"] / found["neighbour_probability"])
    assert ratio == pytest.approx(found["true"])
    assert found["claimed"] < 0.6 * found["true"]


def test_theorem_1_fails_for_three_classes_whatever_its_parameters():
    edges = [case for case in privacy.theorem1_cases(privacy.printed_theorem1) if "edge_width" in case.where]
    assert len(edges) == 18
    assert all(case.where["K"] >= 3 and case.ratio_high < 1.0 for case in edges)


def test_the_corrected_theorem_1_is_not_refuted_and_is_tight():
    def corrected(scale: float, resampling_prob: float, threshold: float) -> float:
        return ClusterResampling(2, 2, resampling_prob, scale, threshold, True).pure_epsilon

    verdict = Claim("", "", "", lambda: privacy.theorem1_cases(corrected)).check()
    assert verdict.holds
    assert verdict.tightest == pytest.approx(1.0, abs=1e-4)
    assert verdict.where["tightest"]["K"] >= 3


@pytest.mark.parametrize("own", [0, 1])
def test_the_event_against_theorem_1_has_its_closed_form_in_simulation(own):
    """The exact event through the printed renormalisation; false alarms below 1e-9 (6.2 standard deviations)."""
    labels, tau, sigma, lam, draws = (own, 1, 2), 1 / 6, 1.0, 0.5, 1_000_000
    noise = np.random.default_rng(1).laplace(scale=sigma / 3, size=(draws, 3))
    q = released_distribution(np.bincount(labels, minlength=3) / 3, noise, tau)
    corner = np.isclose(q[:, 0], 1 - 2 * tau, atol=1e-12) & np.isclose(q[:, 1], tau, atol=1e-12)
    given = lam * (1 - 2 * tau) + (1 - lam) * (own == 0)
    expected = privacy.corner_event(labels, 3, scale=sigma, threshold=tau, resampling_prob=lam, own=own) / given
    assert abs(corner.mean() - expected) < 6.2 * math.sqrt(expected / draws)


def test_the_edge_event_of_theorem_1_has_the_ratio_of_two_moved_shares():
    """By quadrature: labels (0, 1, 2, 2) against (1, 1, 2, 2), σ = 1, τ = 1/4, event q̃(1) = τ < q̃(0) <= τ + 0.1."""
    chance = []
    for share in ([0.25, 0.25, 0.5], [0.0, 0.5, 0.5]):
        noise = laplace_nodes(3, 0.25, 110)
        q = released_distribution(np.array(share), noise, 0.25)
        chance.append(((q[:, 0] > 0.25 + 1e-12) & (q[:, 0] <= 0.35) & (np.abs(q[:, 1] - 0.25) < 1e-12)).mean())
    assert math.log(chance[0] / chance[1]) == pytest.approx(2.0, abs=0.1)


def test_what_is_claimed_of_the_matrix_is_what_is_printed():
    """Figures by hand, at K = 2 and β = 1/2; Theorem 6 takes Lemma 1 at β = 0.99."""
    for lemma, claim in zip((0.25, 4.0, 4.0 * math.sqrt(2.0)), matrices.CLAIMS, strict=True):
        at = [c.claimed for c in claim.cases() if (c.where["K"], c.where["beta"]) == (2, 0.5)]
        assert at
        assert at == pytest.approx([lemma] * len(at), rel=1e-12), claim.name
    least = [c.claimed for c in privacy.theorem6_cases() if (c.where["quantity"], c.where["K"]) == (4, 2)]
    assert least == pytest.approx([0.005] * 25, rel=1e-12)


def test_the_proof_of_theorem_3_takes_lemma_9_at_a_delta_and_xi_that_belong_together():
    cases = list(exchange_theorems.theorem3_proof_cases())
    assert len(cases) > 20
    for lemma, delta in zip(cases[::2], cases[1::2], strict=True):
        n, theta, alpha = (lemma.where[name] for name in ("n", "theta", "alpha"))
        assert lemma.where["true"] == pytest.approx(lemma9_epsilon(n, alpha, theta, delta.where["true"]), rel=1e-9)


def test_theorem_3_by_hand():
    """s = 10^8 and θ = 1/4: θ^1.5 = 1/8, √θ = 1/2, s^(1/4) = 100, ln s = 18.420680744."""
    found = theorem3(10**8, 0.25)
    assert found.flip_prob == pytest.approx(4 * math.sqrt(2) * 18.420680744 / 5000, rel=1e-10)
    last = 0.03 * math.sqrt(math.sqrt(1 / 8))
    assert found.epsilon == pytest.approx(0.25 + 0.375 / (math.e * 1e4 * 4.2919320) + last, rel=1e-10)
    assert found.delta == 1e-16


def test_table_1_is_checked_at_the_delta_and_alpha_of_its_row(monkeypatch):
    """s = 1/(φε²), θ = ε, α = 4 φ ln s and δ = 1/s²; the first row is φ = 1/100 and ε = 1/2, that is s = 400."""
    asked = []

    class Asked:
        def __init__(self, *setting: float) -> None:
            self.setting = setting

        def epsilon(self, delta: float) -> PrivacyBound:
            asked.append((*self.setting, delta))
            return PrivacyBound(0.1, 0.2, delta, "learner", "label", "", ())

    monkeypatch.setattr(exchange_theorems, "LabelExchange", Asked)
    cases = list(exchange_theorems.table1_exact_cases())
    assert asked[0] == pytest.approx((400, 0.04 * math.log(400.0), 0.5, 1.0 / 160_000.0), rel=1e-12)
    for (size, alpha, theta, delta), case in zip(asked, cases, strict=True):
        phi = case.where["phi"]
        assert case.claimed == theta
        assert size == pytest.approx(1.0 / (phi * theta**2), abs=1.0)
        assert (alpha, delta) == pytest.approx((4.0 * phi * math.log(size), 1.0 / size**2), rel=1e-12)


WRONG = {
    "Lemma 1 without its √2 and K": lambda: matrices.singular_value_cases(lambda k, beta: 1 - beta),
    "Lemma 2 below the sharp constant": lambda: matrices.column_sum_cases(lambda k, b: (1 + 0.99 * b) / (1 - b)),
    "Lemma 4 below the sharp constant": lambda: matrices.modified_loss_cases(lambda k, b: 0.99 / (1 - b)),
    "Lemma 5 halved": lambda: utility.lemma5_cases(lambda *p: 0.5 * utility.printed_lemma5(*p)),
    "Lemma 6 with 0.9": lambda: utility.lemma6_cases(0.9),
    "Lemma 8 with 1 for 3": lambda: exchange_theorems.lemma8_cases(1.0),
    "Theorem 6 with a larger τ": lambda: privacy.theorem6_cases(1e-3),
    "Corollary 1 at 0.99 ε": lambda: privacy.corollary1_cases(0.99),
    "Theorem 5 at a tenth": lambda: utility.theorem5_cases(0.1),
    "a peer at 0.99/s": lambda: exchange_theorems.peer_delta_cases(0.99),
    "a peer at 0.99 ε": lambda: exchange_theorems.peer_epsilon_cases(0.99),
    "δ without amplification": lambda: exchange_theorems.subsampling_cases(pure=False),
    "vector bits at 0.6 ε": lambda: other_papers.vector_cases(0.6),
    "PLR with a third of the noise": lambda: other_papers.plr_cases(3.0),
    "a histogram with a lower threshold": lambda: other_papers.stability_cases(-20.0),
    "a histogram rule with less noise": lambda: other_papers.histogram_rule_cases(0.9),
    "noisy aggregates with one moved count of two": lambda: bag_counts.noisy_cases(1),
}  # fmt: skip
RIGHT = {
    "Lemma 1, sharp": lambda: matrices.singular_value_cases(lambda k, beta: (1 - beta) / math.sqrt(k)),
    "Lemma 2, sharp": lambda: matrices.column_sum_cases(lambda k, b: (1 + b) / (1 - b)),
    "Lemma 4, sharp": lambda: matrices.modified_loss_cases(lambda k, b: 1 / (1 - b)),
    "Corollary 1's rate without the leading K": lambda: privacy.corollary1_rate_cases(lambda k: 2.0),
    "Table 1 with √φ": lambda: exchange_theorems.table1_theorem3_cases(0.5),
    "vector bits at 0.4 ε": lambda: other_papers.vector_cases(0.4),
    "plain aggregates that hide nothing": lambda: bag_counts.plain_cases(1.0),
}


@pytest.mark.parametrize("cases", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_statement_is_refuted(cases):
    assert not holds(cases())


@pytest.mark.parametrize("cases", RIGHT.values(), ids=RIGHT.keys())
def test_a_true_statement_is_not_refuted(cases):
    assert holds(cases())


@pytest.mark.slow
def test_a_tenth_of_lemma_9_is_refuted_by_an_attained_value(monkeypatch):
    monkeypatch.setattr(exchange_theorems, "LARGE", ((12_000, 0.1, 0.1, 1 / 12_000**2),))

    def tenth(*setting: float) -> float | None:
        claimed = lemma9_epsilon(*setting)
        return None if claimed is None else 0.1 * claimed

    verdict = Claim("", "", "", lambda: exchange_theorems.lemma9_cases(tenth)).check()
    assert not verdict.holds
    found = verdict.counterexample
    exact = LabelExchange(int(found["n"]), found["alpha"], found["theta"]).epsilon(found["delta"])
    assert found["claimed"] < exact.epsilon_lower == found["true"]


def test_what_is_neither_shown_nor_refuted_is_no_verdict():
    with pytest.raises(ArithmeticError, match="undecided"):
        holds([at_most(1.0, 0.9, 1.1)])
    with pytest.raises(ArithmeticError, match="no case"):
        holds([])
    assert not holds([at_most(1.0, 0.9, 1.1), at_most(1.0, 1.2)])
    assert not holds([at_least(1.0, 0.9)])


def test_small_laws():
    assert laplace_tail(0.0, 1.0) == 0.5
    assert laplace_tail(-1.0, 2.0) == pytest.approx(1 - 0.5 * math.exp(-0.5))
    uniform = np.array([[-1e300, 1e300]])  # τ = 1/2: K-ary randomised response, whatever the noise
    assert label_epsilon(2, 2, 0.5, uniform, 0.5) == pytest.approx(math.log(3.0))


@pytest.mark.parametrize("q", matrices.distributions(5))
def test_the_closed_inverse_inverts(q):
    for beta in (0.0, 0.5, 0.99):
        product = matrices.randomisation_matrix(q, beta) @ matrices.inverse_matrix(q, beta)
        assert np.abs(product - np.eye(5)).max() < 1e-12


def test_the_bounds_of_the_figure_are_in_order():
    rows = bounds_table(sizes=(300, 100_000), rates=(1.0,))
    for row in rows:
        assert row.epsilon_lower <= row.epsilon_upper < row.epsilon_shuffled_lower
        assert row.epsilon_paper is None or row.epsilon_paper > row.epsilon_upper
    assert rows[1].epsilon_gaussian == pytest.approx(rows[1].epsilon_lower, rel=0.02)


def test_gaussian_and_shuffled_epsilon():
    assert gaussian_epsilon(1.0, 0.1269) == pytest.approx(1.0, rel=1e-3)  # Φ(-1/2) - e Φ(-3/2)
    assert gaussian_epsilon(1.0, 0.5) == 0.0
    shuffled, many = shuffled_epsilon(50, 0.1, 1e-4), LabelExchange(50, 0.1, 1.0, rounds=400).epsilon(1e-4)
    assert many.epsilon_upper <= shuffled * 1.001
    assert shuffled == pytest.approx(many.epsilon_upper, rel=0.02)


@pytest.mark.parametrize(("n", "alpha", "delta"), [(3, 0.25, 0.15), (8, 0.3, 0.02), (8, 0.1, 0.3)])
def test_shuffled_epsilon_is_where_delta_of_all_noisy_labels_crosses(n, alpha, delta):
    """Brute force over the noisy labels of a user with label 0 or 1 and n-1 others with 0; only their sum is seen."""
    counts = np.zeros((2, n + 1))
    for noisy in itertools.product((0, 1), repeat=n):
        for own in (0, 1):
            flips = sum(noisy[1:]) + (noisy[0] != own)
            counts[own, sum(noisy)] += alpha**flips * (1 - alpha) ** (n - flips)

    def exact(epsilon):
        return max(np.maximum(p - math.exp(epsilon) * q, 0).sum() for p, q in (counts, counts[::-1]))

    found = shuffled_epsilon(n, alpha, delta)
    assert 0.1 < found < 0.9 * math.log((1 - alpha) / alpha)
    assert exact(found * (1 - 1e-6)) > delta > exact(found * (1 + 1e-6))


@pytest.mark.figures
def test_the_command(monkeypatch, capsys, tmp_path):
    from p2p_sim.cli.main import main
    from p2p_sim.privacy import claims
    from p2p_sim.privacy.claims import paper_against_exact

    def call(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["p2p-sim", "check-bounds", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code, capsys.readouterr().err
        return capsys.readouterr().out

    monkeypatch.setattr(claims, "all_claims", lambda: (*matrices.CLAIMS, privacy.CLAIMS[0], bag_counts.CLAIMS[0]))
    monkeypatch.setattr(paper_against_exact, "bounds_table", lambda: bounds_table((100, 1000), (1.0,)))
    figure = tmp_path / "bounds.png"
    printed = call("--figure", str(figure))
    assert "4 claims of papers: 3 hold on every case evaluated, 1 fail. Of 1 common belief, 1 fails." in printed
    assert figure.stat().st_size > 10_000
    record = json.loads(call("--json"))
    assert [claim["holds"] for claim in record["claims"]] == [True, True, True, False, False]
    assert [claim["belief"] for claim in record["claims"]] == [False] * 4 + [True]
    assert record["claims"][3]["counterexample"]["K"] == 2


@pytest.mark.parametrize("figure", ["bounds.txt", "no/such/directory/bounds.png"])
def test_a_figure_that_cannot_be_written_is_refused_at_once(monkeypatch, capsys, figure):
    from p2p_sim.cli.main import main

    monkeypatch.setattr(sys, "argv", ["p2p-sim", "check-bounds", "--figure", figure])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "--figure" in capsys.readouterr().err
