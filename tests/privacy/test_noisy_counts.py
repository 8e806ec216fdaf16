"""Noisy counts of bags: exact ratios by enumeration, noise shares by their laws; each with an error that is found."""

import itertools
import math

import numpy as np
import pytest

from p2p_sim.privacy.rivals.noisy_counts import (
    CURATED,
    SHARED,
    NoisyCounts,
    counts_epsilon,
    counts_scale,
    messages_epsilon,
    zero_probability,
)

TERMS = 3_000


def share_law(part: float, scale: float, terms: int = TERMS) -> np.ndarray:
    """Law of a difference of two negative binomial variables with r = `part`, at -(terms-1)..terms-1."""
    k = np.arange(terms - 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log((part + k) / (k + 1.0)) - 1.0 / scale)])
    law = np.exp(logs + part * math.log(-math.expm1(-1.0 / scale)))
    return np.convolve(law, law[::-1])


def two_sided(scale: float, span: int) -> np.ndarray:
    """Two-sided geometric law at -span..span."""
    t = math.exp(-1.0 / scale)
    return (1 - t) / (1 + t) * t ** np.abs(np.arange(-span, span + 1.0))


def released_law(counts: tuple[int, ...], scale: float, span: int) -> np.ndarray:
    """Joint law of noisy counts, each at -span..span + 3, larger and smaller values lumped at the ends."""
    t, law = math.exp(-1.0 / scale), np.ones(())
    for count in counts:
        z = np.arange(-span, span + 4) - count
        one = (1 - t) / (1 + t) * t ** np.abs(z.astype(float))
        one[0], one[-1] = t ** -float(z[0]) / (1 + t), t ** float(z[-1]) / (1 + t)
        law = np.multiply.outer(law, one)
    return law


def counted(labels: tuple[int, ...], classes: int) -> tuple[int, ...]:
    counts = np.bincount(labels, minlength=classes)
    return (int(counts[1]),) if classes == 2 else tuple(counts.tolist())


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def worst_pair(size: int, classes: int, scale: float, what) -> float:
    """The largest of `what` of two laws over all data sets of a bag and all changes of the first user's label."""
    found = 0.0
    for others in itertools.combinations_with_replacement(range(classes), size - 1):
        laws = [released_law(counted((own, *others), classes), scale, 8) for own in range(classes)]
        found = max(found, *(what(p, q) for p, q in itertools.permutations(laws, 2)))
    return found


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
@pytest.mark.parametrize(("size", "classes"), [(2, 2), (3, 2), (2, 3), (3, 3)])
def test_the_largest_ratio_of_a_tiny_bag_is_the_pure_epsilon(size, classes, scale):
    exact = worst_pair(size, classes, scale, lambda p, q: float(np.log(p / q).max()))
    assert exact == pytest.approx(counts_epsilon(scale, classes), rel=1e-12)
    once = 1.0 / scale  # the error: one of two counts that move is charged
    assert (exact > 1.5 * once) == (classes > 2)


@pytest.mark.parametrize("scale", [0.5, 3.0])
@pytest.mark.parametrize(("size", "classes"), [(3, 2), (2, 3)])
def test_delta_is_the_hockey_stick_divergence_of_a_tiny_bag(size, classes, scale):
    model = NoisyCounts(classes, scale)
    for epsilon in (0.0, 0.3, 0.9 * model.pure_epsilon):
        exact = worst_pair(size, classes, scale, lambda p, q, e=epsilon: hockey_stick(p, q, e))
        bracket = model.delta(epsilon)
        assert bracket.lower <= exact * (1 + 1e-9)
        assert bracket.upper >= exact * (1 - 1e-9)
        assert bracket.upper - bracket.lower <= 1e-9
    assert model.delta(model.pure_epsilon).upper == 0.0


@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.1, 0.9])
def test_epsilon_inverts_delta(delta):
    for classes, scale in ((2, 0.7), (10, 4.0), (3, 1e6), (2, 1e-2)):
        model = NoisyCounts(classes, scale)
        bound = model.epsilon(delta)
        assert bound.epsilon_lower <= bound.epsilon_upper <= model.pure_epsilon
        assert model.delta(bound.epsilon_upper).upper <= delta * (1 + 1e-6) + 1e-15
        if bound.epsilon_upper > 0.0:
            assert bound.epsilon_upper - bound.epsilon_lower <= 1e-9 * (1 + bound.epsilon_upper)


def test_the_scale_of_a_target_is_the_smallest():
    for classes, epsilon in ((2, 0.1), (3, 0.3), (10, 7.0)):
        scale = counts_scale(epsilon, classes)
        assert counts_epsilon(scale, classes) <= epsilon
        assert counts_epsilon(scale * (1 - 1e-14), classes) > epsilon


@pytest.mark.parametrize("sharers", [1, 2, 5])
def test_the_shares_sum_to_the_whole_noise(sharers):
    law = share_law(1.0 / sharers, 2.0, 200)
    total = np.ones(1)
    for _ in range(sharers):
        total = np.convolve(total, law)
    middle = len(total) // 2
    assert total[middle - 60 : middle + 61] == pytest.approx(two_sided(2.0, 60), abs=1e-12)
    fewer = share_law(1.0 / (sharers + 1), 2.0, 200)  # the error: sized for one user more
    assert abs(fewer[len(fewer) // 2] - law[len(law) // 2]) > 1e-2


@pytest.mark.parametrize(("size", "colluders", "leavers"), [(3, 1, 1), (10, 3, 2), (20, 1, 0)])
@pytest.mark.parametrize("moved", [1, 2])
def test_what_is_left_of_the_noise_is_sufficient_and_less_is_found(size, colluders, leavers, moved):
    """The coalition subtracts its own shares: as many are left as n - c - d users have."""
    scale, honest = 2.0, size - colluders - leavers
    model = NoisyCounts(2 if moved == 1 else 3, scale, "shares")

    def delta(part: float, epsilon: float) -> float:
        law = share_law(part, scale, 400)
        p, q = np.append(law, 0.0), np.insert(law, 0, 0.0)
        if moved == 1:
            return hockey_stick(q, p, epsilon)
        middle = slice(len(p) // 2 - 60, len(p) // 2 + 60)
        p, q = p[middle], q[middle]
        return hockey_stick(np.multiply.outer(p, q), np.multiply.outer(q, p), epsilon)

    for epsilon in (0.0, 0.25, 0.45):
        certified = model.delta(epsilon)
        assert delta(honest * (1.0 / honest), epsilon) == pytest.approx(certified.upper, rel=1e-6)
        assert delta(honest * (1.0 / size), epsilon) > certified.upper * 1.01  # the error: sized for all n
        more = NoisyCounts(model.num_classes, scale, "shares", size / honest).delta(epsilon)
        exact = delta(size / honest, epsilon)
        assert more.lower <= exact * (1 + 1e-9)
        assert exact <= more.upper
        assert epsilon > 0.0 or more.lower > (1 - 1e-6 if moved == 1 else 0.7) * exact


def test_a_bag_that_may_release_nothing_attains_less():
    always, half = NoisyCounts(2, 1.0, "shares"), NoisyCounts(2, 1.0, "shares", 1.0, 0.5)
    assert half.delta(0.5).upper == always.delta(0.5).upper
    assert half.delta(0.5).lower == pytest.approx(always.delta(0.5).lower / 2)
    assert half.epsilon(0.1).epsilon_lower == pytest.approx(always.epsilon(0.2).epsilon_lower)
    assert NoisyCounts(2, 1.0, "shares", 1.0, 0.0).epsilon(0.1).epsilon_lower == 0.0


@pytest.mark.parametrize("surplus", [1.0, 1.5, 7.0])
def test_the_probability_of_no_noise(surplus):
    exact = share_law(surplus, 3.0)[TERMS - 1]
    assert zero_probability(3.0, surplus) <= exact * (1 + 1e-12)
    assert zero_probability(3.0, surplus) == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize("honest", [1, 3, 40])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_no_two_labels_differ_more_in_all_messages_of_a_user(honest, scale):
    law = share_law(1.0 / honest, scale, 300)
    near = law[250:-250]
    ratio = float(np.abs(np.diff(np.log(near))).max())
    assert ratio <= messages_epsilon(scale, 2, honest)
    assert ratio >= (0.5 if honest > 1 else 1 - 1e-9) * messages_epsilon(scale, 2, honest)
    assert messages_epsilon(scale, 3, honest) == 2 * messages_epsilon(scale, 2, honest)
    assert honest == 1 or ratio > counts_epsilon(scale, 2)  # the sum's ε would be too small


def test_conditions_name_whom_it_takes():
    assert NoisyCounts(2, 1.0).epsilon(1e-6).conditions == CURATED
    assert NoisyCounts(2, 1.0, "shares").epsilon(1e-6).conditions == SHARED


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"num_classes": 1}, "num_classes = 1"),
        ({"noise_scale": 0.0}, "noise_scale = 0.0"),
        ({"noise_scale": math.inf}, "noise_scale = inf"),
        ({"surplus": 0.5}, "surplus = 0.5"),
        ({"released": 1.5}, "released = 1.5"),
    ],
)
def test_impossible_parameters_are_refused(given, what):
    with pytest.raises(ValueError, match=what):
        NoisyCounts(**{"num_classes": 2, "noise_scale": 1.0, **given})


def test_noise_too_small_to_hide_a_label_leaves_delta_near_one():
    assert NoisyCounts(2, 1e-3).delta(0.5).lower == pytest.approx(1.0)
