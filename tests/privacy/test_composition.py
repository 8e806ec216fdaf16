"""Composition: from dominating pairs, never of memoised rounds, refused below its floor."""

import itertools
import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from scipy.special import gammaln, ndtr
from scipy.stats import beta

from p2p_sim.privacy import DpSgd, Eavesdropper, KaryExchange, LabelExchange, Peer, TimedLearner, compose, conditions
from p2p_sim.privacy.bound import OBSERVERS, SEES_AT_MOST, PrivacyBound, common_observer
from p2p_sim.privacy.composition import Composition
from p2p_sim.privacy.conditions import FRESH, WITHIN_ONE, Condition
from p2p_sim.privacy.conversions import gdp, pld, renyi, tradeoff
from p2p_sim.privacy.exchange.direct_sum import likelihoods
from p2p_sim.privacy.randomized_response import local_epsilon
from p2p_sim.privacy.stated_accountants import OnePoint
from p2p_sim.privacy.worst_of_several import WorstOf


def product_delta(exchange: LabelExchange, rounds: int, epsilon: float, per_round: bool = False) -> float:
    """δ(ε) of independent rounds about the same labels, by enumerating all outcomes (θ = 1)."""
    n, alpha, worst = exchange.cluster_size, exchange.flip_prob, 0.0
    for ones in range(n):
        [(a, b)] = likelihoods([exchange.setting.world(ones)], [n])
        p, q = ((1 - alpha) * a + alpha * b)[:, 0], (alpha * a + (1 - alpha) * b)[:, 0]
        for x, y in ((p, q), (q, p)):
            big_x, big_y = x, y
            for _ in range(rounds - 1):
                big_x, big_y = np.outer(big_x, x).ravel(), np.outer(big_y, y).ravel()
            worst = max(worst, float(np.maximum(big_x - math.exp(epsilon) * big_y, 0).sum()))
    return worst


@pytest.mark.parametrize(("n", "alpha", "rounds"), [(6, 0.2, 2), (10, 0.1, 3), (4, 0.3, 4)])
def test_composed_bound_lies_above_the_product_and_close(n, alpha, rounds):
    exchange = LabelExchange(n, alpha, 1.0)
    for delta in (1e-1, 1e-2, 1e-4):
        bound = compose([exchange] * rounds, delta)
        assert product_delta(exchange, rounds, bound.epsilon_upper) <= delta
        assert bound.epsilon_upper <= 1e-9 or product_delta(exchange, rounds, 0.8 * bound.epsilon_upper) > delta


def test_memoised_rounds_are_not_composed_rounds():
    """n = 20, α = .1, θ = 1, two rounds, ε = 1.2: composing gives .0247, the truth is .0365."""
    truth = LabelExchange(20, 0.1, 1.0, rounds=2).delta(1.2)
    assert truth.lower == pytest.approx(0.0365, abs=5e-5)
    assert product_delta(LabelExchange(20, 0.1, 1.0), 2, 1.2) == pytest.approx(0.0247, abs=5e-5)


def test_different_exchanges_compose_in_any_order():
    one, two = LabelExchange(30, 0.1, 0.5), LabelExchange(60, 0.2, 1.0)
    both, swapped = compose([one, two], 1e-4), compose([two, one], 1e-4)
    assert both.epsilon_upper == pytest.approx(swapped.epsilon_upper, rel=1e-9)
    singles = [compose([e], 1e-4).epsilon_upper for e in (one, two)]
    assert max(singles) < both.epsilon_upper < sum(compose([e], 5e-5).epsilon_upper for e in (one, two))
    assert singles[0] == pytest.approx(one.epsilon(1e-4).epsilon_upper, rel=0.02)


@pytest.mark.parametrize(("n", "rounds"), [(20, 300), pytest.param(200, 3000, marks=pytest.mark.slow)])
def test_many_rounds_charge_the_rounding_of_their_convolutions(n, rounds):
    """Against a direct convolution of the same pairs' losses, which has no such rounding."""
    exchange = LabelExchange(n, 0.3, 0.5)
    composition = Composition((exchange,), (rounds,))
    epsilon, step = composition.epsilon(2e-12).epsilon_upper, composition._step
    law = pld(exchange, step)._pmf_remove.to_dense_pmf()
    power, start = convolved(law._probs, law._lower_loss, rounds)
    losses = (start + np.arange(len(power))) * step
    infinite = -math.expm1(rounds * math.log1p(-law._infinity_mass))
    delta = float(power @ np.maximum(-np.expm1(epsilon - losses), 0.0)) + infinite
    assert 1e-12 < delta <= 2e-12


def convolved(law: np.ndarray, low: int, count: int) -> tuple[np.ndarray, int]:
    """Law of the sum of `count` losses by repeated squaring, entries below 1e-25 dropped."""
    power, start = np.ones(1), 0
    while count:
        if count & 1:
            power, start = np.convolve(power, law), start + low
        law, low, count = np.convolve(law, law), 2 * low, count >> 1
        kept = np.flatnonzero(law > 1e-25)
        law, low = law[kept[0] : kept[-1] + 1], low + int(kept[0])
    return power, start


@pytest.mark.parametrize(
    ("exchanges", "delta", "message"),
    [([], 1e-5, "at least one"), ([LabelExchange(9, 0.1, 1.0)], 1e-15, "at least 1e-14"),
     ([LabelExchange(9, 0.1, 1.0)] * 20_000, 1e-13, "at least 6"),
     ([LabelExchange(9, 0.0, 1.0)], 1e-5, "no ε holds"),
     ([LabelExchange(9, 0.1, 1.0), Eavesdropper(0.0)], 1e-5, "no ε holds"),
     ([LabelExchange(9, 0.1, 1.0), Peer(9, 0.1)], 1e-5, "observer = learner, peer")],
)  # fmt: skip
def test_what_cannot_be_composed_is_refused(exchanges, delta, message):
    with pytest.raises(ValueError, match=message):
        compose(exchanges, delta)


ROUNDS, USERS, ALPHA, NOISE, STEPS = 10, 3, 0.2, 4.0, 3
"""Ten exchanges among three users with fresh noise, then three steps of DP-SGD with every user in every batch."""


def both_laws(ones: int, theta: float) -> tuple[np.ndarray, np.ndarray]:
    zero, one = LabelExchange(USERS, ALPHA, theta).privacy_loss_pmfs(ones)
    seen = [key for key in zero if zero[key] > 0.0]
    return np.array([zero[key] for key in seen]), np.array([one[key] for key in seen])


def exact_total(theta: float, epsilon: float) -> float:
    """δ(ε) of all releases, by enumerating how often each outcome of an exchange comes up; the steps in closed form."""
    mu = 2.0 * math.sqrt(STEPS) / NOISE  # a replaced label moves a clipped gradient by twice the norm
    worst = 0.0
    for ones in range(USERS):
        for p, q in (both_laws(ones, theta), both_laws(ones, theta)[::-1]):
            counts = np.array(list(compositions(ROUNDS, len(p))))
            ways = gammaln(ROUNDS + 1) - gammaln(counts + 1).sum(axis=1)
            log_p, log_q = ways + counts @ np.log(p), ways + counts @ np.log(q)
            left = epsilon + log_q - log_p
            worst = max(
                worst, float(np.exp(log_p) @ (ndtr(mu / 2 - left / mu) - np.exp(left) * ndtr(-mu / 2 - left / mu)))
            )
    return worst


def compositions(total: int, parts: int):
    """All ways to write a total as a sum of whole numbers of at least 0."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


def everything(theta: float) -> Composition:
    return Composition((LabelExchange(USERS, ALPHA, theta), DpSgd(NOISE, 1.0, STEPS)), (ROUNDS, 1))


def test_exchanges_and_dp_sgd_against_enumeration():
    total = everything(1.0)
    for delta in (1e-1, 1e-3, 1e-6, 1e-9):
        epsilon = total.epsilon(delta).epsilon_upper
        assert exact_total(1.0, epsilon) <= delta
        assert exact_total(1.0, 0.93 * epsilon) > delta
        assert total.delta(epsilon).upper == pytest.approx(delta, rel=1e-4)


def test_one_statement_at_a_larger_delta_is_rounded_up():
    """ε' of δ' = δ + (1-δ)(1 - e^(ε'-ε))/(1 + e^-ε), with sixty digits; rounding to nearest fails half of these."""
    rng = np.random.default_rng(3)
    stated = Eavesdropper(0.1).epsilon(1e-5)
    with mp.workdps(60):
        for epsilon, share in zip(rng.uniform(0.01, 20.0, 200), 10.0 ** rng.uniform(-12.0, -0.5, 200), strict=True):
            one = OnePoint(replace(stated, epsilon_lower=0.0, epsilon_upper=float(epsilon), delta=1e-9))
            delta = 1e-9 + float(share)
            left = (mp.mpf(delta) - mp.mpf(1e-9)) / (1 - mp.mpf(1e-9)) * (1 + mp.exp(-mp.mpf(float(epsilon))))
            truth = mp.mpf(float(epsilon)) + mp.log(1 - left) if left < 1 else mp.mpf(0)
            assert truth <= one.epsilon(delta).epsilon_upper <= max(truth, 0) + 1e-6


@pytest.mark.parametrize("count", [1, 3])
def test_mu_without_anything_beside_covers_all_of_delta(count):
    """A probability of 1e-18 that the law of a loss leaves out is more than nothing."""
    release = LabelExchange(1000, 0.1, 1.0)
    assert Composition((release,), (count,)).gdp() == pytest.approx(math.sqrt(count) * gdp(release), rel=1e-12)


@pytest.mark.slow
def test_exchanges_that_leave_some_out_and_dp_sgd_against_enumeration():
    epsilon = everything(0.5).epsilon(1e-6).epsilon_upper
    assert exact_total(0.5, epsilon) <= 1e-6 < exact_total(0.5, 0.93 * epsilon)


def test_simulated_exchanges_and_steps_stay_below_the_total_and_near_it():
    """An attack that knows the laws, on simulated rounds; its bound holds at error 1e-9 and reaches half of δ.

    The control has half of the noise: the same attack then proves more than the total allows.
    """
    epsilon, trials, theta = 2.0, 200_000, 1.0
    allowed = everything(theta).delta(epsilon).upper

    def attack(alpha: float, noise: float) -> float:
        rng, views = np.random.default_rng(7), []
        for label in (0, 1):
            labels = np.tile([label, 0, 0], (trials, 1))
            evidence = np.zeros(trials)
            p, q = both_laws(0, theta)
            ratio = np.log(p / q)  # by the number of ones
            for _ in range(ROUNDS):
                noisy = labels ^ (rng.random((trials, USERS)) < alpha)
                asked = rng.integers(0, USERS, (trials, USERS))
                evidence += ratio[np.take_along_axis(noisy, asked, axis=1).sum(axis=1)]
            sign = 1.0 if label == 0 else -1.0
            moved = sign + noise * rng.standard_normal((STEPS, trials))
            views.append(evidence + (2.0 * moved / NOISE**2).sum(axis=0))
        hits = [int(np.count_nonzero(view > epsilon)) for view in views]
        low = beta.ppf(5e-10, hits[0], trials - hits[0] + 1)
        high = beta.ppf(1 - 5e-10, hits[1] + 1, trials - hits[1])
        return float(low - math.exp(epsilon) * high)

    assert 0.5 * allowed < attack(ALPHA, NOISE) <= allowed
    assert attack(ALPHA / 2, NOISE / 2) > allowed


def test_mu_and_renyi_of_a_total_add_up_and_cover_it():
    total, beside = everything(1.0), 1e-9
    mu = gdp(total, beside)
    for epsilon in np.linspace(0.0, 12.0, 25):
        gauss = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
        assert exact_total(1.0, epsilon) <= gauss + beside
    assert math.isinf(renyi(total, 2.0))  # the rounding of the steps is an infinite loss
    twice = Composition((Eavesdropper(0.1), Eavesdropper(0.2, 3)), (2, 1))
    assert renyi(twice, 3.0) == pytest.approx(2 * renyi(Eavesdropper(0.1), 3.0) + renyi(Eavesdropper(0.2, 3), 3.0))


def test_the_total_is_about_whoever_sees_no_more_of_each_release():
    learner, times = LabelExchange(9, 0.1, 1.0), TimedLearner(LabelExchange(9, 0.1, 1.0))
    bound = compose([learner, times], 1e-5)
    assert bound.observer == "learner"  # who sees times in both learns more than this
    assert compose([times, times], 1e-5).observer == "learner-times"
    assert {"fresh-rounds", "one-label"} <= set(bound.condition_ids)


@pytest.mark.parametrize("count", [2, 3])
def test_a_total_does_not_depend_on_the_order_of_the_releases(count):
    parts = [
        OnePoint(PrivacyBound(0.1, 0.5 + 0.1 * k, 0.0, name, "label", "stated")) for k, name in enumerate(OBSERVERS)
    ]
    for chosen in itertools.combinations(parts, count):
        said = set()
        for order in itertools.permutations(chosen):
            try:
                bound = Composition(order, (1,) * count).epsilon(1e-5)
                worst = WorstOf(order).epsilon(1e-5)
                assert worst.observer == bound.observer
                said.add((bound.observer, round(bound.epsilon_upper, 9), bound.epsilon_lower, worst.epsilon_upper))
            except ValueError as error:
                said.add(str(error))
        assert len(said) == 1
        for part in chosen:
            here = next(iter(said))
            assert isinstance(here, str) or here[0] in SEES_AT_MOST[part.stated.observer]


def test_an_eavesdropper_of_both_releases_learns_more_than_the_total_of_one_and_a_learner():
    seen, learner = Eavesdropper(0.1), LabelExchange(1000, 0.1, 0.5)
    one, other = compose([seen, learner], 1e-6), compose([learner, seen], 1e-6)
    assert one.observer == other.observer == "learner"
    assert one.epsilon_upper == pytest.approx(other.epsilon_upper, rel=1e-9)
    assert one.epsilon_upper < 2 * local_epsilon(0.1)
    assert compose([seen, seen], 1e-6).epsilon_upper >= 2 * local_epsilon(0.1) - 1e-3


def test_observers_are_ordered():
    """The order is reflexive and transitive; an unknown observer stands alone."""
    assert set(SEES_AT_MOST) == set(OBSERVERS)
    for name, less in SEES_AT_MOST.items():
        assert less[0] == name
        assert all(set(SEES_AT_MOST[other]) <= set(less) for other in less)
    assert common_observer(["martian"]) == "martian"
    with pytest.raises(ValueError, match="give one observer"):
        common_observer(["learner", "martian"])


def test_the_trade_off_of_a_total_is_below_that_of_its_parts():
    total, errors = everything(1.0), np.linspace(0.0, 1.0, 21)
    whole = tradeoff(total, errors)
    for release in total.releases:
        assert np.all(whole <= tradeoff(release, errors) + 1e-9)
    assert whole[10] > 0.0


def test_times_that_are_none_are_refused():
    with pytest.raises(ValueError, match="times = 0"):
        Composition((Eavesdropper(0.1),), (0,))
    with pytest.raises(ValueError, match="for each of 1"):
        Composition((Eavesdropper(0.1),), (1, 2))


@pytest.mark.parametrize("message", [LabelExchange(20, 0.1, 1.0), Eavesdropper(0.1), KaryExchange(20, 0.1, 0.5, 3)])
def test_what_is_fresh_in_every_exchange_is_repeated_within_one_alone(message):
    """A user who repeats her noisy label in all exchanges has no fresh noise: the two conditions contradicted."""
    said = compose([message] * 3, 1e-5).conditions
    assert FRESH in said
    assert [one for one in said if "repeats it" in one and not one.startswith("within one exchange, ")] == []
    alone = compose([message], 1e-5).conditions  # nothing else is released, and nothing is to be fresh
    assert FRESH not in alone
    assert set(alone) == set(message.conditions)
    ids = [one.identifier for one in said]
    assert set(ids) == {FRESH.identifier, *(one.identifier for one in message.conditions)}


def test_every_condition_by_which_a_message_is_repeated_is_known_to_compositions():
    stated = [said for said in vars(conditions).values() if isinstance(said, Condition)]
    assert {said.identifier for said in stated if "repeats it" in said} == set(WITHIN_ONE)
