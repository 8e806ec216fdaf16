"""The figures printed for realised networks against enumeration of tiny ones, where somebody else looks on."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sparse

from p2p_sim.exchange.adversaries import AdversariesConfig, CoalitionConfig, FreeRiders, Liars
from p2p_sim.exchange.network_record import Capped, NetworkRecord, realised
from p2p_sim.mechanisms import realised_accountants
from p2p_sim.mechanisms.exchange_accounting import cluster_privacy, clusters_to_evaluate, target_deltas
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.network.availability import OnOff
from p2p_sim.network.latency import Exponential
from p2p_sim.network.network_config import NetworkConfig, OnTimeout, RandomWalk
from p2p_sim.network.overlay import GeometricOverlay, RegularOverlay
from p2p_sim.privacy.exchange.kary import KaryExchange
from p2p_sim.privacy.overlays.fetch_distribution import FetchDistribution
from p2p_sim.privacy.overlays.realised_network import UniformSources
from tests.reference import fetch as reference
from tests.small_networks import Case

COALITION = AdversariesConfig(coalition=CoalitionConfig(share=0.25))


def study(case: Case) -> NetworkRecord:
    exchange = case.exchange(record=False)
    exchange.run()
    return realised(exchange)


def coalition_truth(case: Case, facts: NetworkRecord, epsilon: float, draws: int = 1) -> float:
    """δ(ε) of the coalition on a network where every request is answered, by enumeration."""
    overlay = case.network.shard_overlay(case.shard)
    weights = np.full((case.shard.size,) * 2, 1 / case.shard.size)
    if overlay is not None:
        weights[:] = 0.0
        for user in range(case.shard.size):
            near = overlay.indices[overlay.indptr[user] : overlay.indptr[user + 1]]
            weights[user, near] = 1 / near.size
    members = tuple(np.flatnonzero(facts.member).tolist())
    return reference.member_delta(weights, 0.2, facts.fetched, members, epsilon, draws=draws)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("overlay", [{"overlay": RegularOverlay(degree=2)}, {}])
@pytest.mark.slow_where(lambda seed: seed >= 3)
def test_members_see_what_they_fetch_even_if_they_submit_nothing(overlay, seed):
    case = Case(NetworkConfig(**overlay), (4,), 0.5, seed, COALITION)
    facts = study(case)
    for delta in (0.05, 0.2, 0.4):
        [found] = cluster_privacy([facts], RandomizedResponse(0.2, 2), delta)
        assert coalition_truth(case, facts, found.coalition.epsilon_upper) <= delta + 1e-12


def test_members_who_ask_those_who_do_not_answer_ask_others_the_more():
    """With one of two neighbours silent, whatever a member gets is from the other."""
    roles = AdversariesConfig(coalition=CoalitionConfig(share=0.25), free_riders=FreeRiders(share=0.25))
    for seed in range(8):
        case = Case(NetworkConfig(overlay=RegularOverlay(degree=2)), (4,), 0.5, seed, roles)
        facts = study(case)
        overlay, [member] = case.network.shard_overlay(case.shard), np.flatnonzero(facts.member)
        near = overlay.indices[overlay.indptr[member] : overlay.indptr[member + 1]]
        row = facts.law.requests.toarray()[member]
        assert row[near[facts.answers[near]]] == pytest.approx(1 / np.count_nonzero(facts.answers[near]))
        assert not row[~facts.answers].any()


def test_forgetting_members_who_submit_nothing_is_caught():
    """Planted: whom a member asked is known from what arrived, so that one who submits nothing asked nobody."""
    found = False
    for seed in range(6):
        case = Case(NetworkConfig(overlay=RegularOverlay(degree=2)), (4,), 0.5, seed, COALITION)
        facts = study(case)
        seen = sparse.csr_array(facts.law.weights.multiply(facts.member[:, None]))
        forgetful = replace(facts, law=replace(facts.law, requests=seen))
        [claim] = cluster_privacy([forgetful], RandomizedResponse(0.2, 2), 0.4)
        found |= coalition_truth(case, facts, claim.coalition.epsilon_upper) > 0.45
    assert found


@pytest.mark.parametrize("overlay", [{"overlay": RegularOverlay(degree=2)}, {}])
def test_members_who_may_ask_again_see_more(overlay):
    """A late reply is dropped, but she has seen it."""
    rule = OnTimeout(retry="redraw", attempts=2)
    impatient = {"request_timeout_s": 1.0, "latency": Exponential(mean_s=0.5)}
    facts = study(Case(NetworkConfig(**overlay, **impatient, on_timeout=rule), (8,), 1.0, 3, COALITION))
    [found] = cluster_privacy([facts], RandomizedResponse(0.2, 2), 0.3)
    [once] = cluster_privacy([replace(facts, draws=1)], RandomizedResponse(0.2, 2), 0.3)
    assert facts.draws == 2
    assert found.coalition.epsilon_upper > once.coalition.epsilon_upper
    if not overlay:
        assert found.meets == pytest.approx(1 - (7 / 8) ** 4)


@pytest.mark.parametrize(
    "config",
    [
        {"peers": RandomWalk(length=2)},
        {
            "availability": OnOff(mean_on_s=1.0, mean_off_s=0.1),
            "request_timeout_s": 1.0,
            "on_timeout": OnTimeout(retry="redraw", attempts=2),
        },
        {"overlay": GeometricOverlay(radius=1.0), "distance_s": 0.1},
    ],
)
def test_members_see_more_of_a_fetch_where_they_forward_or_know_that_others_ask_again(config):
    """A walk came by; or a request failed, and others can answer the next one than could the first."""
    noise = RandomizedResponse(0.2, 2)
    case = Case(NetworkConfig(**{"overlay": RegularOverlay(degree=2), **config}), (8,), 1.0, 1, COALITION)
    [found] = cluster_privacy([study(case)], noise, 0.3)
    assert found.coalition.epsilon_upper == noise.local_epsilon
    assert "members may have seen requests" in found.coalition.basis


def test_a_label_that_comes_after_the_deadline_has_been_seen():
    """The learner takes neither the late nor what users passed on of their own, but it reached her."""
    rule = OnTimeout(fallback="own_label")
    slow = NetworkConfig(request_timeout_s=0.1, on_timeout=rule, deadline_s=0.05, latency=Exponential(mean_s=0.05))
    exchange = Case(slow, (12,), 1.0, 3).exchange(record=False)
    exchange.run()
    facts, noise = realised(exchange), RandomizedResponse(0.2, 2)
    assert (facts.own & ~exchange.accepts(exchange.arrival)).any()
    assert (facts.fetched | facts.own).all()
    [found] = cluster_privacy([facts], noise, 0.01)
    assert found.learner.epsilon_upper == noise.local_epsilon


def test_where_nobody_answers_there_is_nobody_to_meet():
    riders = AdversariesConfig(free_riders=FreeRiders(share=0.99), coalition=CoalitionConfig(share=0.5))
    [found] = cluster_privacy([study(Case(NetworkConfig(), (4,), 1.0, 1, riders))], RandomizedResponse(0.2, 2), 0.01)
    assert (found.coalition.epsilon_upper, found.meets, found.unmet) == (0.0, None, None)


def three_classes(sources: int, submissions: int, epsilon: float, alpha: float) -> float:
    """δ(ε) if so many labels of three classes arrive, each from one of the same sources, over all data sets."""
    laws = {}
    for labels in itertools.product(range(3), repeat=sources):
        law = dict.fromkeys(range((submissions + 1) ** 3), 0.0)
        for noisy in itertools.product(range(3), repeat=sources):
            chance = math.prod(1 - alpha if a == b else alpha / 2 for a, b in zip(noisy, labels, strict=True))
            shares = [noisy.count(j) / sources for j in range(3)]
            for x, y in itertools.product(range(submissions + 1), repeat=2):
                if x + y <= submissions:
                    z = submissions - x - y
                    ways = math.comb(submissions, x) * math.comb(submissions - x, y)
                    place = (x * (submissions + 1) + y) * (submissions + 1) + z
                    law[place] += chance * ways * shares[0] ** x * shares[1] ** y * shares[2] ** z
        laws[labels] = law
    worst = 0.0
    for others in itertools.product(range(3), repeat=sources - 1):
        one, other = laws[(0, *others)], laws[(1, *others)]
        worst = max(worst, sum(max(0.0, one[view] - math.exp(epsilon) * other[view]) for view in one))
    return worst


def test_more_labels_arrive_than_there_are_users_who_hide_one_of_three_classes():
    """Seven of ten do not answer; control: an exchange of the three others, with three labels, says less."""
    again = OnTimeout(retry="redraw", attempts=10, backoff=1.0)
    riders = AdversariesConfig(free_riders=FreeRiders(share=0.7))
    facts = study(Case(NetworkConfig(request_timeout_s=1.0, on_timeout=again), (10,), 1.0, 5, riders, num_classes=3))
    submissions = np.count_nonzero(facts.fetched)
    assert np.count_nonzero(facts.answers) == 3 < submissions
    facts = replace(facts, answers=np.roll(facts.answers, -int(np.argmax(facts.answers))))  # the first user is one
    for epsilon in (0.3, 0.8):
        truth = three_classes(3, submissions, epsilon, 0.3)
        assert truth <= target_deltas([facts], RandomizedResponse(0.3, 3), [epsilon])[0, 0]
        assert KaryExchange(3, 0.3, 1.0, 3).delta(epsilon).upper < truth - 0.05


def test_of_three_classes_no_figure_is_known_where_users_come_and_go():
    """The noise alone bounds the target; control: the figure of two classes is less."""
    facts = study(Case(NetworkConfig(), (10,), 1.0, 5, num_classes=3))
    facts = replace(facts, law=Capped(np.full(10, 0.15)))
    (three,), (two,) = (target_deltas([facts], RandomizedResponse(0.3, k), [0.3])[0] for k in (3, 2))
    assert three == RandomizedResponse(0.3, 3).alone(0.3).upper
    assert two < three


def test_what_bounds_a_target_is_worked_out_once_for_every_epsilon(monkeypatch):
    """A table of probabilities costs much to account for, and an audit asks for many ε of thousands of targets."""
    facts = study(Case(NetworkConfig(overlay=RegularOverlay(degree=3)), (12, 8), 1.0, 3))
    noise, epsilons = RandomizedResponse(0.2, 2), (0.0, 0.2, 0.5)
    alone = [target_deltas([facts], noise, [epsilon])[:, 0].tolist() for epsilon in epsilons]
    built = []

    def counted(*args, **settings):
        built.append(args)
        return FetchDistribution(*args, **settings)

    monkeypatch.setattr(realised_accountants, "FetchDistribution", counted)
    together = target_deltas([facts], noise, epsilons)
    assert together.T.tolist() == alone
    assert together.min() > 0.0
    assert len(built) == 2


def test_no_figure_falls_with_fewer_sources_or_more_submissions():
    """On all data sets of small clusters: fewer sources and more submissions, no smaller δ."""
    for epsilon, alpha in ((0.3, 0.1), (1.0, 0.2), (2.0, 0.05)):
        table = [[UniformSources(n, 0, t, alpha).delta(epsilon) for t in range(12)] for n in range(1, 12)]
        lower, upper = (np.array([[getattr(b, end) for b in row] for row in table]) for end in ("lower", "upper"))
        assert (lower[1:] <= upper[:-1]).all()
        assert (lower[:, :-1] <= upper[:, 1:]).all()
        assert (lower[:-1, 1:] > upper[1:, :-1]).any()


def test_few_clusters_hold_the_largest_and_the_smallest_figure():
    """Those of all clusters are those of the decisive ones; of any others a figure is missed."""
    network, rng = NetworkConfig(loss=0.3), np.random.default_rng(1)
    facts = [study(Case(network, tuple(rng.integers(20, 60, 80).tolist()), 0.5, 3))]
    noise, chosen = RandomizedResponse(0.2, 2), clusters_to_evaluate(facts)
    every = np.array([found.learner.epsilon_upper for found in cluster_privacy(facts, noise, 1e-4)])
    few = [found.learner.epsilon_upper for found in cluster_privacy(facts, noise, 1e-4, chosen)]
    assert len(few) == chosen.sum() < 50
    assert max(few) == pytest.approx(every.max(), rel=1e-9)
    assert min(few) == pytest.approx(every.min(), rel=1e-9)
    assert every[~chosen].max() < every.max()
    assert every[~chosen].min() > every.min()


def test_a_cluster_of_which_more_is_known_is_always_looked_at():
    """Members, liars and users who fell back."""
    liars = AdversariesConfig(liars=Liars(share=0.5, answer="one"))
    assert clusters_to_evaluate([study(Case(NetworkConfig(), (40,) * 30, 0.5, 2, liars))]).all()
    assert not clusters_to_evaluate([study(Case(NetworkConfig(), (40,) * 30, 0.5, 2))]).all()
