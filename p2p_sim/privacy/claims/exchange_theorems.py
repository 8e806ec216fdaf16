"""Claims on the label exchange: Lemmas 8 and 9, Theorem 3, Table 1 and Section 5.1 of the clustering paper."""

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from p2p_sim.privacy import LabelExchange, lemma9_epsilon, local_epsilon, theorem3
from p2p_sim.privacy.claims.claim import ClaimCase, at_least, at_most, clustering

Law = dict[tuple[int, int], float]
"""The probability of each outcome that an observer can see."""
SMALL = tuple(itertools.product((5, 10, 20, 50, 100), (0.05, 0.2, 0.4, 0.45), (0.1, 0.5, 1.0), (0.5, 0.1, 0.01)))
LARGE = tuple(
    (n, alpha, theta, 1.0 / n**2)
    for n, alpha, theta in (
        (500, 0.1, 1.0), (500, 0.3, 0.5), (1000, 0.3, 1.0), (2000, 0.05, 1.0), (12_000, 0.1, 0.1),
        (12_000, 0.3, 1.0), (100_000, 0.02, 1.0), (100_000, 0.3, 1.0), (1_000_000, 0.1, 1.0), (1_000_000, 0.4, 1.0),
    )
)  # fmt: skip
"""Values of (n, α, θ, δ) for small and for large clusters: n users, flip probability α, sampling rate θ."""


def lemma8_cases(constant: float = 3.0) -> Iterator[ClaimCase]:
    """Cases of Lemma 8: (1 + s/x)^(s x^a) <= e^(2a-1) + 3/x^a. Each compares both sides at one x from 2 to 10⁸.

    s is 1 or -1, and a is 1/2 or 1.

    Args:
        constant: replaces the 3 on the right side; smaller for a control, which must fail.
    """
    for x in np.unique(np.concatenate([np.linspace(2.0, 4.0, 41), np.geomspace(2.0, 1e8, 200)])):
        for sign, power in itertools.product((-1, 1), (0.5, 1.0)):
            value = math.exp(sign * x**power * math.log1p(sign / x))
            claimed = math.exp(2.0 * power - 1.0) + constant / x**power
            yield at_most(claimed, value, None, float(x), x=float(x), s=sign, a=power)


def lemma9_cases(bound: Callable[[int, float, float, float], float | None]) -> Iterator[ClaimCase]:
    """Cases of Lemma 9. Each compares the learner's exact ε in one cluster with a stated bound.

    A case has n users, flip probability α, sampling rate θ, and a δ.

    Args:
        bound: the stated ε as a function of n, α, θ and δ. If the function returns None, the lemma does not apply, and
        there is no case.
    """
    for n, alpha, theta, delta in SMALL + LARGE:
        claimed = bound(n, alpha, theta, delta)
        if claimed is not None:
            exact = LabelExchange(n, alpha, theta).epsilon(delta)
            yield at_most(
                claimed, exact.epsilon_lower, exact.epsilon_upper, n, n=n, alpha=alpha, theta=theta, delta=delta
            )


def theorem3_cases(factor: float = 1.0) -> Iterator[ClaimCase]:
    """Cases of Theorem 3. Each compares the learner's exact ε in a cluster of s users with the ε of the theorem.

    Let θ be the sampling rate. The theorem sets the flip probability α = 4√2 ln s/√(θs) and δ = 1/s². The theorem's ε
    is θ + 3θ^1.5/(e√(s ln s)) + 3(2θ)^0.75/s^0.25.

    Args:
        factor: multiplies the theorem's ε; below 1 for a control, which must fail.
    """
    for n, theta in ((12_000, 1.0), (30_000, 0.5), (100_000, 1.0), (1_000_000, 1.0)):
        claimed = theorem3(n, theta)
        if claimed is not None:
            exact = LabelExchange(n, claimed.flip_prob, theta).epsilon(claimed.delta)
            yield at_most(
                factor * claimed.epsilon, exact.epsilon_lower, exact.epsilon_upper, n, n=n, theta=theta,
                alpha=claimed.flip_prob, delta=claimed.delta,
            )  # fmt: skip


def theorem3_proof_cases(factor: float = 1.0) -> Iterator[ClaimCase]:
    """Cases of the last step in Theorem 3's proof.

    Lemma 9 gives an ε and a δ that depend on a free number ξ. At ξ = 4√ln s, two inequalities must hold. Line (32) of
    the proof says that the lemma's ε is at most the theorem's ε. Also, the lemma's δ must be at most 1/s². These are
    two cases for each cluster size s and sampling rate θ to which the theorem applies.

    Args:
        factor: multiplies the theorem's ε; below 1 for a control, which must fail.
    """
    for n, theta in itertools.product((12_000, 10**5, 10**6, 10**8, 10**12), (1.0, 0.3, 0.1, 0.01)):
        claimed = theorem3(n, theta)
        if claimed is not None:
            alpha, xi = claimed.flip_prob, 4.0 * math.sqrt(math.log(n))
            if xi > 3.0 * alpha * math.sqrt(theta * n * (1.0 - alpha)):
                raise ArithmeticError(f"Lemma 9 does not apply at n = {n}, theta = {theta:g}")
            # ε and δ of the lemma
            lemma = theta * math.log(math.e + 3.0 / (n * alpha))
            lemma += math.sqrt(theta) * xi * math.log1p(3.0 / math.sqrt(n * alpha))
            yield at_most(factor * claimed.epsilon, lemma, None, n, n=n, theta=theta, alpha=alpha)
            delta = math.exp(-alpha * xi**2 / (4.0 * (alpha + 1.0 / n) * (1.0 - alpha)))
            yield at_most(claimed.delta, delta, None, n, n=n, theta=theta, alpha=alpha)


def table1_theorem3_cases(power: float = 1.0) -> Iterator[ClaimCase]:
    """Cases of a claim in the last row of Table 1, read with Theorem 3. These cases refute the claim.

    The claim: the exchange is (ε, 1/s²)-private with a flip probability α = Õ(φ), that is, φ up to logarithms. Each
    case checks whether Theorem 3's α = 4√2 ln s/√(θs) is at most 10 φ ln² s. The row is for sampling rate θ = ε and
    clusters of s = 1/(φε²) users. φ is the heterogeneity: the mean L1 distance of a user's label distribution from her
    cluster's.

    Args:
        power: exponent of φ in the claimed value; 1/2 for a control, for which the claim holds.
    """
    for phi, epsilon in itertools.product((1e-5, 1e-8, 1e-12), (0.1, 0.5)):
        size = 1.0 / (phi * epsilon**2)
        alpha = 4.0 * math.sqrt(2.0) * math.log(size) / math.sqrt(epsilon * size)
        yield at_most(
            10.0 * math.log(size) ** 2 * phi**power, alpha, None, size, phi=phi, epsilon=epsilon, s=size, theta=epsilon
        )


def table1_exact_cases(constant: float = 4.0) -> Iterator[ClaimCase]:
    """Cases of a claim in the last row of Table 1. Each compares the exact ε at δ = 1/s² with the claimed ε.

    The claim: at the flip probability α = `constant` · φ ln s, the exchange is (ε, 1/s²)-label private against the
    learner. The row is for sampling rate θ = ε and clusters of s = 1/(φε²) users. φ is the heterogeneity: the mean L1
    distance of a user's label distribution from her cluster's.
    """
    for phi, epsilon in ((1e-2, 0.5), (1e-3, 0.9), (1e-3, 0.25), (1e-4, 0.5), (1e-5, 0.5)):
        size = math.ceil(1.0 / (phi * epsilon**2))
        alpha = constant * phi * math.log(size)
        exact = LabelExchange(size, alpha, epsilon).epsilon(1.0 / size**2)
        yield at_most(
            epsilon, exact.epsilon_lower, exact.epsilon_upper, size, phi=phi, theta=epsilon, s=size, alpha=alpha
        )


def peer_law(n: int, alpha: float, label: int) -> Law:
    """The view of a user who asks one of n users, as a dict {(asked user, this user's noisy label): probability}.

    All n users are equally likely to be asked. The target is user 0 and holds `label`. All others hold label 0.

    Args:
        alpha: α, the probability of a flip.
    """
    return {
        (source, bit): (1.0 - alpha if bit == label * (source == 0) else alpha) / n
        for source, bit in itertools.product(range(n), range(2))
    }


def silent_law(theta: float, alpha: float, label: int) -> Law:
    """What the learner sees of the target if users submit their own noisy labels, as a dict {pair: probability}.

    A target who submits gives the pair (1, noisy label). A target who does not submit gives the pair (0, 0).

    Args:
        theta: probability to submit. alpha: probability of a flip. label: the target's label.
    """
    return {(0, 0): 1.0 - theta, (1, label): theta * (1.0 - alpha), (1, 1 - label): theta * alpha}


def hockey_stick(first: Law, second: Law, epsilon: float) -> float:
    """δ(ε) of two laws (distributions) with the same outcomes: Σ max(0, P - e^ε Q). P and Q are the two laws, in the
    order with the larger sum.
    """
    growth = math.exp(epsilon)
    return max(
        sum(max(0.0, value - growth * reverse[key]) for key, value in law.items())
        for law, reverse in ((first, second), (second, first))
    )


def pure_epsilon(first: Law, second: Law) -> float:
    """Pure ε of two laws with the same possible outcomes: the largest absolute logarithm of a likelihood ratio."""
    return max(abs(math.log(value / second[key])) for key, value in first.items() if value > 0.0)


def peer_delta_cases(factor: float = 1.0) -> Iterator[ClaimCase]:
    """Cases of Section 5.1. Each compares the exact δ at ε = 0 of a peer's view with 1/s, for s users in the cluster.

    A peer asks one random user of her cluster. Her view is this user's name and noisy label.

    Args:
        factor: multiplies 1/s; below 1 for a control, which must fail.
    """
    for n, alpha in itertools.product((2, 3, 10, 100), (1e-6, 0.01, 0.1, 0.4)):
        yield at_most(
            factor / n, hockey_stick(peer_law(n, alpha, 0), peer_law(n, alpha, 1), 0.0), None, n, s=n, alpha=alpha
        )


def peer_epsilon_cases(factor: float = 1.0) -> Iterator[ClaimCase]:
    """Cases of Section 5.1. Each compares the pure ε of a peer's view with ln((1-α)/α), where α is the flip
    probability.

    A peer asks one random user of her cluster. Her view is this user's name and noisy label.

    Args:
        factor: multiplies ln((1-α)/α); below 1 for a control, which must fail.
    """
    for n, alpha in itertools.product((2, 3, 10, 100), (0.01, 0.1, 0.4)):
        true = pure_epsilon(peer_law(n, alpha, 0), peer_law(n, alpha, 1))
        yield at_most(factor * math.log((1.0 - alpha) / alpha), true, None, n, s=n, alpha=alpha)


def subsampling_cases(pure: bool = True) -> Iterator[ClaimCase]:
    """Cases of Section 5.1 without an exchange. The claim: ε at the sampling rate θ is at least ε at θ = 1.

    Args:
        pure: whether pure ε is compared. False is a control: δ at half the noisy label's ε is compared instead, and it
        is smaller at a smaller θ.
    """
    for theta, alpha in itertools.product((0.5, 0.1, 0.001), (0.01, 0.1, 0.4)):
        # an ε below the ε at θ = 1 refutes the claim "does not lower ε"
        laws = [(silent_law(rate, alpha, 0), silent_law(rate, alpha, 1)) for rate in (theta, 1.0)]
        true, claimed = (
            pure_epsilon(p, q) if pure else hockey_stick(p, q, epsilon=local_epsilon(alpha) / 2.0) for p, q in laws
        )
        yield at_least(claimed, true, 1 / theta, theta=theta, alpha=alpha)


CLAIMS = (
    clustering("Lemma 8", "(1 + s/x)^(s x^a) <= e^(2a-1) + 3/x^a for x >= 2, s = ±1, a = 1/2 or 1", lemma8_cases),
    clustering(
        "Lemma 9",
        "the learner's ε is at most θ ln(e + 3/(sα)) + √θ ξ ln(1 + 3/√(sα)), with δ from ξ",
        lambda: lemma9_cases(lemma9_epsilon),
        "for large n the exact ε is that of μ-GDP with μ = (1-2α) √(θ/((1+θ) n α(1-α))): no term stays at θ",
    ),
    clustering(
        "Theorem 3",
        "with α = 4√2 ln s/√(θs): ε <= θ + 3θ^1.5/(e√(s ln s)) + 3(2θ)^0.75/s^0.25 at δ = 1/s²",
        theorem3_cases,
        "the exact ε falls as s^-1/4 up to logarithms, without the term θ",
    ),
    clustering(
        "Theorem 3, line (32)",
        "line (32) of the proof follows from Lemma 9 at ξ = 4√ln s, with δ <= 1/s²",
        theorem3_proof_cases,
    ),
    clustering(
        "Table 1, last row, by Theorem 3",
        "at θ = ε and s = 1/(φε²) Theorem 3's α is Õ(φ) (at most 10 φ ln² s)",
        table1_theorem3_cases,
        "α = 4√2 ln s √(φε): Theorem 3 needs s of the order ln² s/(φ²ε) for an α of the order φ",
    ),
    clustering(
        "Table 1, last row, exact ε",
        "at θ = ε and s = 1/(φε²) the exchange with α = 4φ ln s is (ε, 1/s²)-label private",
        table1_exact_cases,
        "so the row's rate holds up to logarithms, though not by Theorem 3",
    ),
    clustering(
        "Section 5.1, peer's δ", "a peer's view is (0, 1/s)-label private", peer_delta_cases, "exact: (0, (1-2α)/s)"
    ),
    clustering(
        "Section 5.1, peer's ε",
        "a peer's view is ln((1-α)/α)-label private",
        peer_epsilon_cases,
        "exact: no smaller pure ε holds",
    ),
    clustering(
        "Section 5.1, no amplification",
        "subsampling without exchange does not lower ε (pure)",
        subsampling_cases,
        "pure ε stays ln((1-α)/α); δ(ε) at a smaller ε is multiplied by θ",
    ),
)
