"""ALIBI (Malek Esmaeili et al. 2021): Laplace noise on the one-hot label, then Bayes' rule.

Changing the label moves the one-hot vector by 2 in L1 norm. So noise of scale b costs ε = 2/b. Let o be the noisy
vector. The soft label is the posterior of the label, and a post-processing of o. For each of the K classes c, |o_c| -
|o_c - 1| = 2 clip(o_c, 0, 1) - 1. So the posterior of c under the prior π is proportional to π_c e^{ε clip(o_c, 0, 1)}.
This takes O(K) operations for each label; the vector approximation paper counts O(K²). All this is for real numbers:
the bounds say nothing about floating-point noise.
"""

import math

import numpy as np
from numpy.typing import NDArray

from p2p_sim.privacy.bound import Bracket, check_epsilon, check_positive_epsilon
from p2p_sim.privacy.randomized_response import outward

Floats = NDArray[np.floating]
_STEPS = 20_000
"""Number of intervals of [0, 1] in the upper sum of `laplace_advantage`."""


def laplace_epsilon(noise_scale: float) -> float:
    """The pure ε = 2/b of one noisy one-hot vector, rounded up.

    Args:
        noise_scale: b, above 0, the scale of the Laplace noise on each of the K entries.
    """
    if not noise_scale > 0.0:
        raise ValueError(f"noise_scale = {noise_scale}: must be above 0")
    return math.nextafter(2.0 / noise_scale, math.inf)


def noise_scale_of(epsilon: float) -> float:
    """The smallest scale b at which the noisy vector is ε-private: 2/ε, rounded up.

    Args:
        epsilon: ε, above 0 and finite.
    """
    check_positive_epsilon(epsilon)
    scale = 2.0 / epsilon
    while laplace_epsilon(scale) > epsilon:
        scale = math.nextafter(scale, math.inf)
    return scale


def laplace_variation(noise_scale: float) -> float:
    """δ(0) of one noisy vector, the total variation of its laws under two labels: 1 - e^{-1/b} (1 + 1/(2b)).

    >>> round(laplace_variation(2.0), 6)
    0.241837

    Args:
        noise_scale: b, above 0.
    """
    return _variation(1.0 / noise_scale)


def soft_labels(noisy: Floats, prior: Floats, noise_scale: float) -> Floats:
    """Posterior probabilities (..., K) of the K labels given noisy vectors (..., K).

    >>> soft_labels(np.array([2.0, -1.0]), np.array([0.5, 0.5]), 2.0 / math.log(9.0)).round(12).tolist()
    [0.9, 0.1]

    Args:
        noisy: finite numbers; the result has their floating-point type.
        prior: probabilities of the labels along the last axis, broadcast to the shape of `noisy`.
        noise_scale: b, above 0.
    """
    # Softmax of ε clip(o, 0, 1), times the prior. The largest entry is subtracted first, so that no exponential
    # overflows.
    weights = np.clip(noisy, 0.0, 1.0)
    weights -= weights.max(axis=-1, keepdims=True)
    weights *= 2.0 / noise_scale
    np.exp(weights, out=weights)
    weights *= prior
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


def laplace_advantage(noise_scale: float, num_classes: int) -> float:
    """Upper bound of an observer's advantage in guessing a label from its noisy vector, if labels are equally likely.

    The advantage is Pr[right] - 1/K. The best guess is the class with the largest entry. Let c be this entry, cut to
    [0, 1]. The density of a vector under the guessed label is e^((2c-1)/b) times its density under pure noise. Let F(x)
    = 1 - e^(-x/b)/2. Under pure noise, c has the distribution function F(x)^K for x below 1. Let E be the expectation
    under pure noise. Then K Pr[right] = E e^((2c-1)/b) = e^(1/b) - ∫ (2/b) e^((2x-1)/b) F(x)^K dx over [0, 1]. The
    integrand grows with x. So its values at the left ends of intervals give an upper bound.

    Args:
        noise_scale: b, above 0; num_classes: K, at least 2.
    """
    if noise_scale < 1e-2:  # the guess is nearly always right, and e^(1/b) could overflow
        return 1.0 - 1.0 / num_classes
    # K Pr[right] by the upper sum. ε alone bounds it as well.
    x = np.linspace(0.0, 1.0, _STEPS, endpoint=False)
    inside = np.exp((2.0 * x - 1.0) / noise_scale) * (1.0 - np.exp(-x / noise_scale) / 2.0) ** num_classes
    right = math.exp(1.0 / noise_scale) - 2.0 / noise_scale * float(inside.mean())
    pure = num_classes / (1.0 + (num_classes - 1) * math.exp(-laplace_epsilon(noise_scale)))
    return (min(right * (1.0 + 1e-12), pure) - 1.0) / num_classes * (1.0 + 1e-12)


def laplace_delta(noise_scale: float, epsilon: float) -> Bracket:
    """δ(ε) of one noisy vector, exact to rounding: 1 - e^{-s} (1 + s/2) with s = 1/b - ε/2; 0 from ε = 2/b on.

    The vector is the one-hot vector of a label plus Laplace noise of scale b on each entry. Between two labels only two
    entries differ. Each differs by 1, which is 1/b scales of the noise. δ(ε) grows with s. Only the rounding of 2/b - ε
    affects s.

    >>> round(laplace_delta(2.0, 0.0).upper, 6), laplace_delta(2.0, 1.0).upper < 1e-15
    (0.241837, True)

    Args:
        noise_scale: b, above 0; epsilon: ε, at least 0.
    """
    check_epsilon(epsilon)
    most = laplace_epsilon(noise_scale)
    if epsilon >= most:
        return Bracket(0.0, 0.0)
    upper = _variation(math.nextafter(most - epsilon, math.inf) / 2.0)
    lower = _variation(max(0.0, most * (1.0 - 2.0**-50) - epsilon) / 2.0)
    return outward(lower * (1.0 - 2.0**-48), upper * (1.0 + 2.0**-48))


def _variation(shift: float) -> float:
    """The total variation 1 - e^{-s} (1 + s/2) of two entries with Laplace noise if each moves by s scales of the
    noise.

    s = `shift` is at least 0. If each entry moves by m scales, δ(ε) is this function at s = m - ε/2. The error is at
    most 10 rounding errors, because subtracting (s/2) e^{-s} cancels at most half of 1 - e^{-s}.
    """
    return 1.0 if shift > 1e3 else -math.expm1(-shift) - shift / 2.0 * math.exp(-shift)
