"""A blanket of messages that say nothing of their senders, of which two kinds point either way and the rest neither.

What the observer of a shuffled multiset knows is bounded by a walk (Balle et al. 2019, Lemma 5.3): of b + 1 independent
messages, b ~ Bin(n-1, γ), each is worth `keep` with probability 1/k, `-lose` with 1/k, else `-rest`, and

    δ(ε) <= E [ k/(b+1) · (sum of what they are worth) ]_+.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from p2p_sim.analysis.privacy.statement.windows import Floats, bernstein_window, binomial_pmf, rounding

BLOCKS = 48
"""Most numbers of messages that are told apart."""
LOG_TAIL = -60.0


@dataclass(frozen=True)
class Blanket:
    """The walk whose mean positive end bounds δ.

    Args:
        users: n, at least 1, the target among them.
        share: γ in [0, 1], the probability that another user's message belongs to the blanket.
        kinds: k, at least 2, one over the probability of each of the two kinds that count; no whole number is needed.
        keep, lose, rest: worth of the kinds; the last two at least 0, and on average nothing is gained.
    """

    users: int
    share: float
    kinds: float
    keep: float
    lose: float
    rest: float

    def delta(self) -> float:
        """The bound; given b it falls with b, so blocks of b are charged at their first."""
        others, share = self.users - 1, self.share
        first, last = bernstein_window(others * share, others * share * (1.0 - share), others, LOG_TAIL)
        mass = binomial_pmf(first, last, others, share)
        starts = np.arange(0, mass.size, max(1, mass.size // BLOCKS))
        held = np.add.reduceat(mass, starts)
        values = np.array([self._given(first + int(start)) for start in starts])
        slack = 1e-10 + 4.0 * rounding(mass.size)
        return min(1.0, float(held @ values) * (1.0 + slack) + 2.0 * math.exp(LOG_TAIL))

    def _given(self, others: int) -> float:
        """The same for b = `others`."""
        kinds, total, keep, lose, rest = self.kinds, others + 1, self.keep, self.lose, self.rest
        if keep <= 0.0:
            return 0.0
        # s of the two kinds ~ Bin(total, 2/k), of the first ~ Bin(s, 1/2), and the excess is (keep + lose)·first - due
        low, high = bernstein_window(2.0 * total / kinds, 2.0 * total / kinds * (1.0 - 2.0 / kinds), total, LOG_TAIL)
        s = np.arange(low, high + 1, dtype=np.float64)
        due = lose * s + rest * (total - s)
        cut = np.floor(due / (keep + lose) * (1.0 - 1e-13)) + 1.0  # a tie is let in, so that rounding is charged
        gain = (keep + lose) * s / 2.0 * _at_least(cut - 1.0, s - 1.0)
        loss = due * _at_least(cut, s)
        excess = np.maximum(gain - loss, 0.0) + 1e-11 * (gain + loss)
        lost = (keep + lose + rest) * kinds * 4.0 * math.exp(LOG_TAIL)
        return min(1.0, kinds / total * float(binomial_pmf(low, high, total, 2.0 / kinds) @ excess) + lost)


def _at_least(x: Floats, coins: Floats) -> Floats:
    """Pr[Bin(coins, 1/2) >= x], elementwise."""
    inside = (x > 0) & (x <= coins)
    safe = np.where(inside, x, 1.0)
    value = scipy.special.betainc(safe, np.where(inside, coins - safe + 1.0, 1.0), 0.5)
    return np.asarray(np.where(inside, value, np.where(x <= 0, 1.0, 0.0)))
