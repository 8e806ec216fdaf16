"""The centralised mechanism: its matrices, its noisy distributions, its sampler, its parameters."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta as beta_law

import p2p_sim
from p2p_sim.base.errors import InputError
from p2p_sim.cli.printing.run_summary import reservations
from p2p_sim.exchange.randomizer import signed_weights
from p2p_sim.measures.rehearsal import best_choice, candidates, corollary2, rehearse, split_budget, uniform
from p2p_sim.measures.summary import summarise
from p2p_sim.mechanisms.cluster_rr import ClusterResponse, ClusterRRConfig, released_distributions
from p2p_sim.mechanisms.deployment import Setup
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.privacy.claims.clustering_matrices import randomisation_matrix
from p2p_sim.privacy.rivals.centralised import ClusterResampling
from p2p_sim.privacy.rivals.noisy_share import released_distribution
from p2p_sim.scenario import Scenario

FALSE_ALARM = 1e-9


def honest_epsilon(choice):
    lam, tau = choice.resampling_prob, choice.threshold
    labels = 0.0 if lam == 1.0 else math.log1p((1.0 - lam) / (lam * tau))
    return 2.0 / choice.noise_scale + labels


@pytest.mark.parametrize("classes", [2, 3, 10, 50])
@pytest.mark.parametrize("beta", [0.0, 0.3, 0.9])
def test_signed_weights_are_columns_of_the_inverse_and_unbias_the_loss(classes, beta):
    rng = np.random.default_rng(classes)
    for concentration in (0.1, 1.0, 10.0):
        q = rng.dirichlet(np.full(classes, concentration))
        matrix = randomisation_matrix(q, beta)
        weights = signed_weights(np.arange(classes), q, beta)  # row y: column y of the inverse
        assert np.abs(weights.T - np.linalg.inv(matrix)).max() < 1e-12
        losses = rng.uniform(size=classes)
        modified = weights @ losses  # of each noisy label
        assert np.abs(matrix.T @ modified - losses).max() < 1e-12  # its mean over noisy labels, for each true one
        if beta > 0:  # the transposed inverse, invisible for uniform q, is caught
            assert np.abs(matrix.T @ (weights.T @ losses) - losses).max() > 1e-3 * beta / classes**2


@pytest.mark.parametrize("beta", [-0.1, 1.0, 1.5])
def test_no_weights_undo_all_of_the_labels_or_less_than_nothing(beta):
    with pytest.raises(InputError, match=r"^bias_correction = .*: must be at least 0 and below 1$"):
        signed_weights(np.array([0]), np.array([0.5, 0.5]), beta)


def test_released_distributions_keep_to_theorem_6_in_ten_thousand_cases():
    rng = np.random.default_rng(6)
    for classes in (2, 3, 10, 50):
        for tau in (0.0, 0.3 / classes, 0.999 / classes, 1.0 / classes):
            counts = rng.multinomial(37, rng.dirichlet(np.full(classes, 0.3), size=700))
            for scale in (0.1, 40.0, math.inf):
                q = released_distributions(counts, tau, scale, rng)
                assert q.min() >= tau
                assert q.max() <= 1.0
                assert np.abs(q.sum(axis=1) - 1.0).max() < 1e-12
    assert released_distribution(np.full((1, 3), 1.0 / 3.0), np.zeros((1, 3)), 1.0 / 3.0).tolist() == [
        [1 / 3] * 3
    ]  # 0/0 as printed


def test_infinite_noise_at_threshold_one_kth_is_uniform():
    counts = np.array([[50, 0, 0], [10, 20, 30]])
    assert np.abs(released_distributions(counts, 1 / 3, math.inf, np.random.default_rng(1)) - 1 / 3).max() < 1e-15


class FromEmpirical(ClusterResponse):
    """Planted bug: resamples from the true shares instead of the noisy ones."""

    def draw(self, labels, offsets, rng_noise, rng_labels):
        exact = ClusterResponse(self.resampling_prob, 1e-9, self.threshold, 0.0, self.num_classes)
        noisy, _ = exact.draw(labels, offsets, rng_noise, rng_labels)
        again = self.num_classes, self.threshold, self.noise_scale
        counts = np.bincount(labels, minlength=again[0])[None, :]
        return noisy, released_distributions(counts, again[1], again[2], rng_noise)


def sampler_fits(kind):
    """Whether noisy labels follow (1-λ) 1 + λ q̃ given q̃, class by class (false alarm 1e-9); sees a shift of 0.02."""
    n = 60_000
    labels = np.repeat(np.arange(3, dtype=np.uint8), [n // 2, n // 3, n // 6])
    response = kind(0.7, 6_000.0, 0.05, 0.0, 3)
    noisy, q = response.draw(labels, np.array([0, n]), np.random.default_rng(3), np.random.default_rng(4))
    for own in range(3):
        mine = noisy[labels == own]
        for other in range(3):
            expected = 0.3 * (own == other) + 0.7 * q[0, other]
            hits, tail = int((mine == other).sum()), FALSE_ALARM / 18
            low = beta_law.ppf(tail, hits, mine.size - hits + 1) if hits else 0.0
            high = beta_law.isf(tail, hits + 1, mine.size - hits) if hits < mine.size else 1.0
            if not low <= expected <= high:
                return False
    return True


def test_noisy_labels_follow_the_released_distribution():
    assert sampler_fits(ClusterResponse)
    assert not sampler_fits(FromEmpirical)


def test_uniform_split_is_randomised_response():
    for classes in (2, 10):
        choice = uniform(1.0, classes)
        q = released_distributions(np.eye(classes, dtype=int)[:1] * 9, choice.threshold, choice.noise_scale,
                                   np.random.default_rng(0))  # fmt: skip
        flip = choice.resampling_prob * (1.0 - q[0, 0])
        assert RandomizedResponse(flip, classes).local_epsilon == pytest.approx(1.0, rel=1e-8)


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_every_candidate_spends_epsilon_in_full_and_no_more(classes, epsilon):
    for choice in candidates(epsilon, classes):
        assert choice.threshold <= 1.0 / classes
        assert epsilon * (1.0 - 1e-8) < honest_epsilon(choice) <= epsilon
    printed = corollary2(epsilon, 0.05)
    assert honest_epsilon(printed) == pytest.approx(3.0 * epsilon)
    assert honest_epsilon(split_budget(epsilon, 0.5, 0.0)) <= epsilon


def test_rehearsal_prefers_clusters_where_they_are_pure_and_randomised_response_where_not():
    assert best_choice(0.5, 2, 1000, 4, 0.0).resampling_prob > 0.9
    assert best_choice(0.5, 2, 1000, 4, 0.4) == uniform(0.5, 2)
    risks = rehearse([uniform(0.5, 2), split_budget(0.5, 1.0, 0.0)], 2, 1000, 4, 0.0).mean(axis=1)
    assert risks[1] < 0.2 * risks[0]


def tree(**mechanism):
    return {
        "name": "t",
        "population": {"kind": "synthetic", "users": 400, "num_clusters": 4},
        "mechanism": {"kind": "cluster_rr", **mechanism},
        "learner": {"kind": "table"},
    }


@pytest.mark.parametrize(
    ("mechanism", "text"),
    [
        ({"resampling_prob": 1.0, "threshold": 0.1, "bias_correction": 1.0}, "mechanism.bias_correction = 1.0: .*less"),
        ({"resampling_prob": 0.5, "threshold": 0.6}, "mechanism.threshold = 0.6: .*less than or equal to 0.5"),
        ({"target_epsilon": 1.0, "threshold": 0.2}, "mechanism.*give either target_epsilon or threshold"),
        ({"target_epsilon": 1.0}, "mechanism.*'optimised' needs heterogeneity"),
        ({"target_epsilon": 1.0, "oracle": True, "heterogeneity": 0.1}, "either heterogeneity"),
        ({"target_epsilon": 1.0, "split": "uniform", "bias_correction": 0.1}, "leave it out"),
        ({"resampling_prob": 0.5}, "threshold is missing"),
        ({"resampling_prob": 0.0, "threshold": 0.1, "noise_scale": 0.0}, "mechanism.noise_scale = 0.0: .*greater"),
    ],
)
def test_bad_parameters_get_one_line(mechanism, text):
    with pytest.raises(InputError, match=text) as caught:
        Scenario.from_tree(tree(**mechanism))
    assert "\n" not in str(caught.value)


def test_a_threshold_above_one_kth_and_labels_out_of_range_get_one_line():
    config = Scenario.from_tree(tree(resampling_prob=0.5, threshold=0.4)).mechanism
    with pytest.raises(InputError, match=r"mechanism.threshold = 0.4: must be at most 1/K = 0.1 for 10 classes"):
        config.deployed(Setup(np.array([40]), 10, 1e-5))
    with pytest.raises(InputError, match="has 1 class"):
        config.deployed(Setup(np.array([40]), 1, 1e-5))
    with pytest.raises(InputError, match=r"labels: must lie in 0..1, found 0 to 3"):
        config.deployed(Setup(np.array([3]), 2, 1e-5)).response.draw(
            np.array([0, 3, 1], dtype=np.uint8), np.array([0, 3]), np.random.default_rng(0), np.random.default_rng(0)
        )


def test_a_cluster_of_one_class_is_treated_like_any_other():
    """To refuse it would tell everybody's label."""
    response = ClusterResponse(1.0, 4.0, 0.05, 0.0, 2)
    labels = np.zeros(50_000, dtype=np.uint8)
    noisy, q = response.draw(labels, np.array([0, 50_000]), np.random.default_rng(0), np.random.default_rng(1))
    assert q[0].tolist() == pytest.approx([0.95, 0.05])
    assert 0.03 < noisy.mean() < 0.07


def lower_is_sound(mechanism):
    """Whether "no smaller ε holds" stays below what is certified for the labels alone, 200 users."""
    certified = ClusterResampling(200, 2, 0.9, 1.0, 0.1, released=False).epsilon(1e-5).epsilon_upper
    [stated] = mechanism.privacy(np.array([200]), 1e-5)
    return stated.epsilon_lower <= certified <= stated.epsilon_upper


class AsIfReleased(ClusterRRConfig):
    """Planted bug: takes the noisy distributions for released."""

    def accountant(self, setup, size):
        return ClusterResampling(size, 2, 0.9, 1.0, 0.1, released=True)


def curator(kind=ClusterRRConfig, **parameters):
    return kind(**parameters).deployed(Setup(np.array([200]), 2, 1e-5))


def test_nothing_is_said_to_be_attained_by_distributions_that_stay_with_the_curator():
    parameters = {"resampling_prob": 0.9, "noise_scale": 1.0, "threshold": 0.1}
    assert lower_is_sound(curator(**parameters))
    assert lower_is_sound(curator(**parameters, approximate=True))
    assert not lower_is_sound(curator(AsIfReleased, **parameters))


def test_uniform_resampling_is_exact_without_the_distributions():
    [found] = curator(resampling_prob=0.5, noise_scale=1.0, threshold=0.5).privacy(np.array([200]), 1e-9)
    assert found.epsilon_lower == pytest.approx(np.log(3.0), rel=1e-6)
    assert found.epsilon_upper == pytest.approx(np.log(3.0), rel=1e-12)


def test_approximate_accounting_meets_its_target_in_the_smallest_cluster_too():
    """And adds less noise than the pure ε asks for; a control: parameters that large clusters alone would get."""
    scenario = Scenario.from_tree(tree(target_epsilon=1.0, heterogeneity=0.0, split="half", approximate=True))
    sizes = np.array([12, 100])

    def reached(build_for):
        built = scenario.mechanism.deployed(Setup(np.array(build_for), 2, 1e-5))
        return max(bound.epsilon_upper for bound in built.privacy(sizes, 1e-5))

    assert reached([12, 100]) <= 1.0 < reached([100])


@pytest.mark.parametrize("guess", [{"oracle": True}, {"heterogeneity": 0.1}])
def test_an_oracle_is_named_beside_epsilon(guess):
    scenario = Scenario.from_tree(tree(target_epsilon=1.0, split="half", **guess))
    rows = pd.DataFrame([p2p_sim.run(scenario).row])
    told = "oracle" in guess
    assert ("told φ by an oracle, which ε does not account for" in " ".join(reservations(rows))) is told
    assert summarise(rows)["oracle"] is told
