"""The statistics of an audit in one run: error probabilities by enumeration, power, and what cheating does."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, multinomial

from p2p_sim.privacy.audit_statistics.one_run_guesses import (
    Guesses,
    best_epsilon_stake,
    best_stake,
    binomial_power,
    delta_lower,
    epsilon_lower,
    smallest_refused,
)
from p2p_sim.privacy.audit_statistics.one_run_plan import AttackScores, drawn_tradeoff, plan_one_run
from p2p_sim.privacy.randomized_response import pure_delta


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (0.5, 0.2), (1.5, 0.05), (3.0, 0.4)])
@pytest.mark.parametrize("stake_share", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("wrong", [0.0, 0.01, 0.05])
def test_a_true_claim_is_refused_with_at_most_the_stated_probability(epsilon, delta, stake_share, wrong):
    """All outcomes of 24 targets are enumerated at the boundary of the claim; the error is 0.05."""
    right = delta + math.exp(epsilon) * wrong
    if right + wrong > 1.0:
        pytest.skip("no attack reaches this")
    n, stake, refused = 24, stake_share / (math.exp(epsilon) + 1.0), 0.0
    law = multinomial(n, [right, wrong, 1.0 - right - wrong])
    for r, w in itertools.product(range(n + 1), repeat=2):
        if r + w <= n and Guesses(r, w, n).log_e(epsilon, delta, stake) >= -math.log(0.05):
            refused += law.pmf([r, w, n - r - w])
    assert refused <= 0.05


def test_targets_may_differ():
    """Half of the targets are revealed twice as often as the mean that is claimed, and half never."""
    n, mean, stake, refused = 24, 0.2, 0.4, 0.0
    for r in range(n // 2 + 1):
        if Guesses(r, 0, n).log_e(1.0, mean, 0.1) >= -math.log(0.05):
            refused += binom.pmf(r, n // 2, 2 * mean)
    assert refused <= 0.05
    assert Guesses(n // 2, 0, n).log_e(0.0, mean, stake) > 0.0  # it can refuse


def test_lower_bounds_lie_where_the_claim_just_falls():
    guesses, error = Guesses(300, 100, 1000), 1e-3
    stake = best_stake(0.3, 0.1, 1000, error, 0.5)
    lower = delta_lower(guesses, 0.5, stake, error)
    assert guesses.log_e(0.5, lower, stake) == pytest.approx(-math.log(error), rel=1e-6)
    assert 0.0 < lower < 0.3 - math.exp(0.5) * 0.1
    epsilon, stake = best_epsilon_stake(0.3, 0.1, 1000, error, 0.01)
    found = epsilon_lower(guesses, 0.01, stake, error)
    assert found == pytest.approx(epsilon, abs=1e-6)
    assert guesses.log_e(found, 0.01, stake) == pytest.approx(-math.log(error), rel=1e-6)
    assert 0.0 < found < math.log(0.29 / 0.1)


def test_no_other_stake_is_expected_to_prove_more():
    right, wrong, trials, error, epsilon = 0.3, 0.1, 10_000, 1e-9, 0.5
    planned = Guesses(3000, 1000, trials)
    best = delta_lower(planned, epsilon, best_stake(right, wrong, trials, error, epsilon), error)
    others = [delta_lower(planned, epsilon, stake, error) for stake in np.geomspace(1e-4, 0.3, 200)]
    assert max(others) <= best + 1e-6
    assert min(others) < 0.5 * best


def test_without_an_attack_nothing_is_proved():
    assert delta_lower(Guesses(500, 500, 1000), 0.0, None, 1e-9) == 0.0
    assert epsilon_lower(Guesses(50, 50, 1000), 1e-5, 0.1, 1e-9) == 0.0
    with pytest.raises(ValueError, match="every target must be guessed"):
        delta_lower(Guesses(5, 4, 10), 0.0, None, 1e-9)
    with pytest.raises(ValueError, match="impossible"):
        Guesses(6, 5, 10)


def test_the_power_of_the_binomial_test_is_that_of_its_critical_value():
    """At error 1e-9 a million targets tell δ(0) = .0757 from a tenth less with probability above .8."""
    n, claimed, true, error = 2000, 0.1, 0.2, 1e-3
    critical = next(k for k in range(n + 1) if binom.sf(k - 1, n, 0.55) <= error)
    assert binomial_power(claimed, true, n, error) == pytest.approx(binom.sf(critical - 1, n, 0.6), rel=1e-6)
    assert 0.8 < binomial_power(0.9 * 0.0757, 0.0757, 1_000_000, 0.5e-9) < 0.99
    assert binomial_power(0.0757, 0.0757, 1_000_000, 1e-9) <= 1e-9


def test_the_smallest_refused_value_is_found():
    assert smallest_refused(lambda x: x > 0.3, 0.0, 1.0) == pytest.approx(0.3, abs=1e-5)
    assert smallest_refused(lambda x: False, 0.0, 1.0) is None


def responses(rng: np.random.Generator, targets: int, flip: float = 0.3) -> AttackScores:
    """Noisy coins with their exact likelihood ratio."""
    labels = rng.random(targets) < 0.5
    noisy = labels ^ (rng.random(targets) < flip)
    return AttackScores(labels, np.where(noisy, 1.0, -1.0)[None, :] * math.log((1 - flip) / flip))


def false_alarms(error: float, audits: int) -> int:
    """Of randomised response, whose claimed curve is met exactly by this attack."""
    rng, epsilons = np.random.default_rng(3), [0.0, 0.2, 0.4, 0.6]
    plan = plan_one_run(responses(rng, 20_000), epsilons, 1e-5, trials=1000, error=error, exact=(True,))
    claimed = np.array([pure_delta(math.log(7 / 3), epsilon) for epsilon in epsilons])
    found = 0
    for _ in range(audits):
        seen = responses(rng, 1000)
        deltas, epsilon = plan.bounds([event.guesses(seen) for event in plan.events])
        found += bool((deltas > claimed).any() or epsilon > math.log(7 / 3))
    return found


def test_false_alarms_are_as_rare_as_stated():
    """500 audits of a sound mechanism: 16 or more at error .01 have probability below 1e-4; at error 1e-9 none."""
    assert false_alarms(0.01, 500) <= 16
    assert false_alarms(1e-9, 100) == 0


def test_an_attack_chosen_on_the_data_that_count_gives_too_many_false_alarms():
    """The control: of fifty scores that say nothing, the best on the same data is judged; 25 alarms are exceeded."""
    rng, found = np.random.default_rng(4), 0
    for _ in range(1000):
        best = int(rng.binomial(1000, 0.5, size=50).max())
        found += delta_lower(Guesses(best, 1000 - best, 1000), 0.0, None, 0.005) > 0.0
    assert found > 25


def test_the_better_of_two_scores_is_taken_only_if_it_is_clearly_better():
    rng = np.random.default_rng(5)
    good = responses(rng, 20_000)
    noise = rng.standard_normal(20_000)
    for scores, chosen in ((np.stack([good.scores[0], noise]), 0), (np.stack([noise, good.scores[0]]), 1)):
        plan = plan_one_run(
            AttackScores(good.labels, scores), [0.0, 0.4], 1e-5, trials=10_000, error=1e-9, exact=(False, False)
        )
        assert {event.attack for event in plan.events} == {chosen}


def test_the_drawn_tradeoff_lies_above_what_randomised_response_allows():
    rng = np.random.default_rng(6)
    drawn = drawn_tradeoff(responses(rng, 5000), responses(rng, 20_000), 0, 1e-9)
    assert drawn.type_one[0] == pytest.approx(0.3, abs=0.03) or drawn.type_one[0] == 1.0
    assert (drawn.type_one_upper >= drawn.type_one).all()
    assert (drawn.type_one_upper + drawn.type_two_upper >= 0.6).all()
