"""A coalition among users who submit majorities, against enumeration of all that it sees."""

import itertools
import math

import numpy as np
import pytest

from p2p_sim.privacy import Coalition, Eavesdropper, LabelExchange, MajorityCoalition, MajorityExchange, local_epsilon
from p2p_sim.privacy.exchange.observers import Peer
from p2p_sim.privacy.questions import Question, observer_of
from p2p_sim.privacy.rivals import majority_coalition
from tests.reference.coalition import delta, majority_deltas, view_laws

SETTINGS = [(3, 1, 3, 1.0), (4, 1, 3, 1.0), (3, 2, 3, 0.5), (4, 2, 1, 0.5), (5, 1, 1, 1.0)]


def outside_the_bracket(bracket_of):
    """Points at which the enumerated δ is not in a bracket, given (n, members, peers, α, ε)."""
    missed = []
    for (n, members, peers, theta), alpha in itertools.product(SETTINGS, (0.05, 0.4)):
        epsilons = [share * local_epsilon(alpha) for share in (0.0, 0.25, 0.6, 0.95)]
        truths = majority_deltas(n, members, alpha, theta, peers=peers, epsilons=epsilons)
        for epsilon, truth in zip(epsilons, truths, strict=True):
            bracket = bracket_of(n, members, peers, alpha, epsilon)
            if not bracket.lower - 1e-13 <= truth <= bracket.upper + 1e-13:
                missed.append((n, members, peers, alpha, epsilon))
    return missed


def certified(n, members, peers, alpha, epsilon):
    return MajorityCoalition(n, alpha, members, peers).delta(epsilon)


def test_the_bracket_holds_the_enumerated_view():
    assert outside_the_bracket(certified) == []


@pytest.mark.slow
@pytest.mark.parametrize(("n", "members"), [(5, 1), (4, 2)])
def test_the_bracket_holds_larger_enumerated_views(n, members):
    for alpha in (0.1, 0.4):
        [truth] = majority_deltas(n, members, alpha, 1.0, peers=3, epsilons=[0.2])
        bracket = MajorityCoalition(n, alpha, members, 3).delta(0.2)
        assert bracket.lower <= truth <= bracket.upper


@pytest.mark.parametrize(("n", "peers"), [(3, 1), (3, 3), (4, 1)])
def test_the_bracket_of_three_classes_holds_the_enumerated_view(n, peers):
    """Ties are broken by a coin. Control: the bracket of twice the noise does not."""
    epsilons = [0.0, 0.3, 1.0]
    truths = majority_deltas(n, 1, 0.2, 1.0, peers=peers, epsilons=epsilons, classes=3)
    for epsilon, truth in zip(epsilons, truths, strict=True):
        bracket, noisier = (MajorityCoalition(n, alpha, 1, peers, 3).delta(epsilon) for alpha in (0.2, 0.4))
        assert bracket.lower <= truth <= bracket.upper
        assert truth > noisier.upper


def test_enumeration_sees_a_member_who_is_said_to_ask_once():
    """Control: as if each member had asked one user instead of k."""
    assert outside_the_bracket(lambda n, c, k, alpha, e: MajorityCoalition(n, alpha, c, 1).delta(e)) != []


def test_enumeration_sees_labels_that_are_said_to_be_forgotten(monkeypatch):
    """Control: as if the coalition did not know what its members got."""
    monkeypatch.setattr(majority_coalition, "known_law", lambda others, n, requests: np.ones(1))
    assert outside_the_bracket(certified) != []


def test_the_enumeration_is_that_of_one_peer():
    one = delta(view_laws(3, 1, 0.1, 0.5), 3, 1, 0.3)
    assert majority_deltas(3, 1, 0.1, 0.5, peers=1, epsilons=[0.3]) == [pytest.approx(one, abs=1e-13)]


@pytest.mark.parametrize(("n", "members", "peers"), [(60, 1, 3), (60, 5, {1: 0.5, 5: 0.5}), (500, 4, 5), (40, 39, 3)])
def test_a_coalition_learns_no_less_than_the_learner_and_no_more_than_the_noise(n, members, peers):
    coalition, noise = MajorityCoalition(n, 0.1, members, peers), Eavesdropper(0.1)
    for epsilon in (0.0, 0.4, 1.5, local_epsilon(0.1)):
        assert MajorityExchange(n, 0.1, 1.0, peers).delta(epsilon).lower <= coalition.delta(epsilon).upper
        assert coalition.delta(epsilon).upper <= noise.delta(epsilon).upper
    bound = coalition.epsilon(1e-5)
    assert bound.epsilon_lower <= bound.epsilon_upper <= local_epsilon(0.1)
    assert coalition.satisfies(bound.epsilon_upper, 1e-5)


def test_of_one_peer_it_lies_above_the_exact_figure_and_close():
    exact, bound = Coalition(LabelExchange(200, 0.2, 1.0), 5), MajorityCoalition(200, 0.2, 5, 1)
    for epsilon in (0.3, 0.6):
        assert exact.delta(epsilon).upper <= bound.delta(epsilon).upper <= 1.1 * exact.delta(epsilon).upper


def test_rounds_are_further_requests_and_larger_clusters_hide_more():
    twice, more = (MajorityCoalition(80, 0.1, c, 3, rounds=r).delta(0.5).lower for c, r in ((2, 2), (4, 1)))
    assert twice == pytest.approx(more, rel=1e-12)
    small, large = (MajorityCoalition(n, 0.2, 5, 3).epsilon(1e-3).epsilon_upper for n in (1_000, 100_000))
    assert large < 0.01 < 1.0 < small


def test_many_classes_have_a_figure_below_the_noise():
    coalition = MajorityCoalition(200, 0.3, 2, 3, num_classes=4)
    assert 0.0 < coalition.delta(0.5).upper < 0.2 * Eavesdropper(0.3, 4).delta(0.5).upper
    for arguments in ((1, 0.1, 1, 3), (9, 0.1, 9, 3), (9, 0.1, 0, 3), (9, 0.6, 1, 3), (9, 0.1, 1, 2)):
        with pytest.raises(ValueError, match=r"cluster_size|members|flip_prob|peers"):
            MajorityCoalition(*arguments)


@pytest.mark.parametrize("peers", [3, {1: 0.5, 5: 0.5}])
def test_a_peer_who_asks_several_knows_whom_she_asked(peers):
    weights = {3: 1.0} if peers == 3 else peers
    asked = sum(weight * (1.0 - (1.0 - 1.0 / 50) ** k) for k, weight in weights.items())
    bracket = Peer(50, 0.1, peers).delta(0.5)
    assert bracket.lower == pytest.approx(asked * (0.9 - 0.1 * math.exp(0.5)), rel=1e-9)
    assert bracket.lower <= bracket.upper <= bracket.lower * (1 + 1e-9)
    assert Peer(50, 0.1, peers).delta(3.0).upper == 0.0


def test_the_command_line_asks_these():
    about = {"cluster_size": 200, "flip_prob": 0.2, "sampling_rate": 1.0, "peers": 3}
    assert isinstance(observer_of(Question(**about, observer="coalition", members=5)), MajorityCoalition)
    assert isinstance(observer_of(Question(**about, observer="peer")), Peer)
    answer = observer_of(Question(**about, observer="coalition", members=5)).delta(0.5)
    assert 0.0340 < answer.lower <= answer.upper < 0.0341
