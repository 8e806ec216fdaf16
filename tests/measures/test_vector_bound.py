"""Theorem 2 of the vector approximation paper, point by point."""

import math

import numpy as np
import pytest

from p2p_sim.measures import vector_bound
from p2p_sim.measures.vector_bound import theorem_2
from p2p_sim.privacy.rivals.vector_approximation import bit_flip_prob_of, vector_law


def cases(classes: int, count: int = 4_000) -> tuple[np.ndarray, np.ndarray, float]:
    """Label distributions of all shapes, and what might have been learned of their bits: near, far and tied."""
    rng = np.random.default_rng(classes)
    epsilon = float(rng.choice([0.1, 0.5, 1.0, 2.0, 6.0]))
    truth = rng.dirichlet(np.full(classes, 0.7), count)
    flip = bit_flip_prob_of(epsilon)
    error = rng.normal(size=truth.shape) * rng.choice([0.003, 0.03, 0.3], (count, 1))
    return flip + (1.0 - 2.0 * flip) * truth + error, truth, epsilon


@pytest.mark.parametrize("classes", [2, 3, 5, 12])
def test_the_bound_holds_at_every_point(classes):
    found = theorem_2(*cases(classes))
    assert (found.excess >= 0).all()
    assert (found.excess <= found.bound + 1e-12).all()
    assert np.count_nonzero(found.excess) > 50
    assert np.count_nonzero(found.bound == 0) > 5


@pytest.mark.parametrize("planted", ["a bit has all of epsilon", "half of the error"])
def test_a_smaller_bound_is_refuted(monkeypatch, planted):
    tanh = math.tanh
    wrong = {"a bit has all of epsilon": lambda x: tanh(2 * x), "half of the error": lambda x: 2 * tanh(x)}[planted]
    monkeypatch.setattr(vector_bound.math, "tanh", wrong)
    refuted = [np.any((found := theorem_2(*cases(k))).excess > found.bound + 1e-12) for k in (2, 3, 5, 12)]
    assert any(refuted)


def test_it_is_met_where_two_classes_tie():
    epsilon, truth = 1.0, np.array([[0.45, 0.55], [0.3, 0.7]])
    flip = bit_flip_prob_of(epsilon)
    bits = flip + (1.0 - 2.0 * flip) * truth
    learned = np.repeat(bits.mean(axis=1, keepdims=True), 2, axis=1)  # both bits off by the same; the wrong class leads
    found = theorem_2(learned, truth, epsilon)
    assert found.excess == pytest.approx([0.1, 0.4])
    assert found.bound == pytest.approx(found.excess)


def test_the_bits_are_those_of_the_exact_law():
    classes, epsilon = 4, 1.3
    truth = np.array([[0.1, 0.2, 0.3, 0.4]])
    law = truth @ vector_law(bit_flip_prob_of(epsilon), classes)
    bits = np.array([[law[0, [z for z in range(2**classes) if z >> j & 1]].sum() for j in range(classes)]])
    assert theorem_2(bits, truth, epsilon).error == pytest.approx([0.0], abs=1e-12)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="K at least 2"):
        theorem_2(np.zeros((3, 1)), np.zeros((3, 1)), 1.0)
    with pytest.raises(ValueError, match="label_distribution"):
        theorem_2(np.zeros((3, 2)), np.zeros((2, 2)), 1.0)
