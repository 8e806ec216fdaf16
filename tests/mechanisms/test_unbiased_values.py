"""The optimal unbiased randomizer. Statistical tests have a false-alarm rate of 1e-9 and a control that must fail."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import chi2

from p2p_sim.mechanisms.label_values import UnbiasedValues
from p2p_sim.mechanisms.message_payloads import exchanged_at
from p2p_sim.privacy.conditions import PUBLIC_GRID, PUBLIC_PRIOR
from p2p_sim.privacy.randomized_response import law_delta, law_epsilon
from p2p_sim.privacy.rivals.rr_on_bins import best_bins
from p2p_sim.privacy.rivals.unbiased_values import OutputLaw, _repaired, best_unbiased, two_output_law

FALSE_ALARM = 1e-9


def cases(k: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(k)
    even = np.linspace(0.0, 1.0, k)
    peak = np.exp(-(((even - 0.5) / 0.15) ** 2))
    return [(even, np.full(k, 1.0 / k)), (even, peak / peak.sum()),
            (np.sort(rng.normal(100.0, 30.0, k)), rng.dirichlet(np.ones(k)))]  # fmt: skip


def error_of(values, prior, outputs, law) -> float:
    return float(prior @ (law * (outputs[None, :] - values[:, None]) ** 2).sum(axis=1))


def over_all_sets(values, prior, epsilon, outputs) -> float:
    """The smallest error on a grid of outputs, by another programme: an output tells one of all sets of labels."""
    k, low = len(values), math.exp(-epsilon)
    unit = (values - values[0]) / (values[-1] - values[0])
    columns, costs = [], []
    for told in itertools.product([low, 1.0], repeat=k):
        column = np.array(told)
        for output in outputs:
            columns.append(np.concatenate([column, column * output]))
            costs.append(float(prior * column @ (output - unit) ** 2))
    asked = np.concatenate([np.ones(k), unit])
    found = linprog(np.array(costs), A_eq=np.array(columns).T, b_eq=asked, method="highs")
    return float(found.fun) * (values[-1] - values[0]) ** 2


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0, 6.0, 10.0])
@pytest.mark.parametrize("k", [2, 3, 5, 12])
@pytest.mark.slow_where(lambda k, epsilon: k == 12 and epsilon != 0.5)
def test_the_table_is_private_unbiased_and_a_law(k, epsilon):
    for values, prior in cases(k):
        best = best_unbiased(values, prior, epsilon)
        span = np.abs(best.outputs - values[0]).max()
        assert best.epsilon == law_epsilon(best.law) <= epsilon
        assert best.epsilon == pytest.approx(epsilon, rel=1e-6)
        assert np.allclose(best.law.sum(axis=1), 1.0, rtol=0, atol=1e-14)
        assert np.allclose(best.law @ best.outputs, values, rtol=0, atol=1e-13 * span)
        assert best.expected_loss == pytest.approx(error_of(values, prior, best.outputs, best.law), rel=1e-9)
        assert len(best.outputs) <= 2 * k + 2
        assert np.all(np.diff(best.outputs) > 0)


@pytest.mark.parametrize("epsilon", [0.3, 3.0, *(pytest.param(one, marks=pytest.mark.slow) for one in (1.0, 6.0))])
@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.slow_where(lambda k: k == 5)
def test_no_unbiased_private_law_on_a_fine_grid_has_a_smaller_error(k, epsilon):
    beyond = 1.0 / math.expm1(epsilon)
    near, far = (np.linspace(-s * beyond, 1.0 + s * beyond, 201) for s in (2.0, 4.0 + 2 * k))
    for values, prior in cases(k):
        best = best_unbiased(values, prior, epsilon).expected_loss
        other = over_all_sets(values, prior, epsilon, np.unique(np.concatenate([near, far])))
        assert best <= other * 1.002


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.0])
def test_two_labels_need_two_outputs_beyond_their_range(epsilon):
    """Closed form: the error is (b-a)² e^ε/(e^ε-1)² for every prior."""
    values = np.array([2.0, 5.0])
    outputs, law = two_output_law(values, epsilon)
    assert law_epsilon(law) == pytest.approx(epsilon)
    best = best_unbiased(values, np.array([0.3, 0.7]), epsilon)
    assert best.expected_loss == pytest.approx(9.0 * math.exp(epsilon) / math.expm1(epsilon) ** 2, rel=1e-5)
    assert best.outputs[best.law.max(axis=0) > 0.01] == pytest.approx(outputs, rel=1e-4)
    closer = (values - values[0]) / (values[1] - values[0])
    inside = np.stack([1.0 - closer, closer], axis=1)  # the control: outputs within the range are not private
    assert math.isinf(law_epsilon(inside))


def test_it_is_better_than_simpler_unbiased_laws_and_worse_than_biased_ones():
    for epsilon in (0.5, 2.0, 4.0):
        values, prior = cases(9)[0]
        best = best_unbiased(values, prior, epsilon).expected_loss
        outputs, law = two_output_law(values, epsilon)
        assert best < error_of(values, prior, outputs, law)
        assert best < 2.0 / epsilon**2  # Laplace noise on the value
        assert best_bins(values, prior, epsilon).expected_loss < best


# -- the repair and planted errors -----------------------------------------------------------------------------------


def test_the_repair_mends_what_a_solver_leaves():
    rng = np.random.default_rng(5)
    values, epsilon = np.linspace(0.0, 1.0, 6), 2.0
    best = best_unbiased(values, np.full(6, 1 / 6), epsilon)
    off = best.law.T * (1.0 + 1e-9 * rng.standard_normal(best.law.T.shape))
    low, high = off.max(axis=1, keepdims=True) * math.exp(-epsilon), off.max(axis=1, keepdims=True)
    off = np.clip(off, low, high)
    assert not np.allclose(off.sum(axis=0), 1.0, rtol=0, atol=1e-12)
    outputs, law = _repaired(values, OutputLaw(best.outputs, off.T), epsilon)
    assert np.allclose(law.sum(axis=1), 1.0, rtol=0, atol=1e-14)
    assert np.allclose(law @ outputs, values, rtol=0, atol=1e-13)
    assert law_epsilon(law) <= epsilon * (1 + 1e-11)


def test_what_cannot_be_repaired_is_refused():
    values = np.linspace(0.0, 1.0, 4)
    best = best_unbiased(values, np.full(4, 0.25), 1.0)
    wrong = best.law.T.copy()
    wrong[0, 0] *= 3.0
    with pytest.raises(ValueError, match="cannot be repaired"):
        _repaired(values, OutputLaw(best.outputs, wrong.T), 1.0)


def test_a_wrong_normaliser_is_caught():
    """(b-a)/e^ε beyond the range in place of (b-a)/(e^ε-1); a column left out and rows scaled to one."""
    values, epsilon = np.linspace(0.0, 1.0, 5), 1.0
    beyond = math.exp(-epsilon)
    above = (values + beyond) / (1.0 + 2.0 * beyond)
    assert law_epsilon(np.stack([1.0 - above, above], axis=1)) > epsilon + 0.2
    best = best_unbiased(values, np.full(5, 0.2), epsilon)
    left = np.arange(len(best.outputs)) != best.law.max(axis=0).argmax()
    scaled = best.law[:, left] / best.law[:, left].sum(axis=1, keepdims=True)
    assert law_epsilon(scaled) > epsilon + 1e-3
    assert not np.allclose(scaled @ best.outputs[left], values, atol=1e-3)


# -- the message -----------------------------------------------------------------------------------------------------

GRID = tuple(np.linspace(0.0, 1.0, 6).tolist())


def p_value(payload: np.ndarray, labels: np.ndarray, law: np.ndarray) -> float:
    k, m = law.shape
    counts = np.bincount(labels.astype(np.intp) * m + payload, minlength=k * m)
    expected = (law * np.bincount(labels, minlength=k)[:, None]).ravel()
    rare = expected < 20
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    counts, expected = counts[expected > 1], expected[expected > 1]
    return float(chi2.sf(np.sum((counts - expected) ** 2 / expected), expected.size - k))


def test_the_sampler_follows_the_table():
    """Detects a wrong place of an output; the control: the law of an ε five percent larger, on the same outputs."""
    noise = UnbiasedValues(2.0, GRID)
    labels = np.random.default_rng(1).integers(0, 6, 300_000).astype(np.uint8)
    payload = noise.randomize(labels, np.random.default_rng(2))
    assert p_value(payload, labels, noise.law) > FALSE_ALARM
    sharper = noise.law**1.05
    assert p_value(payload, labels, sharper / sharper.sum(axis=1, keepdims=True)) < FALSE_ALARM


def test_the_mean_of_released_values_is_the_label():
    """Six standard errors a label: false alarm 6 · 2e-9; the control: RR-on-Bins's outputs would be far off."""
    noise = UnbiasedValues(1.0, GRID)
    for label, value in enumerate(GRID):
        sent = noise.values_of(noise.randomize(np.full(100_000, label, np.uint8), np.random.default_rng(label)))
        assert abs(sent.mean() - value) < 6.0 * sent.std() / math.sqrt(100_000)
        if label == 0:
            assert abs(sent.mean() - GRID[2]) > 6.0 * sent.std() / math.sqrt(100_000)


def test_figures_of_the_message_are_those_of_the_table():
    for epsilon in (0.3, 1.0, 4.0):
        noise = UnbiasedValues(epsilon, GRID)
        assert law_epsilon(noise.law) <= noise.local_epsilon <= epsilon
        assert noise.total_variation >= law_delta(noise.law, 0.0)
        assert noise.total_variation <= math.tanh(epsilon / 2.0) + 1e-9
        assert noise.payload_bits == (len(noise.outputs) - 1).bit_length()
        assert replace(noise, prior=(0.5, 0.1, 0.1, 0.1, 0.1, 0.1)).caveats == (PUBLIC_GRID, PUBLIC_PRIOR)
        assert noise.caveats == (PUBLIC_GRID,)


def test_the_bound_for_shuffled_messages_holds_by_enumeration():
    """Two users, both messages without their senders, every pair of neighbouring data sets."""
    noise = UnbiasedValues(1.5, (0.0, 0.5, 1.0))
    law = noise.law
    m = law.shape[1]

    def shuffled(one: int, two: int) -> np.ndarray:
        both = np.outer(law[one], law[two])
        return np.triu(both + both.T - np.diag(np.diag(both)))[np.triu_indices(m)]

    for epsilon in (0.1, 0.6, 1.2):
        worst = max(
            np.maximum(shuffled(a, other) - math.exp(epsilon) * shuffled(b, other), 0.0).sum()
            for other in range(3) for a, b in itertools.permutations(range(3), 2)
        )  # fmt: skip
        assert 0.0 < worst <= noise.shuffled(2).delta(epsilon).upper


def test_a_target_is_certified_through_the_exchange():
    found = exchanged_at(lambda local: UnbiasedValues(local, GRID), 0.5, np.array([300]), sampling_rate=1.0, delta=1e-5)
    assert found.local_epsilon > 1.0
    assert found.exchanged(300, 1.0).satisfies(0.5, 1e-5)


@pytest.mark.parametrize(("k", "epsilon"), [(65, 1.0), (3, 10.5)])
def test_what_is_too_large_is_refused(k, epsilon):
    with pytest.raises(ValueError, match=r"at most 64 values and ε of 10"):
        best_unbiased(np.linspace(0.0, 1.0, k), np.full(k, 1.0 / k), epsilon)
