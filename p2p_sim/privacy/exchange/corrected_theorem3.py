"""A corrected Theorem 3: a flip probability, in closed form, that suffices for a target (ε, δ)."""

import math

from p2p_sim.privacy.bound import plain_arguments


@plain_arguments
def sufficient_flip_prob(cluster_size: int, sampling_rate: float, epsilon: float, delta: float) -> float:
    """An α* such that the exchange is (ε, δ)-label-private against the learner for all α in [α*, 1/2] and all labels.

    With s = ln(1 + ε/θ), Γ = (θ+ε)s - ε, η = ε - 1 + e^-ε, Λ = ln(1/δ) + Γ + 2ε and q = αe^ε, the first condition is

        q ((1-q) Γ + e^(-sq) η) >= Λ/n,

    which α = (2Λ/n) e^-ε / (A + sqrt(A² - 4BΛ/n)), A = Γ + η, B = Γ + sη, solves. To leading order in ε this α is
    2 ln(1/δ) θ / ((1+θ) n ε²), as in the Gaussian limit. The remaining conditions, for mixed labels and for the other
    direction of δ, stand in `docs/theorem.md` with the proof. If a condition fails, the local value 1/(1+e^ε) is
    returned. If δ >= θ, 0 is returned, since the target's label is seen with probability at most θ.

    Args:
        cluster_size: n, at least 1.
        sampling_rate: θ in (0, 1].
        epsilon: target ε, above 0.
        delta: target δ in (0, 1).

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
        """Two flip probabilities to try, ascending: where (U0) of `docs/theorem.md` is solved, and where (D0) is, too.

        An entry is infinite if there is no solution.
        """
        n, s, gamma, eta, shrink = self.n, self.s, self.gamma, self.eta, math.exp(-self.epsilon)
        up = _smaller_root(gamma + eta, gamma + s * eta, (self.log_inverse_delta + gamma + 2 * self.epsilon) / n)
        a = (1.0 - 1.0 / n) * shrink * gamma + self.eta_down
        down = _smaller_root(a, shrink * gamma, (self.log_inverse_delta + self.epsilon) / n)
        return [up * shrink, max(up * shrink, down)]

    def met(self, alpha: float) -> bool:
        """Whether all conditions of the theorem hold at α: then (ε, δ) is proved.

        One direction of δ is proved by (U0) and (U1), the other by (D0) and (D1) or by (S).
        """
        return self.upwards(alpha) and (self.downwards(alpha) or self.starved(alpha))

    def upwards(self, alpha: float) -> bool:
        """Whether conditions (U0) and (U1) of `docs/theorem.md` hold at α: they prove one direction of δ."""
        n, s, gamma = self.n, self.s, self.gamma
        q = alpha * math.exp(self.epsilon)
        need = self.log_inverse_delta + 2.0 * self.epsilon
        flips = n * q * math.exp(-s * q) * self.eta
        far = self._sampled(0.5 * (n + 1) * (1.0 + q) - 2.0) + 0.5 * flips * (1.0 - s * (1.0 - q))
        return n * q * (1.0 - q) * gamma + flips >= need + gamma and far >= need

    def downwards(self, alpha: float) -> bool:
        """Whether conditions (D0) and (D1) of `docs/theorem.md` hold at α: they prove the other direction of δ."""
        q = alpha * math.exp(-self.epsilon)
        need = self.log_inverse_delta + self.epsilon
        flips = self.n * alpha * self.eta_down
        far = self._sampled(0.5 * (self.n + 1) * (1.0 + q)) + 0.5 * flips
        return self._sampled(self.n * q + 1.0) + flips >= need and far >= need

    def starved(self, alpha: float) -> bool:
        """Whether condition (S) of `docs/theorem.md` holds at α: it can replace (D0) and (D1).

        If (S) holds, evidence in the direction of (D0) and (D1) takes more submissions than arrive, unless many labels
        are mixed.
        """
        n, q = self.n, alpha * math.exp(-self.epsilon)
        need = self.log_inverse_delta + self.epsilon
        c = 2.0 * need / (n * self.gamma)
        if c > 0.5 or self._sampled(0.5 * (n + 1) * (1.0 + q)) < need:
            return False
        x = (1.0 - c - q - 1.0 / n) * self.epsilon
        return x > 1.0 or (x > self.theta and n * (x * math.log(x / self.theta) - x + self.theta) >= need)

    def _sampled(self, ones: float) -> float:
        """J(1 - J/n)Γ, what sampling contributes to -ln δ if J = `ones` of the n noisy labels are expected to be 1."""
        return ones * (1.0 - ones / self.n) * self.gamma


def _smaller_root(a: float, b: float, c: float) -> float:
    """The smaller root x of x(a - bx) = c, rounded up; infinite if there is no real root."""
    square = a * a - 4.0 * b * c
    return 2.0 * c / (a + math.sqrt(square)) * (1.0 + 1e-9) if square >= 0.0 else math.inf
