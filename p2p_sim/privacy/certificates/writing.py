"""Writes certificates of the label exchange. The file `verify_certificate.py` checks a certificate without this
package.

A certificate lists intervals of m, the number of other users with label 1. One evaluation of δ proves a whole interval.
The code here chooses the intervals in floating point, and how many other users' noisy labels each interval reveals.
Nobody needs to trust these choices: a certificate is returned only after the verifier has proved it.
"""

import json
import math

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from p2p_sim.privacy.binomial_windows import bernstein_window, binomial_pmf
from p2p_sim.privacy.bound import check_delta, check_epsilon
from p2p_sim.privacy.certificates.verify_certificate import (
    LARGEST_EPSILON,
    LARGEST_N,
    LARGEST_TRIALS,
    VERSION,
    Refused,
    verify,
)
from p2p_sim.privacy.exchange import LabelExchange, OtherUsers
from p2p_sim.privacy.randomized_response import hockey_stick_coefficients

DROPPED, SPARE = 56, 32
"""Numbers of bits. The verifier drops probabilities below about δ · 2^-DROPPED. Its numbers have SPARE further bits."""
MARGIN = 1e-7
"""A relative margin. Labels may be revealed only if the computed δ is below the claimed δ by this margin. If no label
is revealed, the computed δ may exceed the claimed δ by this margin.
"""


def certificate(exchange: LabelExchange, delta: float, epsilon: float | None = None) -> str:
    """A certificate, as JSON, that the exchange is (ε, δ)-private against the learner. The verifier has proved it.

    Args:
        exchange: the label exchange; n is at most 65,536 users, and n times the number of rounds at most 262,144.
        delta: δ, in (0, 1). epsilon: ε in [0, 1000]. None: the upper bound of the exchange's ε at δ.

    Raises:
        ValueError: a value is outside its range, or (ε, δ) could not be proved.
    """
    # The claim, with its values checked.
    check_delta(delta)
    if exchange.cluster_size > LARGEST_N:
        raise ValueError(f"cluster_size = {exchange.cluster_size}: is certified up to {LARGEST_N:,} users")
    if exchange.cluster_size * exchange.rounds > LARGEST_TRIALS:
        raise ValueError(f"rounds = {exchange.rounds}: is certified up to {LARGEST_TRIALS:,} users times rounds")
    if epsilon is None:
        epsilon = exchange.epsilon(delta).epsilon_upper
        if math.isinf(epsilon):
            raise ValueError(f"delta = {delta:g}: no finite ε holds here, as labels are not flipped")
    check_epsilon(epsilon)
    if epsilon > LARGEST_EPSILON:
        raise ValueError(f"epsilon = {epsilon:g}: is certified up to {LARGEST_EPSILON:,}")
    drop = DROPPED + math.ceil(-math.log2(delta))
    content = {
        "version": VERSION,
        "claim": {
            "n": exchange.cluster_size,
            "flip_prob": repr(float(exchange.flip_prob)),
            "sampling_rate": repr(float(exchange.sampling_rate)),
            "rounds": exchange.rounds,
            "epsilon": repr(float(epsilon)),
            "delta": repr(float(delta)),
        },
        "bits": drop + SPARE,
        "drop": drop,
        # The claim is proved for intervals of m, which are listed here.
        "cover": _covering(exchange, epsilon, delta),
    }
    try:
        verify(content)
    except Refused as error:
        raise ValueError(f"epsilon = {epsilon:g}: is not proved at δ = {delta:g} ({error})") from None
    return json.dumps(content, indent=1) + "\n"


def _covering(exchange: LabelExchange, epsilon: float, delta: float) -> list[dict[str, int]]:
    """The intervals of a certificate for m, the number of other users with label 1, in order from 0 to (n-1)/2.

    An interval is a dictionary with "from", "to" and "revealed". Suppose that the learner is told the noisy labels of b
    = "revealed" other users. Then δ at m = "from" bounds δ for all m up to "from" + b. A larger b gives fewer
    intervals. So b is nearly as large as the claimed δ allows.

    Args:
        exchange: the label exchange of n users. epsilon, delta: the claim.

    Raises:
        ValueError: δ(ε) is above `delta` at some m even if no label is revealed.
    """
    half, first, revealed, intervals = (exchange.cluster_size - 1) // 2, 0, 0, []
    while first <= half:
        # Search for the largest number of labels that may be revealed. Start at twice the last number, double, then
        # bisect. The relative error may be 1/16.
        most = half - first
        low, high = 0, most + 1  # `low` is allowed or 0; `high` is not allowed or above `most`
        probe = min(max(2 * revealed, 1), most)
        while high - low > 1 + low // 16:
            holds = _delta(exchange, epsilon, delta, first, probe) <= delta * (1.0 - MARGIN)
            low, high = (probe, high) if holds else (low, probe)
            probe = min(2 * probe, most) if high > most else (low + high) // 2
        if low == 0 and (least := _delta(exchange, epsilon, delta, first, 0)) > delta * (1.0 + MARGIN):
            raise ValueError(
                f"epsilon = {epsilon:g}: does not hold at δ = {delta:g}: where {first:,} others hold label 1 "
                f"it takes δ = {least:.6g}"
            )
        revealed = low
        intervals.append({"from": first, "to": first + revealed, "revealed": revealed})
        first += revealed + 1
    return intervals


def _delta(exchange: LabelExchange, epsilon: float, delta: float, ones: int, revealed: int) -> float:
    """δ(ε) in floating point if the learner is told the noisy labels of `revealed` users besides the target.

    Of the remaining users, without the target, `ones` hold label 1. The result is the larger δ of two directions:
    evidence for the target's label 0, and evidence for her label 1.

    Args:
        exchange: the label exchange. delta: the claimed δ; probabilities far below this δ are left out.
    """
    tail = math.log(delta) - 25.0  # probabilities below approximately 1e-11 of δ are left out
    # The laws (distributions) of t and X. t is the number of submissions. X is the number of ones among the others'
    # unknown noisy labels.
    sources, trials = exchange.cluster_size - revealed, exchange.cluster_size * exchange.rounds
    rate = exchange.sampling_rate * sources / exchange.cluster_size
    keep, lose, _ = hockey_stick_coefficients(exchange.flip_prob, epsilon)
    first, last = bernstein_window(trials * rate, trials * rate * (1.0 - rate), trials, tail)
    mass = binomial_pmf(first, last, trials, rate)
    law = OtherUsers(sources, sources - 1 - ones, ones, exchange.flip_prob).noisy_ones(tail)
    # A and B are laws of the number k of submitted ones, here for the largest t. A is for the target's noisy label 0, B
    # for 1. With S = `sources`, A is Σ_x Pr[X = x] Bin(k; t, x/S). B has (x+1)/S in place of x/S.
    share = np.arange(law.first, law.first + law.probabilities.size + 1) / sources
    (low, _), (_, high) = (
        bernstein_window(t * p, t * p * (1.0 - p), t, tail) for t, p in ((first, share[0]), (last, share[-1]))
    )
    k = np.arange(low, high + 1)
    ways = gammaln(last + 1.0) - gammaln(k + 1.0) - gammaln(last - k + 1.0)
    rows = np.exp(ways + xlogy(k, share[:, None]) + xlog1py(last - k, -share[:, None]))
    views = np.stack([law.probabilities @ rows[:-1], law.probabilities @ rows[1:]])
    # E_t Σ_k max(0, keep A - lose B) in both directions, from the largest t down to 1. At t = 0 nothing is seen.
    deltas = np.zeros(2)
    for t in range(last, max(first, 1) - 1, -1):
        deltas += mass[t - first] * np.maximum(keep * views - lose * views[::-1], 0.0).sum(axis=1)
        if t > first:  # one submission taken away at random
            fewer = views * (t - k)
            fewer[:, :-1] += views[:, 1:] * k[1:]
            views = fewer / t
    return float(deltas.max())
