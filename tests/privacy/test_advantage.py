"""How much more often somebody guesses a label right: against enumeration for every observer, and never below it."""

import functools
import math
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from p2p_sim.privacy import (
    Bracket,
    ClusterResampling,
    Coalition,
    DpSgd,
    Eavesdropper,
    KaryExchange,
    LabelExchange,
    Peer,
    ShuffledMessages,
    ShuffledResponse,
    TimedLearner,
    local_epsilon,
)
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.conversions import loss_law
from p2p_sim.privacy.guessing_advantage import advantage, advantages, checked_prior, deltas_of, worst_advantage
from p2p_sim.privacy.randomized_response import local_delta
from p2p_sim.privacy.stated_accountants import OnePoint
from p2p_sim.privacy.wording import equally_likely, guessed, of_hundred
from tests.reference import coalition, enumeration, guessing

PRIORS = (0.5, 0.4, 0.25, 0.1)
EXACT = 1e-11


def both(prior: float) -> tuple[float, float]:
    return 1.0 - prior, prior


def learner_truth(n: int, alpha: float, theta: float, prior: float) -> float:
    law = functools.cache(lambda labels: guessing.counted_law(labels, alpha, theta))
    return guessing.worst_gain(n, lambda labels: law(tuple(sorted(labels))), both(prior), [0])


def check(bracket: Bracket, truth: float, slack: float = EXACT) -> None:
    assert bracket.lower - slack <= truth <= bracket.upper + slack


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
@pytest.mark.parametrize(("alpha", "theta"), [(0.1, 0.5), (0.3, 1.0)])
@pytest.mark.slow_where(lambda n: n == 6)
def test_the_learner_equals_enumeration(n, alpha, theta):
    for prior in PRIORS:
        found, truth = advantage(LabelExchange(n, alpha, theta), prior), learner_truth(n, alpha, theta, prior)
        check(found, truth)
        assert found.upper - found.lower <= 1e-6
        check(advantage(TimedLearner(LabelExchange(n, alpha, theta), True), prior), truth)
        assert truth <= advantage(TimedLearner(LabelExchange(n, alpha, theta)), prior).upper + EXACT


def test_what_the_learner_counts_is_all_that_tells():
    """The counts of the reference and the full list of who submitted what give the same figure."""
    n, alpha, theta, prior = 3, 0.2, 0.5, 0.4
    full = functools.cache(lambda labels: dict(enumerate(enumeration.law(labels, alpha, theta))))
    truth = guessing.worst_gain(n, full, both(prior), range(n))
    assert truth == pytest.approx(learner_truth(n, alpha, theta, prior), abs=1e-13)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_peers_and_eavesdroppers_equal_enumeration(n):
    for alpha in (0.1, 0.35):
        peer = functools.cache(lambda labels, alpha=alpha: guessing.peer_law(labels, alpha))
        wire = functools.cache(lambda labels, alpha=alpha: guessing.noisy_law(labels, alpha))
        for prior in PRIORS:
            for observer, law in ((Peer(n, alpha), peer), (Eavesdropper(alpha), wire)):
                truth, found = guessing.worst_gain(n, law, both(prior), [1]), advantage(observer, prior)
                check(found, truth)
                assert found.upper == pytest.approx(truth, abs=1e-9)


@pytest.mark.parametrize(("n", "members"), [(2, 1), (3, 1), (3, 2), pytest.param(4, 1, marks=pytest.mark.slow)])
def test_a_coalition_equals_enumeration(n, members):
    laws = coalition.view_laws(n, members, 0.1, 0.5)
    for prior in PRIORS:
        truth = guessing.worst_gain(n, laws.__getitem__, both(prior), range(members, n))
        found = advantage(Coalition(LabelExchange(n, 0.1, 0.5), members), prior)
        check(found, truth)
        assert found.upper == pytest.approx(truth, abs=1e-9)


THREE = ((1 / 3, 1 / 3, 1 / 3), (0.5, 0.3, 0.2), (0.45, 0.45, 0.1), (0.8, 0.15, 0.05), (0.6, 0.4, 0.0))


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("alpha", [0.1, 0.4])
def test_three_classes_by_enumeration(n, alpha):
    law = functools.cache(lambda labels: guessing.counted_law(labels, alpha, 0.5, 3))
    wire = functools.cache(lambda labels: guessing.noisy_law(labels, alpha, 3))
    learner = KaryExchange(n, alpha, 0.5, 3)
    for prior in THREE:
        check(advantage(learner, prior), guessing.worst_gain(n, law, prior, [0]))
        truth = guessing.worst_gain(2, wire, prior, [0])
        check(advantage(Eavesdropper(alpha, 3), prior), truth)
    uniform = advantage(Eavesdropper(alpha, 3), THREE[0])
    assert uniform.upper == pytest.approx(1.0 - alpha - 1.0 / 3.0, abs=1e-9)


MODELS = [
    LabelExchange(60, 0.1, 0.5), Coalition(LabelExchange(8, 0.2, 1.0), 2), Peer(30, 0.1), Eavesdropper(0.2, 4),
    KaryExchange(60, 0.2, 0.5, 4), ShuffledResponse(100, 0.2), ShuffledMessages(500, 2.0, 0.3),
    ClusterResampling(100, 3, 0.9, 1.0, 0.1, True), DpSgd(1.5, 0.05, 50),
    OnePoint(PrivacyBound(0.0, 1.0, 1e-5, "learner", "label", "claimed")),
]  # fmt: skip


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_no_prior_gives_more_than_the_worst_and_a_curve_never_less_than_the_accountant(model):
    rng = np.random.default_rng(1)
    law = loss_law(model)
    for classes in (2, 10):
        worst = worst_advantage(model, classes)
        assert worst.lower <= worst.upper
        priors = np.concatenate([rng.dirichlet(np.full(classes, 0.7), 5), np.full((1, classes), 1.0 / classes)])
        every = advantages(law, priors)
        for prior, fast in zip(priors, every, strict=True):
            found = advantage(model, prior)
            assert 0.0 <= found.lower <= found.upper <= min(worst.upper, 1.0 - prior.max()) + 1e-9
            assert found.lower <= fast
            assert fast <= found.upper * 1.02 + 1e-5
    assert worst_advantage(model).upper == pytest.approx(advantage(model, 0.5).upper, rel=1e-9)


def gained(table: np.ndarray, prior: Sequence[float]) -> float:
    """By how much the best guess of whoever sees an output, in the table's columns, is right more often."""
    return float((np.asarray(prior)[:, None] * table).max(axis=0).sum() - max(prior))


def test_the_second_bound_for_many_classes_is_needed_and_holds():
    """Five labels, each as noisy bits: most of δ(0) tells a pair of labels apart, and not one label from all others."""
    flip, classes = 0.45, 5
    bits = (np.arange(2**classes)[:, None] >> np.arange(classes)) & 1
    one_hot = np.eye(classes, dtype=int)
    table = np.where(bits[None] == one_hot[:, None], 1.0 - flip, flip).prod(axis=2)
    pure, prior = 2.0 * math.log(0.55 / 0.45), np.full(classes, 1.0 / classes)

    def profile(epsilons):
        grown = np.exp(np.minimum(epsilons, 50.0))
        worst = [float(np.maximum(table[0] - e * table[1], 0.0).sum()) for e in grown]
        return [Bracket(value, value) for value in worst]

    model = SimpleNamespace(profile=profile, pure_epsilon=pure)
    truth, found = gained(table, prior), advantage(model, prior)
    check(found, truth)
    sums = (1.0 - 1.0 / classes) * profile([0.0])[0].upper
    assert truth < found.upper < 0.95 * sums


def test_deltas_of_a_law_are_the_laws_own():
    law = loss_law(LabelExchange(50, 0.1, 0.5))
    at = np.array([0.0, 0.05, 0.3, 1.0, law.top, law.pure, math.inf])
    assert deltas_of(law, at[:5]) == pytest.approx([law.delta(e) for e in at[:5]], abs=2e-14)
    assert deltas_of(law, at)[5:].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("prior", [0.0, 0.51, -0.1, math.nan, [1.0], [0.6, 0.6], [1.2, -0.2], [[0.5, 0.5]]])
def test_a_prior_out_of_range_is_refused(prior):
    with pytest.raises(ValueError, match=r"^prior = "):
        advantage(LabelExchange(10, 0.1, 0.5), prior)


def test_a_label_that_is_known_leaves_nothing_to_guess():
    assert advantage(Eavesdropper(0.1), [1.0, 0.0]) == Bracket(0.0, 0.0)
    assert checked_prior([0.2, 0.8]).tolist() == [0.8, 0.2]
    with pytest.raises(ValueError, match="num_classes = 1"):
        worst_advantage(Eavesdropper(0.1), 1)


WRONG = {
    "a factor of 2": lambda delta, p: 2.0 * p * delta(math.log((1.0 - p) / p)),
    "half": lambda delta, p: 0.5 * p * delta(math.log((1.0 - p) / p)),
    "the prior on the wrong side": lambda delta, p: (1.0 - p) * delta(math.log((1.0 - p) / p)),
    "the ratio left out": lambda delta, p: p * delta(0.0),
}


@pytest.mark.parametrize("planted", WRONG)
def test_enumeration_would_see_a_wrong_formula(planted):
    """Control: the check above fails for it, at some prior."""
    n, alpha, theta = 4, 0.1, 0.5

    def delta(epsilon: float) -> float:
        return LabelExchange(n, alpha, theta).delta(epsilon).upper

    errors = [abs(WRONG[planted](delta, p) - learner_truth(n, alpha, theta, p)) for p in PRIORS]
    assert max(errors) > 1e-3


def test_enumeration_would_see_a_forgotten_direction():
    """Control: a randomizer that tells one label more often than the other has two directions, which differ."""
    table = np.array([[0.9, 0.1], [0.5, 0.5]])
    prior = (0.6, 0.4)
    ratio = prior[0] / prior[1]
    one, other = (prior[1] * float(np.maximum(a - ratio * b, 0.0).sum()) for a, b in (table[::-1], table))
    truth = max(gained(table, prior), gained(table, prior[::-1]))
    assert truth == pytest.approx(max(one, other), abs=1e-13)
    assert min(one, other) < truth - 0.02


def test_flipped_labels_in_closed_form():
    """Two labels, one noisy label seen: 1/2 - α."""
    for alpha in (0.05, 0.2, 0.45):
        assert advantage(Eavesdropper(alpha)).upper == pytest.approx(0.5 - alpha, abs=1e-9)
        assert local_delta(alpha, 0.0).upper / 2.0 == pytest.approx(0.5 - alpha, abs=1e-12)
        assert advantage(Eavesdropper(alpha), alpha / 2.0).upper == 0.0  # her prior outweighs what she reads
        assert math.tanh(local_epsilon(alpha) / 2.0) / 2.0 == pytest.approx(0.5 - alpha, abs=1e-12)


def test_the_page_for_neighbours_says_what_the_accountants_say():
    from docs.values import neighbour
    from docs.values.pages import Page

    assert Page("docs/neighbour.md").faults() == []
    alone, exchange = LabelExchange(neighbour.USERS, neighbour.ALPHA, neighbour.THETA), neighbour.learner
    assert 100.0 * (0.5 + advantage(alone).upper) <= float(exchange) <= 100.0 * (0.5 + advantage(alone).upper) + 0.1
    assert float(neighbour.learner) < float(neighbour.coalition) < float(neighbour.wire) == 90.0
    assert float(neighbour.peer) < float(neighbour.learner) < float(neighbour.few)


def test_sentences_round_to_the_safe_side():
    assert of_hundred(0.54211, True) == "54.3"
    assert of_hundred(0.54299, False) == "54.2"
    assert of_hundred(advantage(Eavesdropper(0.1)).upper + 0.5, True) == "90"
    said = guessed("somebody", 0.5, 0.0412, equally_likely(2), "it")
    assert said == (
        "Of 100 labels, somebody guesses at most 54.2 right on average; "
        "without it 50 (if both labels are equally likely)."
    )
    assert "at most 100 right" in guessed("somebody", 0.9, 0.2, "if so")
