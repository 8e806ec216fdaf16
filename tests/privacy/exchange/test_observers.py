"""Observers other than the learner, against enumeration of their full views."""

import itertools
import math

import mpmath
import pytest

from p2p_sim.privacy import LabelExchange, local_epsilon
from p2p_sim.privacy.audit_statistics.view_laws import CoalitionViews, LearnerViews, split_cells
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.exchange.coalition import known_law
from p2p_sim.privacy.exchange.observers import Coalition, Eavesdropper, Peer, TimedLearner
from p2p_sim.privacy.randomized_response import local_delta
from tests.reference import coalition as reference


@pytest.mark.parametrize(("n", "members"), [(2, 1), (3, 1), (3, 2), (4, 1), pytest.param(4, 2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("alpha", "theta"), [(0.1, 0.5), pytest.param(0.3, 1.0, marks=pytest.mark.slow)])
def test_coalition_equals_enumeration_of_its_full_view(n, members, alpha, theta):
    laws = reference.view_laws(n, members, alpha, theta)
    observer = Coalition(LabelExchange(n, alpha, theta), members)
    for epsilon in (0.0, 0.2, 0.7, 1.5, 2.1):
        truth, bracket = reference.delta(laws, n, members, epsilon), observer.delta(epsilon)
        assert bracket.lower - 1e-13 <= truth <= bracket.upper + 1e-13
        assert bracket.upper == pytest.approx(truth, abs=1e-13)
        assert bracket.lower == pytest.approx(truth, abs=1e-13)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.4])
def test_nothing_is_said_to_be_attained_where_rounding_hides_what_is(alpha):
    """One step below ε₀ the local δ, 1-α-αe^ε, is below 0 in 60 digits: ε₀ is rounded up."""
    epsilon = math.nextafter(local_epsilon(alpha), 0.0)
    with mpmath.workdps(60):
        assert 1 - mpmath.mpf(alpha) * (1 + mpmath.exp(mpmath.mpf(epsilon))) < 0
    assert local_delta(alpha, epsilon).upper > 0.0
    assert Coalition(LabelExchange(2, alpha, 0.5), 1).delta(epsilon).lower == 0.0


def test_enumeration_would_see_forgotten_knowledge():
    """Control: what members fetched and who asked them matters; the learner's own figure is smaller."""
    truth = reference.delta(reference.view_laws(4, 1, 0.1, 0.5), 4, 1, 0.3)
    assert truth > LabelExchange(4, 0.1, 0.5).delta(0.3).upper + 1e-3


def test_large_coalitions_are_bracketed_around_the_enumerated_figure(monkeypatch):
    for members in (1, 3):
        observer = Coalition(LabelExchange(40, 0.1, 0.5), members)
        exact = observer.delta(0.8)
        monkeypatch.setattr("p2p_sim.privacy.exchange.coalition.ENUMERATED", 0)
        rough = observer.delta(0.8)
        monkeypatch.undo()
        assert rough.lower <= exact.lower <= exact.upper <= rough.upper <= 1.5 * exact.upper


def test_observers_are_ordered_by_what_they_see():
    exchange = LabelExchange(60, 0.1, 0.5)
    learner = exchange.epsilon(1e-5).epsilon_upper
    few, many = (Coalition(exchange, c).epsilon(1e-5).epsilon_upper for c in (1, 5))
    wire = Eavesdropper(0.1).epsilon(1e-5)
    assert learner < few < many <= wire.epsilon_upper + 1e-6
    assert wire.epsilon_upper == pytest.approx(math.log((0.9 - 1e-5) / 0.1), rel=1e-6)
    assert wire.epsilon_lower <= wire.epsilon_upper <= local_epsilon(0.1)


def test_a_peer_sees_one_label():
    peer = Peer(50, 0.1)
    assert peer.delta(0.0).upper == pytest.approx(0.8 / 50)
    assert peer.delta(3.0).upper == 0.0
    assert peer.epsilon(0.02).epsilon_upper == 0.0
    assert peer.epsilon(1e-3).epsilon_upper == pytest.approx(math.log((0.9 - 0.05) / 0.1), rel=1e-6)


@pytest.mark.parametrize("n", [2, 3])
def test_peer_and_eavesdropper_equal_enumeration_of_their_views(n):
    """The peer: her own noisy label, whom she asked, what she got, who asked her. The wire: every noisy label."""
    alpha, grow = 0.2, math.exp(0.4)

    def law(labels: tuple[int, ...], wire: bool) -> dict[tuple, float]:
        found: dict[tuple, float] = {}
        for noisy in itertools.product((0, 1), repeat=n):
            weight = math.prod(alpha if a != b else 1 - alpha for a, b in zip(labels, noisy, strict=True))
            for peers in itertools.product(range(n), repeat=n):
                asked = tuple(i for i in range(n) if peers[i] == 0)
                view = (peers, noisy) if wire else (noisy[0], peers[0], noisy[peers[0]], asked)
                found[view] = found.get(view, 0.0) + weight / n**n
        return found

    for wire, observer in ((False, Peer(n, alpha)), (True, Eavesdropper(alpha))):
        worst = 0.0
        for labels in itertools.product((0, 1), repeat=n):
            for target in range(1, n):
                other = tuple(1 - y if i == target else y for i, y in enumerate(labels))
                p, q = law(labels, wire), law(other, wire)
                worst = max(worst, sum(max(p[view] - grow * q[view], 0.0) for view in p))
        assert observer.delta(0.4).lower == pytest.approx(worst, abs=1e-13)
        assert observer.delta(0.4).upper == pytest.approx(worst, abs=1e-13)


def test_the_audit_and_the_accountant_agree_on_coalitions():
    """Two independent derivations of the coalition's view."""
    for members in (1, 2, 3):
        views = CoalitionViews(12, 0.1, 0.5, members)
        observer = Coalition(LabelExchange(12, 0.1, 0.5), members)
        for epsilon in (0.1, 0.6, 1.3):
            assert views.delta(epsilon).upper == pytest.approx(observer.delta(epsilon).upper, rel=1e-9)


def test_every_tabulated_law_equals_enumeration_of_its_data_set():
    """Not only the worst data set: those with ones among the others, of whom members may know some, as well."""
    n, members, alpha, theta = 4, 1, 0.1, 0.5
    laws = reference.view_laws(n, members, alpha, theta)
    tabulated = CoalitionViews(n, alpha, theta, members).laws
    for ones, law in enumerate(tabulated):
        others = [0] * (members + 1) + [1] * ones + [0] * (n - members - 1 - ones)
        zero, one = (laws[tuple(label if i == members else y for i, y in enumerate(others))] for label in (0, 1))
        assert law.probabilities.sum(axis=1) == pytest.approx([1.0, 1.0], abs=1e-12)
        for epsilon in (0.0, 0.4, 1.2):
            grow = math.exp(epsilon)
            truth = [sum(max(p - grow * q[v], 0.0) for v, p in w.items()) for w, q in ((zero, one), (one, zero))]
            assert law.deltas(epsilon) == pytest.approx(truth, abs=1e-12)


def test_what_members_know_of_either_label_equals_enumeration_of_whom_they_ask():
    """Three members of a cluster of eight; users 3 to 7 are the target, holders of 0 and then holders of 1."""
    views = CoalitionViews(8, 0.2, 0.5, 3)
    for ones, law in enumerate(views.laws):
        truth = dict.fromkeys(views.patterns, 0.0)
        for asked in itertools.product(range(8), repeat=3):
            if 3 in asked:
                continue
            known = {user for user in asked if user > 3}
            f1 = sum(user >= 8 - ones for user in known)
            f0 = len(known) - f1
            for bits in itertools.product((0, 1), repeat=len(known)):
                flips = sum(bits[:f0]) + f1 - sum(bits[f0:])
                truth[f0, f1, sum(bits)] += 0.2**flips * 0.8 ** (len(bits) - flips) / 8**3
        for pattern, first in zip(views.patterns, views.cell_of_pattern[tuple(zip(*views.patterns, strict=True))],
                                  strict=True):  # fmt: skip
            found = law.probabilities[:, first : first + split_cells(views.sources)].sum(axis=1)
            assert found == pytest.approx([truth[pattern]] * 2, abs=1e-13)


def test_there_is_one_law_for_each_number_of_ones_up_to_the_mirror_image():
    for n in (2, 5, 8):
        assert len(LearnerViews(LabelExchange(n, 0.1, 0.5)).laws) == len({min(m, n - 1 - m) for m in range(n)})


def test_times_cost_everything_unless_independent():
    exchange = LabelExchange(100, 0.1, 0.5)
    assert TimedLearner(exchange).epsilon(1e-5).epsilon_upper > 2.19
    independent = TimedLearner(exchange, independent_latencies=True).epsilon(1e-5)
    assert independent.epsilon_upper == exchange.epsilon(1e-5).epsilon_upper
    assert "do not depend on whom" in independent.conditions[0]


def test_local_delta_at_the_ends():
    assert local_delta(0.0, 800.0).upper == 1.0
    assert local_delta(0.5, 0.0).upper <= 1e-15
    assert local_delta(0.1, local_epsilon(0.1)).lower == 0.0


@pytest.mark.parametrize("epsilon", [711.0, 720.0, 1000.0, 1399.0, 1401.0, 1425.0, 1450.0, 1e6])
def test_nothing_is_left_of_a_noisy_label_at_an_epsilon_that_exponentials_cannot_hold(epsilon):
    """δ is 0 from ε₀ on; e^ε and e^(ε/2) overflow at 710 and 1420."""
    for alpha in (0.5, 0.1, 1e-290):
        for classes in (2, 3):
            assert local_delta(alpha, epsilon, classes) == Bracket(0.0, 0.0)


def test_known_law_is_a_distribution():
    for others, n, members in ((0, 3, 2), (5, 8, 2), (5, 10, 4)):
        law = known_law(others, n, members)
        assert law.sum() == pytest.approx(1.0)
        assert len(law) == min(members, others) + 1


@pytest.mark.parametrize(
    ("n", "theta", "members", "delta"),
    [pytest.param(1000, 1.0, 3, 1e-6, marks=pytest.mark.slow), (1000, 1.0, 3, 5e-3), (1000, 0.1, 5, 1e-2)],
)
def test_coalitions_in_large_clusters_have_both_ends_at_once(n, theta, members, delta):
    """Each end is where the bracket of δ(ε) crosses δ."""
    coalition = Coalition(LabelExchange(n, 0.1, theta), members)
    bound = coalition.epsilon(delta)
    assert 0.0 < bound.epsilon_lower <= bound.epsilon_upper < local_epsilon(0.1)
    assert bound.epsilon_upper <= 1.02 * bound.epsilon_lower
    assert coalition.delta(bound.epsilon_lower * (1.0 - 1e-5)).lower > delta
    assert coalition.delta(bound.epsilon_upper * (1.0 + 1e-5)).upper <= delta
    assert coalition.delta(bound.epsilon_upper * (1.0 - 1e-5)).upper > delta


@pytest.mark.parametrize("members", [0, 10, -1])
def test_impossible_coalitions_are_named(members):
    with pytest.raises(ValueError, match=f"members = {members}"):
        Coalition(LabelExchange(10, 0.1, 0.5), members)
