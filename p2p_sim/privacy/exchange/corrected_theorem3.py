"""The clustering paper's Theorem 3, corrected: a flip probability in closed form that suffices for a target (ε, δ)."""

import math

from p2p_sim.privacy.bound import plain_arguments


@plain_arguments
def sufficient_flip_prob(cluster_size: int, sampling_rate: float, epsilon: float, delta: float) -> float:
    """A flip probability α* that suffices: for all α in [α*, 1/2] and all labels, the exchange is (ε, δ)-label-private
    against the learner.

    α* has an explicit formula; a smaller α may suffice, too. δ(ε) has two directions: what the learner sees under the
    target's label 1 against her label 0, and the reverse. A theorem gives conditions on α for each direction. The first
    condition is for one direction, in data sets in which all other users hold the same label. Let q = αe^ε, s = ln(1 +
    ε/θ), Γ = (θ+ε)s - ε and η = ε - 1 + e^-ε. Γ comes from the random choice of peers, and η from the flips. Let Λ =
    ln(1/δ) + Γ + 2ε. The condition is

    q ((1-q) Γ + e^(-sq) η) >= Λ/n.

    With A = Γ + η and B = Γ + sη, it is met by α = (2Λ/n) e^-ε / (A + sqrt(A² - 4BΛ/n)). To leading order in ε this α
    is 2 ln(1/δ) θ / ((1+θ) n ε²), as in the Gaussian limit. Further conditions are for data sets in which both labels
    are frequent, and for the other direction. `docs/theorem.md` has these conditions and the proof.

    If this α fails a further condition, a second, larger α is tried. If the second α fails too, or is not below
    1/(1+e^ε), the result is 1/(1+e^ε), slightly rounded up. There the noise alone suffices. The result is also
    1/(1+e^ε) if n is below 4, ε above 30 or ε below θ/10,000. If δ >= θ, the result is 0: the target's label is seen
    with probability at most θ.

    Args:
        cluster_size: n, at least 1. sampling_rate: θ in (0, 1]. epsilon: target ε, above 0. delta: target δ in (0, 1).

    >>> round(sufficient_flip_prob(10_000, 0.1, 0.3, 1e-9), 5)
    0.00545
    """
    if not (cluster_size >= 1 and 0.0 < sampling_rate <= 1.0 and epsilon > 0.0 and 0.0 < delta < 1.0):
        raise ValueError("need n >= 1, 0 < θ <= 1, ε > 0 and 0 < δ < 1")
    if delta >= sampling_rate:
        return 0.0
    local = math.exp(-epsilon) / (1.0 + math.exp(-epsilon)) * (1.0 + 1e-14 * (1.0 + epsilon))
    local = min(max(local, 1e-300), 0.5)
    # The theorem needs n >= 4. At a large ε the α of the noise alone is small anyway. At a small ε rounding would spoil
    # the differences below.
    if cluster_size < 4 or epsilon > 30.0 or epsilon < 1e-4 * sampling_rate:
        return local
    target = _Target(cluster_size, sampling_rate, epsilon, math.log(1.0 / delta))
    return min((a for a in target.candidates() if a < local and target.met(a)), default=local)


class _Target:
    """The conditions of the corrected Theorem 3 for one cluster and one (ε, δ). `sufficient_flip_prob` explains the
    letters.
    """

    def __init__(self, n: int, theta: float, epsilon: float, log_inverse_delta: float) -> None:
        self.n, self.theta, self.epsilon, self.log_inverse_delta = n, theta, epsilon, log_inverse_delta
        self.s = math.log1p(epsilon / theta)
        # Γ: what the random choice of peers contributes for each expected noisy label 1
        self.gamma = (theta + epsilon) * self.s - epsilon
        # η: what the flips contribute. In the other direction they contribute 1 - e^-b - b e^-ε, with b = θε/(θ+ε).
        self.eta = epsilon + math.expm1(-epsilon)
        b = theta * epsilon / (theta + epsilon)
        self.eta_down = -math.expm1(-b) - b * math.exp(-epsilon)

    def candidates(self) -> list[float]:
        """Two flip probabilities α at which to try the theorem's conditions, ascending; infinite where there is no
        solution.

        The theorem bounds the two directions of δ(ε) separately. Take data sets in which all other users hold the same
        label. At the first α the bound of the first direction is at most δ. Let α' do the same for the second
        direction. The second value is the larger of the first α and α'. Other conditions are not checked here.
        """
        n, s, gamma, eta, shrink = self.n, self.s, self.gamma, self.eta, math.exp(-self.epsilon)
        up = _smaller_root(gamma + eta, gamma + s * eta, (self.log_inverse_delta + gamma + 2 * self.epsilon) / n)
        a = (1.0 - 1.0 / n) * shrink * gamma + self.eta_down
        down = _smaller_root(a, shrink * gamma, (self.log_inverse_delta + self.epsilon) / n)
        return [up * shrink, max(up * shrink, down)]

    def met(self, alpha: float) -> bool:
        """Whether all conditions of the theorem hold at α. Then the exchange is (ε, δ)-label-private against the
        learner.

        Each of the two directions has its own conditions. The second direction has two sets of conditions, of which one
        must hold.
        """
        return self.upwards(alpha) and (self.downwards(alpha) or self.starved(alpha))

    def upwards(self, alpha: float) -> bool:
        """Whether the theorem bounds the first direction by δ at α: views that are likelier under the target's label 1.

        A view is all that the learner sees. Labels are named so that at most half of the others hold 1. The conditions
        say that a proved lower bound of -ln δ(ε) is large enough. This bound has two parts. K(J) comes from the random
        choice of peers if about J of the n noisy labels are 1. F comes from the flips. (U0) is for data sets in which
        no other user holds 1. (U1) is for data sets in which half of the others hold 1. These two suffice, as the bound
        is concave in between.

        Let q = αe^ε, s = ln(1 + ε/θ), Γ = (θ+ε)s - ε and η = ε - 1 + e^-ε. Let K(J) = J(1 - J/n)Γ and F = n q e^(-sq)
        η. Then, as in `docs/theorem.md`, the conditions are

            (U0)  n q (1-q) Γ + F >= ln(1/δ) + Γ + 2ε
            (U1)  K((n+1)(1+q)/2 - 2) + F (1 - s(1-q))/2 >= ln(1/δ) + 2ε
        """
        n, s, gamma = self.n, self.s, self.gamma
        q = alpha * math.exp(self.epsilon)
        need = self.log_inverse_delta + 2.0 * self.epsilon
        flips = n * q * math.exp(-s * q) * self.eta
        far = self._sampled(0.5 * (n + 1) * (1.0 + q) - 2.0) + 0.5 * flips * (1.0 - s * (1.0 - q))
        return n * q * (1.0 - q) * gamma + flips >= need + gamma and far >= need

    def downwards(self, alpha: float) -> bool:
        """Whether the theorem bounds the second direction by δ at α: views that are likelier under the target's label
        0.

        (D0) and (D1) are for the data sets of (U0) and (U1) in `upwards`. G comes from the flips, like F there. Let r =
        αe^-ε, Γ = (θ+ε) ln(1 + ε/θ) - ε, K(J) = J(1 - J/n)Γ, b = θε/(θ+ε) and G = n α (1 - e^-b - b e^-ε). Then, as in
        `docs/theorem.md`, the conditions are

            (D0)  K(n r + 1) + G >= ln(1/δ) + ε
            (D1)  K((n+1)(1+r)/2) + G/2 >= ln(1/δ) + ε
        """
        q = alpha * math.exp(-self.epsilon)
        need = self.log_inverse_delta + self.epsilon
        flips = self.n * alpha * self.eta_down
        far = self._sampled(0.5 * (self.n + 1) * (1.0 + q)) + 0.5 * flips
        return self._sampled(self.n * q + 1.0) + flips >= need and far >= need

    def starved(self, alpha: float) -> bool:
        """Whether a second proof bounds the second direction by δ at α: views that are likelier under the target's
        label 0.

        If few other users hold label 1, such a view has more submissions than usually arrive, so its probability is
        small. If many hold label 1, the random choice of peers hides the target. The fraction c separates both cases.

        Let r = αe^-ε, Λ = ln(1/δ) + ε, Γ = (θ+ε) ln(1 + ε/θ) - ε and K(J) = J(1 - J/n)Γ. Let c = 2Λ/(nΓ) and x = (1 - c
        - r - 1/n)ε. The condition (S) of `docs/theorem.md` has three parts, which must all hold:

            c <= 1/2;  K((n+1)(1+r)/2) >= Λ;  x > 1, or x > θ with n (x ln(x/θ) - x + θ) >= Λ
        """
        n, q = self.n, alpha * math.exp(-self.epsilon)
        need = self.log_inverse_delta + self.epsilon
        c = 2.0 * need / (n * self.gamma)
        if c > 0.5 or self._sampled(0.5 * (n + 1) * (1.0 + q)) < need:
            return False
        x = (1.0 - c - q - 1.0 / n) * self.epsilon
        return x > 1.0 or (x > self.theta and n * (x * math.log(x / self.theta) - x + self.theta) >= need)

    def _sampled(self, ones: float) -> float:
        """K(J) = J(1 - J/n)Γ for J = `ones`: what the random choice of peers adds to the theorem's lower bound of -ln
        δ(ε).

        Approximately J of the n noisy labels are 1. A Chernoff bound for the number of ones among the submissions gives
        this term. Γ = (θ+ε) ln(1 + ε/θ) - ε is a constant.
        """
        return ones * (1.0 - ones / self.n) * self.gamma


def _smaller_root(a: float, b: float, c: float) -> float:
    """The smaller root x of x(a - bx) = c, rounded up; infinite if there is no real root."""
    square = a * a - 4.0 * b * c
    return 2.0 * c / (a + math.sqrt(square)) * (1.0 + 1e-9) if square >= 0.0 else math.inf
