"""Several exchanges that concern the same user's labels: repeated with fresh noise, or of several label columns.

Rounds that repeat a memoised noisy label are not composed: they are one exchange, `LabelExchange(..., rounds=R)`, and
composing them can claim less than the truth. Disjoint clusters need no composition either: the figure is the largest of
theirs.
"""

import math
from collections.abc import Sequence

import numpy as np

from p2p_sim.analysis.privacy.exchange.label_exchange import LabelExchange
from p2p_sim.analysis.privacy.statement.bound import PrivacyBound
from p2p_sim.analysis.privacy.statement.checks import check_delta
from p2p_sim.analysis.privacy.statement.conditions import FRESH, LEARNER_CONDITIONS
from p2p_sim.analysis.privacy.statement.windows import Floats

FLOOR = 1e-14
"""Below this, more for many exchanges, the convolutions' rounding is not small beside δ, and no figure is given."""
_POINTS = 80
_TAIL = 1e-18


def compose(exchanges: Sequence[LabelExchange], delta: float) -> PrivacyBound:
    """Certified ε(δ) of independent exchanges with the same users: each has fresh flips, peers and subsamples.

    Each exchange is represented by one pair that dominates all its data sets and both directions: the envelope of its
    δ(ε), rounded up to a convex curve, whose privacy loss distribution (connect-the-dots, pessimistic) is convolved by
    dp-accounting. Composing a single exchange's worst data set instead can be wrong by a factor of 25.

    Args:
        exchanges: at least one; an exchange may be repeated; no two may share noise.
        delta: δ, at least 1e-14 (more above 300 exchanges) and below 1.

    Raises:
        ValueError: δ below the floor of the convolution, nothing to compose, or α = 0.
    """
    check_delta(delta)
    if not exchanges:
        raise ValueError("exchanges: at least one is needed")
    rounding = 9e-16 + 3e-17 * len(exchanges)  # of the convolutions, three times the largest seen
    floor = max(FLOOR, 10.0 * rounding)
    if delta < floor:
        raise ValueError(f"delta = {delta}: must be at least {floor:g} for this composition, whose rounding hides less")
    from dp_accounting.pld import privacy_loss_distribution as pld

    kinds = {exchange: list(exchanges).count(exchange) for exchange in dict.fromkeys(exchanges)}
    tails = {exchange: exchange.epsilon(_TAIL).epsilon_upper for exchange in kinds}
    if any(math.isinf(tail) for tail in tails.values()):
        raise ValueError("flip_prob = 0: no ε holds")
    step = max(max(tails.values()) / _POINTS, 1e-9)
    whole: pld.PrivacyLossDistribution = pld.identity(step)
    for exchange, count in kinds.items():
        whole = whole.compose(_dominating(exchange, tails[exchange], step).self_compose(count))
    epsilon = max(0.0, float(whole.get_epsilon_for_delta(delta * (1.0 - 1e-6) - rounding)))
    conditions = (FRESH, *LEARNER_CONDITIONS)
    basis = "composed privacy loss distributions, pessimistic"
    return PrivacyBound(0.0, epsilon, delta, "learner", "label", basis, conditions)


def _dominating(exchange: LabelExchange, tail: float, step: float):  # type: ignore[no-untyped-def]  # dp-accounting
    """A symmetric privacy loss distribution whose δ(ε) is at least that of every data set and direction."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    points = max(1, math.ceil(tail / step))
    right = [i * step for i in range(points + 1)]
    upper = convex_majorant(np.exp(right), np.array([b.upper for b in exchange.profile(right)]))
    # HS at e^-ε of the reversed pair: 1 - e^-ε + e^-ε δ(ε)
    shrink = np.exp(-np.array(right[1:]))
    left = (1.0 - shrink + shrink * upper[1:])[::-1]
    deltas, losses = np.minimum(np.concatenate([left, upper]), 1.0), np.arange(-points, points + 1)
    return PrivacyLossDistribution(pld_pmf.create_pmf_pessimistic_connect_dots(step, losses, deltas))


def convex_majorant(x: Floats, y: Floats) -> Floats:
    """Values of at least y that are convex in x and do not increase: earlier ones are raised where needed."""
    out = y.copy()
    for i in range(len(x) - 2, -1, -1):
        out[i] = max(out[i], out[i + 1])
        if i + 2 < len(x):
            slope = (out[i + 1] - out[i + 2]) / (x[i + 2] - x[i + 1])
            out[i] = max(out[i], out[i + 1] + slope * (x[i + 1] - x[i]))
    return out
