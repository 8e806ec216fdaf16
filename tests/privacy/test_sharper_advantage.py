"""Advantages that are below what a pure ε allows: a resampled label, the label of a row, noisy votes."""

import math

import numpy as np
import pytest

from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.guessing_advantage import advantage, worst_advantage
from p2p_sim.privacy.rivals.centralised import ClusterResampling, resampled_delta
from p2p_sim.privacy.rivals.histograms import NoisyVotes
from p2p_sim.privacy.rivals.noisy_share import released_distribution
from p2p_sim.privacy.rivals.objective_perturbation import ObjectivePerturbation, RowLabel
from p2p_sim.privacy.stated_accountants import OnePoint
from p2p_sim.stacking.plr import draw_noise


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
@pytest.mark.parametrize("parameters", [(0.8, 2.0, 0.1), (0.95, 1.0, 0.25), (0.5, 0.7, 0.0)])
def test_shares_and_label_together_are_the_product_of_their_pairs(parameters, epsilon):
    """Summed over two Laplace variables and three outcomes."""
    lam, sigma, tau = parameters
    v, step = np.arange(-1200, 1200) * 0.02 + 0.01, 0.02
    one, zero = (0.5 * np.exp(-np.abs(v - at)) for at in (0.5 / sigma, -0.5 / sigma))
    shares = np.outer(one, zero), np.outer(zero, one)
    outcomes = np.array([[1 - lam + lam * tau, lam * tau, lam - 2 * lam * tau], [lam * tau, 1 - lam + lam * tau, 0]])
    outcomes[1, 2] = outcomes[0, 2]
    found = sum(
        np.maximum(p * shares[0] - math.exp(epsilon) * q * shares[1], 0.0).sum() * step**2
        for p, q in zip(*outcomes, strict=True)
    )
    assert resampled_delta(lam, sigma, tau, epsilon) == pytest.approx(found, rel=5e-3)


@pytest.mark.parametrize("classes", [2, 4])
def test_the_mechanism_itself_stays_below(classes):
    """Its release in bins, by simulation: noisy share of the target's label, and her own noisy label."""
    n, lam, sigma, tau, draws = 20, 0.8, 1.0, 0.1, 400_000
    rng, laws = np.random.default_rng(3), []
    for world in (0, 1):
        counts = np.full(classes, n // classes)
        counts[:2] += (-world, world)
        noise = sigma / n * rng.laplace(size=(draws, classes))
        released = released_distribution(counts / n, noise, tau)
        label = np.where(rng.random(draws) < lam * released[:, 0] + (1 - lam) * (world == 0), 0, 1)
        cell = np.minimum((20 * released[:, 0]).astype(int), 19) * 2 + label
        laws.append(np.bincount(cell, minlength=40) / draws)
    for epsilon in (0.0, 0.5, 1.5):
        found = np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0.0).sum()
        bound = resampled_delta(lam, sigma, tau, epsilon)
        assert found <= bound + 0.005
        if epsilon == 0.0:
            assert found > 0.6 * bound


def test_ends_of_the_resampled_pair():
    assert resampled_delta(1.0, math.inf, 0.1, 0.0) == pytest.approx(0.0, abs=1e-12)
    assert resampled_delta(0.0, 1.0, 0.1, 5.0) == pytest.approx(1.0)
    assert resampled_delta(0.7, math.inf, 0.2, 0.0) == pytest.approx(0.3, rel=1e-9)
    assert resampled_delta(0.5, 0.0, 0.1, 3.0) == pytest.approx(1.0)
    pure = ClusterResampling(20, 3, 0.8, 2.0, 0.1, True).pure_epsilon
    assert resampled_delta(0.8, 2.0, 0.1, pure) == pytest.approx(0.0, abs=1e-12)
    assert resampled_delta(0.8, 2.0, 0.1, 0.999 * pure) > 0.0


@pytest.mark.parametrize("released", [True, False])
@pytest.mark.parametrize("prior", [0.5, 0.2, (0.5, 0.3, 0.2)])
def test_the_advantage_of_a_curator_is_below_that_of_the_pure_epsilon(released, prior):
    curator = ClusterResampling(100, 3, 0.9, 1.0, 0.1, released, False)
    stated = PrivacyBound(0.0, curator.pure_epsilon, 0.0, "learner", "label", "pure", ())
    found, pure = advantage(curator, prior), advantage(OnePoint(stated), prior)
    assert found.lower <= found.upper < pure.upper
    assert worst_advantage(curator, 3).upper >= found.upper


def test_a_curator_whose_shares_say_nothing_has_the_advantage_of_randomised_response():
    assert advantage(ClusterResampling(100, 2, 0.7, 1.0, 0.5, True)).upper == pytest.approx(0.15, rel=1e-9)


def one_group(dimension: int, epsilon: float = 2.0) -> RowLabel:
    return RowLabel(ObjectivePerturbation(50, (1.0,), (0.1,), epsilon, (0.0,)), (dimension,))


@pytest.mark.parametrize("dimension", [1, 2, 3, 10])
def test_the_label_of_a_row_is_as_private_as_its_noise(dimension):
    """By a million draws of b: the loss is |b + z| - |b| in units of the scale."""
    law, rng = one_group(dimension), np.random.default_rng(4)
    drawn = draw_noise(dimension, law.noise.noise_scale, rng, 1_000_000)
    before = np.linalg.norm(drawn, axis=1)
    drawn[:, 0] += 1.0
    losses = (np.linalg.norm(drawn, axis=1) - before) / law.noise.noise_scale
    for epsilon in (0.0, 0.2, 0.6):
        found = float(np.maximum(-np.expm1(epsilon - losses), 0.0).mean())
        bracket = law.delta(epsilon)
        assert bracket.lower - 0.002 <= found <= bracket.upper + 0.002
    assert law.total_variation.upper == pytest.approx(law.total_variation.lower, rel=0.01)
    assert losses.max() <= law.pure_epsilon * (1.0 + 1e-9)


def test_two_groups_tell_at_most_what_both_tell():
    noise = ObjectivePerturbation(50, (0.5, 0.5), (0.1, 0.1), 3.0, (0.0, 0.0))
    law, rng, losses = RowLabel(noise, (2, 3)), np.random.default_rng(5), np.zeros(400_000)
    for dimension in (2, 3):
        drawn = draw_noise(dimension, noise.noise_scale, rng, len(losses))
        before = np.linalg.norm(drawn, axis=1)
        drawn[:, 0] += 0.5
        losses += (np.linalg.norm(drawn, axis=1) - before) / noise.noise_scale
    found = float(np.maximum(-np.expm1(-losses), 0.0).mean())
    assert 0.5 * law.delta(0.0).upper < found < law.delta(0.0).upper


def test_epsilon_and_delta_of_the_label_of_a_row_belong_together():
    law = one_group(3)
    for delta in (1e-6, 1e-3, 0.1):
        assert law.delta(law.epsilon(delta).epsilon_upper).upper == pytest.approx(delta, rel=1e-3)
    assert law.epsilon(0.9).epsilon_upper == 0.0
    assert advantage(law).upper < 0.6 * math.tanh(law.pure_epsilon / 2) / 2
    with pytest.raises(ValueError, match="needs a number for each of 1 groups"):
        RowLabel(law.noise, (1, 2))


def test_noisy_votes_have_an_exact_curve():
    votes = NoisyVotes(1.5)
    for delta in (1e-6, 0.01, 0.3):
        assert votes.delta(votes.epsilon(delta).epsilon_upper).upper == pytest.approx(delta, rel=1e-6)
    assert votes.epsilon(0.9).epsilon_upper == 0.0
    bracket = advantage(votes)
    assert bracket.lower == pytest.approx(-math.expm1(-0.75) / 2, rel=1e-9)
    assert bracket.upper == pytest.approx(bracket.lower, rel=1e-9)
    assert bracket.upper < math.tanh(0.75) / 2
