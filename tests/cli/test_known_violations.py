"""Cases in which a privacy figure once said more than was known; each against the true value, or against its absence.

Truths are exact rationals or come from `mpmath` with 60 digits.
"""

import json
import math
import sys
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from pydantic import create_model

from p2p_sim import Scenario, load_scenario, run
from p2p_sim.cli.main import main
from p2p_sim.exchange.peers import Peers
from p2p_sim.network.network_config import NetworkConfig
from p2p_sim.privacy import LabelExchange, local_epsilon
from p2p_sim.privacy.conditions import REAL_NOISE
from p2p_sim.privacy.exchange.kary import KaryExchange
from p2p_sim.privacy.exchange.observers import Eavesdropper, Peer
from p2p_sim.privacy.overlays.fetch_distribution import FetchDistribution
from p2p_sim.privacy.questions import Question, answer
from p2p_sim.privacy.randomized_response import local_delta
from p2p_sim.privacy.rivals.alibi import laplace_delta, laplace_epsilon, laplace_variation
from p2p_sim.privacy.rivals.vector_approximation import vector_delta
from p2p_sim.privacy.target_questions import calibrated
from p2p_sim.report.results_report import write_report
from p2p_sim.sweeps.run_scenario import run_point


def exact(x: float) -> mp.mpf:
    """A float as it is."""
    return mp.mpf(x)


def local(alpha: float, epsilon: float) -> mp.mpf:
    """max(0, 1-α-αe^ε)."""
    with mp.workdps(700):
        return max(mp.mpf(0), 1 - mp.mpf(alpha) - mp.exp(mp.mpf(epsilon)) * mp.mpf(alpha))


@pytest.mark.parametrize(
    ("alpha", "epsilon"),
    [(1e-306, 703.0), (1e-306, 704.2), (2e-308, 707.0), (5e-310, 709.0), (1e-320, 720.0), (5e-324, 744.0)],
)
def test_local_noise_beyond_700(alpha, epsilon):
    """δ was 0 above ε = 700."""
    truth = local(alpha, epsilon)
    assert 0.1 < truth < 1.0
    for found, part in ((Eavesdropper(alpha).delta(epsilon), 1), (Peer(7, alpha).delta(epsilon), 7)):
        assert found.lower <= truth / part <= found.upper
        assert found.upper == pytest.approx(float(truth / part), rel=1e-12)


@pytest.mark.parametrize("observer", ["eavesdropper", "peer"])
def test_epsilon_of_local_noise_beyond_700(observer):
    """The command said at most 700; true are 704.581 and, for a peer in a cluster of two, 704.571."""
    delta = 0.01 if observer == "eavesdropper" else 0.005
    found = answer(Question(2, 1e-306, 1.0, observer, None, 1, False, 2), delta, None).bound
    with mp.workdps(60):
        truth = mp.log((1 - mp.mpf(1e-306) - mp.mpf(0.01)) / mp.mpf(1e-306))
    assert found.epsilon_lower <= truth <= found.epsilon_upper < 704.59


def test_local_epsilon_of_the_smallest_numbers():
    """It overflowed below 5.6e-309."""
    for alpha in (5e-324, 1e-310, 1e-308):
        with mp.workdps(400):
            truth = mp.log((1 - mp.mpf(alpha)) / mp.mpf(alpha))
            assert truth <= local_epsilon(alpha) <= truth * (1 + 1e-14)


@pytest.mark.parametrize("rate", [1.0, 1e-3])
def test_who_asks_herself_has_the_local_figure(rate):
    """Everybody submits her own noisy label, if anything: above ε = 700 δ was too small."""
    fetch = FetchDistribution(np.eye(3), 1e-306, rate)
    for epsilon in (701.0, 703.9, 704.5):
        assert fetch.delta(epsilon).upper >= exact(rate) * local(1e-306, epsilon) > 0


def test_an_overlay_with_next_to_no_noise():
    """A product of e^ε₀ overflowed, and what came of it was not a number."""
    weights = np.array([[0.4297901912330084, 0.0, 0.5702098087669916], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    fetch = FetchDistribution(weights, 5.073220566443e-312, np.array([1.0, 0.4472451802935742, 0.9287786288937862]))
    for epsilon in (0.0, 500.0, 712.0):  # user 2 asks user 0 and nobody else
        assert fetch.delta(epsilon).upper >= exact(0.9287786288937862) * local(5.073220566443e-312, epsilon)


@pytest.mark.parametrize("rate", [1e-17, 1e-20, 1e-100])
def test_who_asks_herself_seldom_is_seen_that_often(rate):
    """1 - (1 - θ) was 0."""
    truth = exact(rate) * local(0.1, 1.0)
    for fetch in (FetchDistribution(np.eye(3), 0.1, rate), FetchDistribution(np.full((2, 2), 0.5), 1e-12, rate)):
        found = fetch.delta(1.0).upper
        assert found >= truth * (1 if fetch.flip_prob == 0.1 else 0.5)
        assert found <= 3 * rate


@pytest.mark.parametrize(
    ("n", "alpha", "rate", "epsilon"),
    [
        (2, 0.001, 1e-300, 1.0),
        (2, 0.499999999999999, 1e-300, 1e-20),
        (9, 0.499999999999999, 1e-300, 1e-20),
        (9, 0.4999999999999972, 5.233914915700917e-300, 1.3439371791400492e-16),
    ],
)
def test_learners_at_the_smallest_sampling_rates(n, alpha, rate, epsilon):
    """Rounding was charged by the step, whatever the magnitudes; δ below 1e-308 has few digits."""
    truth = smallest_rate(n, alpha, rate, epsilon)
    found = LabelExchange(n, alpha, rate).delta(epsilon)
    assert found.lower <= truth <= found.upper


def smallest_rate(n: int, alpha: float, rate: float, epsilon: float) -> mp.mpf:
    """δ(ε), the largest over m, of one submission with probability nθ; two have θ² times as much."""
    with mp.workdps(60):
        a, grow, worst = mp.mpf(alpha), mp.exp(mp.mpf(epsilon)), mp.mpf(0)
        for m in range(n):
            share = (m * (1 - a) + (n - 1 - m) * a) / n
            zero, one = share + a / n, share + (1 - a) / n  # a submitted label is 1
            for p, q in ((zero, one), (one, zero)):
                worst = max(worst, max(0, p - grow * q) + max(0, 1 - p - grow * (1 - q)))
        return worst * n * mp.mpf(rate)


@pytest.mark.parametrize(("alpha", "classes"), [(2 / 3 - 1e-10, 3), (0.75 - 1e-12, 4), (0.9 - 1e-9, 10)])
def test_many_classes_of_which_nearly_nothing_is_left(alpha, classes):
    """1-α-α/(K-1) cancelled: δ(0) and ε₀ were off by one part in a million."""
    gap = 1 - Fraction(alpha) * classes / (classes - 1)
    found = local_delta(alpha, 0.0, classes)
    assert Fraction(found.lower) <= gap <= Fraction(found.upper)
    with mp.workdps(60):
        ratio = (1 - Fraction(alpha)) * (classes - 1) / Fraction(alpha)
        assert local_epsilon(alpha, classes) >= mp.log(mp.mpf(ratio.numerator) / mp.mpf(ratio.denominator))


def test_a_float_beyond_the_end_of_the_range():
    """K = 5: 0.8 lies above 4/5 by u, and δ(0) is as much, not 0."""
    exact_gap = Fraction(0.8) * 5 / 4 - 1
    assert Fraction(local_delta(0.8, 0.0, 5).upper) >= exact_gap > 0
    assert local_epsilon(0.8, 5) >= exact_gap / Fraction(0.8)
    assert KaryExchange(30, 0.8, 1.0, 5).delta(0.0).upper > 0.0


@pytest.mark.parametrize(("p", "epsilon"), [(1e-170, 780.0), (1e-160, 733.0), (1e-306, 1405.0)])
def test_vectors_beyond_700(p, epsilon):
    """p² underflowed, and e^ε stood still at 700."""
    with mp.workdps(900):
        truth = (1 - mp.mpf(p)) ** 2 - mp.exp(mp.mpf(epsilon)) * mp.mpf(p) ** 2
    found = vector_delta(p, epsilon)
    assert 0 < truth < 1
    assert found.lower <= truth <= found.upper
    assert found.lower >= 0.9 * truth


def test_alibi_just_below_its_pure_epsilon():
    """1 - e^(ε - 2/b) cancelled; at the smallest b the total variation was not a number, and counted as 0."""
    pure = laplace_epsilon(2.0)
    for epsilon in (pure - 3e-16, pure - 1e-14):
        with mp.workdps(60):
            half = max((1 - mp.mpf(epsilon)) / 2, mp.mpf(0))
            truth = 1 - mp.exp(-half) * (1 + half / 2)
        found = laplace_delta(2.0, epsilon)
        assert found.lower <= truth <= found.upper
    assert laplace_variation(1e-310) == 1.0


@pytest.mark.parametrize("alpha", [1e-306, 1e-301, 5e-324])
def test_what_is_not_derived_is_refused(alpha):
    with pytest.raises(ValueError, match=r"flip_prob = .*: must be 0, or lie in \[1e-300, 0.5\]"):
        LabelExchange(10, alpha, 0.5)
    with pytest.raises(ValueError, match=r"sampling_rate = .*: must lie in \[1e-300, 1\]"):
        LabelExchange(10, 0.1, alpha)


def test_without_noise_the_figure_is_the_exposure():
    """α = 0: whether somebody submits the target's label, at every ε."""
    n, theta = 50, 0.25
    truth = 1 - (1 - Fraction(theta) / n) ** n
    for epsilon in (0.0, 3.0, 1e3, math.inf):
        found = LabelExchange(n, 0.0, theta).delta(epsilon)
        assert Fraction(found.lower) <= truth <= Fraction(found.upper) <= truth * Fraction(1 + 1e-12)


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        (
            "regular",
            {"network.overlay.degree": 1, "mechanism.sampling_rate": 1.0, "population.users": 6000,
             "privacy.delta": 1e-4},
        ),
        ("churn", {}),
        ("loss", {}),
    ],
)  # fmt: skip
def test_no_bound_of_the_paper_stands_where_its_conditions_fail(file, changes):
    """Lemma 9 said 1.926 of a perfect matching, on which δ(1.926) is 0.214 and ε is ε₀."""
    result = run(load_scenario(f"scenarios/network/{file}.toml").replace(**changes))
    assert result.row["epsilon_paper_lemma9"] is None
    assert result.row["epsilon_paper_theorem3"] is None
    assert result.terms["epsilon_paper_lemma9"]["not_applicable"]["id"] == "complete-fetching"
    if file == "regular":
        assert result.row["epsilon_upper"] >= math.log(9.0)


def exchanged_alibi(**network):
    tree = {
        "name": "alibi",
        "replicates": 1,
        "population": {"kind": "synthetic", "users": 400, "num_clusters": 4},
        "mechanism": {"kind": "label_exchange", "randomizer": {"kind": "alibi", "epsilon": 1.0}},
        "learner": {"kind": "soft_logistic_regression"},
        "network": network,
    }
    return Scenario.from_tree(tree)


@pytest.mark.parametrize("network", [{}, {"loss": 0.1, "request_timeout_s": 1.0}])
@pytest.mark.slow_where(lambda network: not network)
def test_no_condition_of_exchanged_alibi_gets_lost(network, tmp_path):
    """The report guessed conditions from the basis, and knew nothing of the noise."""
    run_point(exchanged_alibi(**network), tmp_path / "out")
    assert str(REAL_NOISE) in write_report(tmp_path / "out").read_text()


def test_a_calibration_states_observer_adjacency_and_conditions(monkeypatch, capsys):
    """It printed a certified ε alone."""
    bound = calibrated([100], 2, 0.5, epsilon=0.5, delta=1e-6).bound
    size = ["--cluster-size", "100", "--epsilon", "0.5", "--delta", "1e-6", "--sampling-rate", "0.5"]
    monkeypatch.setattr(sys, "argv", ["p2p-sim", "calibrate", *size])
    with pytest.raises(SystemExit):
        main()
    told = capsys.readouterr().out
    assert "one user's label" in told
    assert bound.observer in told
    assert all(condition in told for condition in bound.conditions)


def test_delta_at_an_epsilon_comes_with_the_basis_of_that_delta():
    """It came with that of ε at δ = 1/2, which is the noise's alone here."""
    question = Question(60, 0.5, 1.0, num_classes=4)
    assert KaryExchange(60, 0.5, 1.0, 4).epsilon(0.5).basis == answer(question, 0.5, None).bound.basis
    assert answer(question, None, 0.1).bound.basis == "blanket of uniform labels, every data set"


def test_a_key_that_nobody_listed_is_a_fault():
    """The list of faults was written by hand, and a new key left ε as if there were none."""
    planted = create_model("Planted", __base__=NetworkConfig, corruption=(float, 0.0))
    assert not planted(corruption=0.5).ideal


@pytest.fixture
def own_labels(monkeypatch):
    """A quarter of the users ask themselves."""
    honest = Peers.first

    def first(self, rng, start, stop):
        peer = honest(self, rng, start, stop)
        own = np.random.default_rng([self.streams.seed, self.streams.replicate, start]).random(stop - start) < 0.25
        peer[own] = np.arange(start, stop, dtype=np.int32)[own]
        return peer

    monkeypatch.setattr(Peers, "first", first)


def audited(monkeypatch, capsys, epsilon: float) -> tuple[int, dict, str]:
    """Exit status, record and message of `p2p-sim audit` on the quickstart with clusters of 12."""
    size = ["--cluster-size", "12", "--trials", "20000", "--epsilon", str(epsilon), "--json"]
    monkeypatch.setattr(sys, "argv", ["p2p-sim", "audit", "scenarios/quickstart.toml", *size])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    return int(ended.value.code or 0), json.loads(shown.out), shown.err


def test_own_labels_are_found_by_the_attack_where_they_tell_something(monkeypatch, capsys, own_labels):
    """At ε = 0.8 the true δ is 0.0638, thirty times the bound: the attack proves more than that by itself."""
    status, record, told = audited(monkeypatch, capsys, 0.8)
    assert (status, record["passed"], len(told.splitlines())) == (1, False, 1)
    assert "the learner's attack proves δ >=" in told
    assert 2 * record["delta_upper"] < record["delta_lower_confidence"] < 0.0638
    assert record["test_epsilon"] == 0.8


def test_the_same_audits_pass_what_is_sound(monkeypatch, capsys):
    status, record, told = audited(monkeypatch, capsys, 0.8)
    assert (status, record["passed"], told) == (0, True, "")
