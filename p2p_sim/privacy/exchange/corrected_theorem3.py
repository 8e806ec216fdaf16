"""A corrected Theorem 3: a flip probability, in closed form, that suffices for a target (ε, δ)."""

import math

from p2p_sim.privacy.bound import plain_arguments


@plain_arguments
def sufficient_flip_prob(cluster_size: int, sampling_rate: float, epsilon: float, delta: float) -> float:
    """A flip probability α* such that the exchange is (ε, δ)-label-private against the learner for all α in [α*, 1/2]
    and all labels.

    It is an explicit formula, which is above the smallest such α. With s = ln(1 + ε/θ), Γ = (θ+ε)s - ε, which comes
    from the random choice of peers, η = ε - 1 + e^-ε, which comes from the flips, Λ = ln(1/δ) + Γ + 2ε and q = αe^ε,
    the first condition is

    q ((1-q) Γ + e^(-sq) η) >= Λ/n,

    which α = (2Λ/n) e^-ε / (A + sqrt(A² - 4BΛ/n)), A = Γ + η, B = Γ + sη, solves. To leading order in ε this α is 2
    ln(1/δ) θ / ((1+θ) n ε²), as in the Gaussian limit. There are further conditions for data sets in which both labels
    are frequent, and for the other direction of δ; they stand in `docs/theorem.md` with the proof. A second, larger α
    is tried if one fails. If the conditions fail there too, if n is below 4, ε above 30 or ε below θ/10,000, 1/(1+e^ε)
    is returned, slightly rounded up, at which the noise alone suffices. If δ >= θ, 0 is returned, since the target's
    label is seen with probability at most θ.

    Args:
        cluster_size: n, at least 1. sampling_rate: θ in (0, 1]. epsilon: target ε, above 0. delta: target δ in (0,
        1).

    >>> round(sufficient_flip_prob(10_000, 0.1, 0.3, 1e-9), 5)
    0.00545
    """
    if not (cluster_size >= 1 and 0.0 < sampling_rate <= 1.0 and epsilon > 0.0 and 0.0 < delta < 1.0):
        raise ValueError("need n >= 1, 0 < θ <= 1, ε > 0 and 0 < δ < 1")
    if delta >= sampling_rate:
        return 0.0
    local = math.exp(-epsilon) / (1.0 + math.exp(-epsilon)) * (1.0 + 1e-14 * (1.0 + epsilon))
    local = min(max(local, 1e-300), 0.5)
    # here the local α is small anyway, or rounding would spoil the differences below
    if cluster_size < 4 or epsilon > 30.0 or epsilon < 1e-4 * sampling_rate:
        return local
    target = _Target(cluster_size, sampling_rate, epsilon, math.log(1.0 / delta))
    return min((a for a in target.candidates() if a < local and target.met(a)), default=local)


class _Target:
    """The conditions of the corrected Theorem 3 for one cluster and target; symbols as in `sufficient_flip_prob`."""

    def __init__(self, n: int, theta: float, epsilon: float, log_inverse_delta: float) -> None:
        self.n, self.theta, self.epsilon, self.log_inverse_delta = n, theta, epsilon, log_inverse_delta
        self.s = math.log1p(epsilon / theta)
        # Γ: what sampling contributes for each expected noisy one
        self.gamma = (theta + epsilon) * self.s - epsilon
        # η: what the flips contribute; in the other direction a = 1 - e^-b - b e^-ε with b = θε/(θ+ε)
        self.eta = epsilon + math.expm1(-epsilon)
        b = theta * epsilon / (theta + epsilon)
        self.eta_down = -math.expm1(-b) - b * math.exp(-epsilon)

    def candidates(self) -> list[float]:
        """Two flip probabilities at which to try the conditions of the theorem, ascending.

        The first solves the condition that one direction of δ is small where all other users hold the same label; the
        second solves the same condition for the other direction, too. An entry is infinite if there is no solution.
        Whether the other conditions hold there is not checked.
        """
        n, s, gamma, eta, shrink = self.n, self.s, self.gamma, self.eta, math.exp(-self.epsilon)
        up = _smaller_root(gamma + eta, gamma + s * eta, (self.log_inverse_delta + gamma + 2 * self.epsilon) / n)
        a = (1.0 - 1.0 / n) * shrink * gamma + self.eta_down
        down = _smaller_root(a, shrink * gamma, (self.log_inverse_delta + self.epsilon) / n)
        return [up * shrink, max(up * shrink, down)]

    def met(self, alpha: float) -> bool:
        """Whether all conditions of the theorem hold at the flip probability α: then the exchange is (ε,
        δ)-label-private against the learner for all labels.

        One condition for evidence of each of the target's two labels must hold; for the second there are two ways to
        prove it.
        """
        return self.upwards(alpha) and (self.downwards(alpha) or self.starved(alpha))

    def upwards(self, alpha: float) -> bool:
        """Whether two conditions hold at α that together prove that evidence of the target's label 1 has a δ(ε) of at
        most δ.

        Labels are named so that at most half of the others hold 1. With n users, q = αe^ε, s = ln(1 + ε/θ), Γ = (θ+ε)s
        - ε, η = ε - 1 + e^-ε, K(J) = J(1 - J/n)Γ and F = n q e^(-sq) η, the conditions (U0) and (U1) of
        `docs/theorem.md` are n q (1-q) Γ + F >= ln(1/δ) + Γ + 2ε and K((n+1)(1+q)/2 - 2) + F (1 - s(1-q))/2 >= ln(1/δ)
        + 2ε.
        """
        n, s, gamma = self.n, self.s, self.gamma
        q = alpha * math.exp(self.epsilon)
        need = self.log_inverse_delta + 2.0 * self.epsilon
        flips = n * q * math.exp(-s * q) * self.eta
        far = self._sampled(0.5 * (n + 1) * (1.0 + q) - 2.0) + 0.5 * flips * (1.0 - s * (1.0 - q))
        return n * q * (1.0 - q) * gamma + flips >= need + gamma and far >= need

    def downwards(self, alpha: float) -> bool:
        """Whether two conditions hold at α that together prove that evidence of the target's label 0 has a δ(ε) of at
        most δ.

        Labels are named so that at most half of the others hold 1. With n users, r = αe^-ε, Γ = (θ+ε) ln(1 + ε/θ) - ε,
        K(J) = J(1 - J/n)Γ, b = θε/(θ+ε) and G = n α (1 - e^-b - b e^-ε), the conditions (D0) and (D1) of
        `docs/theorem.md` are K(n r + 1) + G >= ln(1/δ) + ε and K((n+1)(1+r)/2) + G/2 >= ln(1/δ) + ε.
        """
        q = alpha * math.exp(-self.epsilon)
        need = self.log_inverse_delta + self.epsilon
        flips = self.n * alpha * self.eta_down
        far = self._sampled(0.5 * (self.n + 1) * (1.0 + q)) + 0.5 * flips
        return self._sampled(self.n * q + 1.0) + flips >= need and far >= need

    def starved(self, alpha: float) -> bool:
        """Whether a condition holds at α that is another way to prove that evidence of the target's label 0 has a δ(ε)
        of at most δ.

        If it holds, such evidence takes more submissions than arrive, except with a small probability, or in data sets
        in which both labels are frequent, where the random choice of peers hides the target. With n users, r = αe^-ε, Λ
        = ln(1/δ) + ε, Γ = (θ+ε) ln(1 + ε/θ) - ε, K(J) = J(1 - J/n)Γ and c = 2Λ/(nΓ), it is, as (S) of
        `docs/theorem.md`: c <= 1/2, K((n+1)(1+r)/2) >= Λ and, with x = (1 - c - r - 1/n)ε, x > 1, or x > θ and n (x
        ln(x/θ) - x + θ) >= Λ.
        """
        n, q = self.n, alpha * math.exp(-self.epsilon)
        need = self.log_inverse_delta + self.epsilon
        c = 2.0 * need / (n * self.gamma)
        if c > 0.5 or self._sampled(0.5 * (n + 1) * (1.0 + q)) < need:
            return False
        x = (1.0 - c - q - 1.0 / n) * self.epsilon
        return x > 1.0 or (x > self.theta and n * (x * math.log(x / self.theta) - x + self.theta) >= need)

    def _sampled(self, ones: float) -> float:
        """J(1 - J/n)Γ, by how much the random choice of peers raises the proved -ln δ if about J = `ones` of the n
        noisy labels are 1.

        Γ = (θ+ε) ln(1 + ε/θ) - ε is a constant of the target ε and the sampling rate θ.
        """
        return ones * (1.0 - ones / self.n) * self.gamma


def _smaller_root(a: float, b: float, c: float) -> float:
    """The smaller root x of x(a - bx) = c, rounded up; infinite if there is no real root."""
    square = a * a - 4.0 * b * c
    return 2.0 * c / (a + math.sqrt(square)) * (1.0 + 1e-9) if square >= 0.0 else math.inf
