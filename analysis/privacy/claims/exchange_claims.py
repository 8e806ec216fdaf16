"""The statements about the peer-to-peer mechanism, and how each is checked."""

from analysis.privacy import lemma9_epsilon
from analysis.privacy.claims.claim import CLUSTERING, Claim
from analysis.privacy.claims.exchange import (
    lemma8_cases,
    lemma9_cases,
    peer_delta_cases,
    peer_epsilon_cases,
    subsampling_cases,
    table1_exact_cases,
    table1_theorem3_cases,
    theorem3_cases,
    theorem3_proof_cases,
)

CLAIMS = (
    Claim(
        "Lemma 8", CLUSTERING, "(1 + s/x)^(s x^a) <= e^(2a-1) + 3/x^a for x >= 2, s = ±1, a = 1/2 or 1", lemma8_cases
    ),
    Claim(
        "Lemma 9",
        CLUSTERING,
        "the learner's ε is at most θ ln(e + 3/(sα)) + √θ ξ ln(1 + 3/√(sα)), with δ from ξ",
        lambda: lemma9_cases(lemma9_epsilon),
        "for large n the exact ε is that of μ-GDP with μ = (1-2α) √(θ/((1+θ) n α(1-α))): no term stays at θ",
    ),
    Claim(
        "Theorem 3",
        CLUSTERING,
        "with α = 4√2 ln s/√(θs): ε <= θ + 3θ^1.5/(e√(s ln s)) + 3(2θ)^0.75/s^0.25 at δ = 1/s²",
        theorem3_cases,
        "the exact ε falls as s^-1/4 up to logarithms, without the term θ",
    ),
    Claim(
        "Theorem 3, line (32)",
        CLUSTERING,
        "line (32) of the proof follows from Lemma 9 at ξ = 4√ln s, with δ <= 1/s²",
        theorem3_proof_cases,
    ),
    Claim(
        "Table 1, last row, by Theorem 3",
        CLUSTERING,
        "at θ = ε and s = 1/(φε²) Theorem 3's α is Õ(φ) (at most 10 φ ln² s)",
        table1_theorem3_cases,
        "α = 4√2 ln s √(φε): Theorem 3 needs s of the order ln² s/(φ²ε) for an α of the order φ",
    ),
    Claim(
        "Table 1, last row, exact ε",
        CLUSTERING,
        "at θ = ε and s = 1/(φε²) the exchange with α = 4φ ln s is (ε, 1/s²)-label private",
        table1_exact_cases,
        "so the row's rate holds up to logarithms, though not by Theorem 3",
    ),
    Claim(
        "Section 5.1, peer's δ",
        CLUSTERING,
        "a peer's view is (0, 1/s)-label private",
        peer_delta_cases,
        "exact: (0, (1-2α)/s)",
    ),
    Claim(
        "Section 5.1, peer's ε",
        CLUSTERING,
        "a peer's view is ln((1-α)/α)-label private",
        peer_epsilon_cases,
        "exact: no smaller pure ε holds",
    ),
    Claim(
        "Section 5.1, no amplification",
        CLUSTERING,
        "subsampling without exchange does not lower ε (pure)",
        subsampling_cases,
        "pure ε stays ln((1-α)/α); δ(ε) at a smaller ε is multiplied by θ",
    ),
)
