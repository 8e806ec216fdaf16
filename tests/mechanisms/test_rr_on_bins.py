"""RR-on-Bins. Statistical tests have a false-alarm rate of 1e-9 and a control that must fail."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import chi2

from p2p_sim.base.errors import InputError
from p2p_sim.mechanisms.label_values import RrOnBins, prior_of
from p2p_sim.mechanisms.message_payloads import exchanged_at
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.privacy.conditions import PUBLIC_PRIOR
from p2p_sim.privacy.exchange.kary import KaryExchange
from p2p_sim.privacy.randomized_response import law_delta, law_epsilon
from p2p_sim.privacy.rivals.rr_on_bins import best_bins, bins_law
from p2p_sim.privacy.rivals.shuffled_messages import ShuffledMessages
from p2p_sim.privacy.where_bounds_hold import Situation, first_failure

FALSE_ALARM = 1e-9
LOSSES = {"squared": lambda o, y: (o - y) ** 2, "absolute": lambda o, y: abs(o - y)}


def cases(k: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(k)
    grids = [np.linspace(0.0, 1.0, k), np.sort(rng.normal(100.0, 30.0, k))]
    masses = [np.full(k, 1.0 / k), rng.dirichlet(np.full(k, 0.5)), np.eye(k)[k // 2]]
    return list(itertools.product(grids, masses))


def expected_loss(values, prior, outputs, law, loss) -> float:
    """By the definition: every label, every output."""
    return sum(
        prior[i] * law[i, j] * LOSSES[loss](outputs[j], values[i])
        for i in range(len(values)) for j in range(len(outputs))
    )  # fmt: skip


def best_output(values, weights, loss) -> float:
    """The output value with the smallest weighted loss, by looking at all candidates."""
    if loss == "squared":
        return float(weights @ values / weights.sum())
    return min((float(v) for v in values), key=lambda o: float(weights @ np.abs(values - o)))


def over_all_sets(values, prior, epsilon, loss) -> float:
    """The smallest expected loss of any ε-private randomizer: a linear programme over what tells a set of labels."""
    k, growth = len(values), math.expm1(epsilon)
    columns, costs = [], []
    for told in itertools.product([0.0, 1.0], repeat=k):
        column = 1.0 + growth * np.array(told)
        weights = prior * column
        output = best_output(values, weights, loss)
        columns.append(column)
        costs.append(sum(w * LOSSES[loss](output, y) for w, y in zip(weights, values, strict=True)))
    scale = math.exp(epsilon)
    found = linprog(np.array(costs) / scale, A_eq=np.array(columns).T / scale, b_eq=np.ones(k), method="highs")
    return float(found.fun)


@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
@pytest.mark.parametrize("k", [2, 3, 5, 7])
def test_no_private_randomizer_has_a_smaller_expected_loss(k, epsilon, loss):
    for values, prior in cases(k):
        found = best_bins(values, prior, epsilon, loss)
        best = over_all_sets(values, prior, epsilon, loss)
        scale = max(LOSSES[loss](values[0], values[-1]), 1e-9)
        assert found.expected_loss == pytest.approx(best, rel=1e-7, abs=1e-8 * scale)
        law = bins_law(found.bin_of, len(found), epsilon)
        stated = expected_loss(values, prior, found.outputs, law, loss)
        assert stated == pytest.approx(found.expected_loss, rel=1e-9, abs=1e-9 * scale)


@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_no_partition_into_intervals_is_better(epsilon, loss):
    k = 6
    for values, prior in cases(k):
        losses = []
        for cuts in itertools.product([0, 1], repeat=k - 1):
            bin_of = np.concatenate([[0], np.cumsum(cuts)])
            if (bins := int(bin_of[-1]) + 1) < 2:
                continue
            law = bins_law(bin_of, bins, epsilon)
            outputs = [best_output(values, prior * law[:, j], loss) for j in range(bins)]
            losses.append(expected_loss(values, prior, outputs, law, loss))
        assert best_bins(values, prior, epsilon, loss).expected_loss == pytest.approx(min(losses), rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("k", [2, 5, 40, 256])
def test_epsilon_is_that_of_the_table(k, epsilon):
    values = tuple(np.linspace(-3.0, 3.0, k).tolist())
    noise = RrOnBins(epsilon, values)
    assert law_epsilon(noise.law) <= noise.local_epsilon <= epsilon
    assert law_epsilon(noise.law) == pytest.approx(epsilon, rel=1e-9)
    assert noise.total_variation == pytest.approx(law_delta(noise.law, 0.0), rel=1e-9)
    assert list(noise.bins.bin_of) == sorted(noise.bins.bin_of)
    assert noise.payload_bits == math.ceil(math.log2(len(noise.outputs)))


@pytest.mark.parametrize("loss", list(LOSSES))
def test_tiny_masses_at_a_large_epsilon_leave_outputs_in_the_range(loss):
    prior = np.array([0.5, 1e-20, 0.5, 1e-30, 0.0, 1e-18])
    found = best_bins(np.arange(6.0), prior / prior.sum(), 60.0, loss)
    assert min(found.outputs) >= 0.0
    assert max(found.outputs) <= 5.0
    law = bins_law(found.bin_of, len(found), 60.0)
    stated = expected_loss(np.arange(6.0), prior, found.outputs, law, loss)
    assert stated == pytest.approx(found.expected_loss, abs=1e-15)


def test_more_epsilon_gives_more_bins_and_less_loss():
    values, prior = np.linspace(0.0, 1.0, 32), np.full(32, 1 / 32)
    found = [best_bins(values, prior, epsilon) for epsilon in (0.1, 1.0, 3.0, 6.0, 12.0)]
    assert [len(bins) for bins in found] == sorted(len(bins) for bins in found)
    assert len(found[0]) == 2
    assert len(found[-1]) == 32
    assert sorted((bins.expected_loss for bins in found), reverse=True) == [bins.expected_loss for bins in found]


# -- planted errors --------------------------------------------------------------------------------------------------


def test_a_wrong_normaliser_is_caught_by_the_enumeration():
    """e^ε/(e^ε+b) for the label's own bin leaves mass over: rows do not sum to one; given to it, ε is too large."""
    epsilon, bin_of = 1.0, (0, 0, 1, 2)
    right = bins_law(bin_of, 3, epsilon)
    assert law_epsilon(right) <= epsilon
    short = np.where(right > 0.4, math.e / (math.e + 3.0), 1.0 / (math.e + 3.0))
    with pytest.raises(ValueError, match="rows sum to one"):
        law_epsilon(short)
    filled = short + (1.0 - short.sum(axis=1, keepdims=True)) * (right > 0.4)
    assert law_epsilon(filled) > epsilon + 0.2


def test_the_other_bin_count_in_the_normaliser_is_caught():
    """α of b-1 classes among b bins is too small."""
    epsilon = 1.0
    alpha = RrOnBins(epsilon, (0.0, 1.0)).noise.flip_prob  # two bins
    law = np.full((3, 3), alpha / 2)
    np.fill_diagonal(law, 1.0 - alpha)
    assert law_epsilon(law) > epsilon + 0.5


def joint_law(labels: tuple[int, ...], prior_from, epsilon: float) -> dict[tuple, float]:
    """The law of everything that three users send, if the prior is a function of all labels."""
    values = (0.0, 1.0, 5.0)
    noise = RrOnBins(epsilon, values, prior_from(labels))
    law, outputs = noise.law, np.round(noise.outputs, 9)
    found: dict[tuple, float] = {}
    for sent in itertools.product(range(len(outputs)), repeat=len(labels)):
        seen = tuple(float(outputs[o]) for o in sent)
        found[seen] = found.get(seen, 0.0) + math.prod(law[y, o] for y, o in zip(labels, sent, strict=True))
    return found


def largest_ratio(prior_from, epsilon: float) -> float:
    worst = 0.0
    for labels in itertools.product(range(3), repeat=3):
        for other in range(3):
            one, two = (joint_law(x, prior_from, epsilon) for x in (labels, (other, *labels[1:])))
            worst = max([worst, *(math.log(p / two[seen]) if two.get(seen) else math.inf for seen, p in one.items())])
    return worst


def test_bins_chosen_on_the_data_without_payment_are_caught():
    """Outputs of three users, enumerated: a prior from their own labels gives labels away; a public one does not."""
    epsilon = 1.0
    assert largest_ratio(lambda labels: (0.5, 0.3, 0.2), epsilon) <= epsilon * (1 + 1e-12)
    leaky = largest_ratio(lambda labels: tuple(np.bincount(labels, minlength=3) / len(labels)), epsilon)
    assert math.isinf(leaky)


def test_a_prior_that_other_users_paid_for_is_within_epsilon():
    """One user makes the prior by randomised response, another one sends a bin: the pair costs the larger ε."""
    epsilon, values = 1.0, (0.0, 1.0, 5.0)
    first = RandomizedResponse(2.0 / (2.0 + math.exp(epsilon)), 3)
    told = np.full((3, 3), first.flip_prob / 2)
    np.fill_diagonal(told, 1.0 - first.flip_prob)
    rows = []
    for one, two in itertools.product(range(3), repeat=2):
        row = []
        for noisy in range(3):
            second = RrOnBins(epsilon, values, prior_of(np.array([noisy]), first))
            padded = np.zeros(3)
            padded[: len(second.outputs)] = second.law[two]
            row += (told[one, noisy] * padded).tolist()
        rows.append(((one, two), np.array(row)))
    for ((a, b), p), ((c, d), q) in itertools.permutations(rows, 2):
        if (a == c) != (b == d):
            seen = (p > 0) | (q > 0)
            assert np.log(p[seen] / q[seen]).max() <= epsilon * (1 + 1e-9)
    both = [np.log(p[p > 0] / q[p > 0]).max() for (x, p), (y, q) in itertools.permutations(rows, 2) if x[0] != y[0]]
    assert max(both) > 1.5 * epsilon  # the control: a user in both halves would pay twice


# -- the sampler and the exchange ------------------------------------------------------------------------------------


def p_value(payload: np.ndarray, labels: np.ndarray, law: np.ndarray) -> float:
    k, m = law.shape
    counts = np.bincount(labels.astype(np.intp) * m + payload, minlength=k * m)
    expected = (law * np.bincount(labels, minlength=k)[:, None]).ravel()
    assert expected.min() >= 20
    return float(chi2.sf(np.sum((counts - expected) ** 2 / expected), expected.size - k))


def test_the_sampler_follows_the_table():
    """Detects a wrong bin, or a noise that is off by five percent: the control."""
    values = tuple(np.linspace(0.0, 1.0, 8).tolist())
    labels = np.random.default_rng(1).integers(0, 8, 200_000).astype(np.uint8)
    noise = RrOnBins(2.0, values)
    payload = noise.randomize(labels, np.random.default_rng(2))
    assert p_value(payload, labels, noise.law) > FALSE_ALARM
    louder = RrOnBins(2.0 * 1.05, values)
    assert len(louder.outputs) == len(noise.outputs)
    assert p_value(payload, labels, louder.law) < FALSE_ALARM
    assert np.array_equal(noise.values_of(payload), noise.outputs[payload])


def test_debiased_values_have_the_mean_of_the_label_s_bin():
    noise = RrOnBins(1.5, (0.0, 1.0, 2.0, 8.0, 9.0), (0.1, 0.2, 0.3, 0.3, 0.1))
    weights = noise.debiased(np.arange(len(noise.outputs)))
    means = noise.law @ weights
    bins = np.array(noise.bins.bin_of)
    for label, mean in enumerate(means):
        alike = bins == bins[label]
        expected = np.average(np.array(noise.values)[alike], weights=np.array(noise.common_prior)[alike])
        assert mean == pytest.approx(expected)
    assert not np.allclose(noise.law @ noise.outputs, means)  # what is sent is drawn towards the middle


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_the_exchange_has_the_bounds_of_flipped_labels_and_the_prior_s_condition(epsilon):
    values = tuple(np.linspace(0.0, 1.0, 16).tolist())
    public = RrOnBins(epsilon, values, tuple([1 / 16] * 16))
    accountant = public.exchanged(300, 0.5)
    assert PUBLIC_PRIOR in accountant.conditions
    assert PUBLIC_PRIOR in accountant.epsilon(1e-6).conditions
    assert PUBLIC_PRIOR not in RrOnBins(epsilon, values).exchanged(300, 0.5).conditions
    bins = len(public.outputs)
    if bins > 2:
        assert accountant.delta(0.3) == KaryExchange(300, public.noise.flip_prob, 0.5, bins).delta(0.3)
    anything = ShuffledMessages(300, public.local_epsilon, public.total_variation, sampling_rate=0.5)
    assert accountant.epsilon(1e-6).epsilon_upper <= anything.epsilon(1e-6).epsilon_upper * (1 + 1e-6)
    assert first_failure(accountant.requires, Situation(num_classes=16, message="bin")) is None
    assert (
        first_failure(accountant.requires, Situation(num_classes=16, message="bin", faults=("network.loss",)))
        is not None
    )
    assert public.alone(0.1).upper >= law_delta(public.law, 0.1) * (1 - 1e-12)


def test_the_bound_in_a_tiny_cluster_holds_by_enumeration():
    """Three users, all messages without their senders, every pair of neighbouring data sets."""
    noise = RrOnBins(1.2, (0.0, 1.0, 4.0))
    law = noise.law
    m = law.shape[1]

    def shuffled(labels: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        found: dict[tuple[int, ...], float] = {}
        for sent in itertools.product(range(m), repeat=3):
            seen = tuple(sorted(sent))
            found[seen] = found.get(seen, 0.0) + math.prod(law[y, o] for y, o in zip(labels, sent, strict=True))
        return found

    for epsilon in (0.1, 0.5, 1.0):
        worst = 0.0
        for others in itertools.product(range(3), repeat=2):
            for one, two in itertools.permutations(range(3), 2):
                p, q = shuffled((one, *others)), shuffled((two, *others))
                worst = max(worst, sum(max(0.0, p[s] - math.exp(epsilon) * q[s]) for s in p))
        assert worst <= noise.shuffled(3).delta(epsilon).upper
        assert noise.exchanged(3, 1.0).delta(epsilon).upper <= noise.shuffled(3).delta(epsilon).upper + 1e-12
        assert worst > 0.0


def test_the_largest_local_epsilon_that_certifies_a_target():
    values, sizes = tuple(np.linspace(0.0, 1.0, 8).tolist()), np.array([200, 300])
    found = exchanged_at(lambda local: RrOnBins(local, values), 0.5, sizes, sampling_rate=1.0, delta=1e-5)
    assert 0.5 < found.local_epsilon < 10.0
    assert found.exchanged(200, 1.0).satisfies(0.5, 1e-5)
    assert not RrOnBins(found.target_epsilon * 1.05, values).exchanged(200, 1.0).satisfies(0.5, 1e-5)


@pytest.mark.parametrize(
    ("values", "prior", "says"),
    [
        ([1.0], [1.0], "values: must be 2 to 256"), ([1.0, 1.0], [0.5, 0.5], "values: must increase"),
        ([0.0, 1.0], [0.5, 0.6], "prior: must be 2 probabilities"), ([0.0, 1.0], [1.0], "prior: must be 2 prob"),
        ([0.0, math.inf], [0.5, 0.5], "finite numbers"),
    ],
)  # fmt: skip
def test_bad_grids_are_refused(values, prior, says):
    with pytest.raises(ValueError, match=says):
        best_bins(np.array(values), np.array(prior), 1.0)


def test_bad_labels_and_epsilons_are_refused():
    with pytest.raises(ValueError, match="epsilon = 0"):
        best_bins(np.array([0.0, 1.0]), np.array([0.5, 0.5]), 0.0)
    with pytest.raises(InputError, match=r"labels: must lie in 0\.\.1"):
        RrOnBins(1.0, (0.0, 1.0)).randomize(np.array([2], dtype=np.uint8), np.random.default_rng(0))
