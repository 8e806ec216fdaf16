"""Which data sets of one cluster are evaluated, and how many noisy bits are revealed: a heuristic for `one_cluster`.

In the Gaussian limit ε is about √(2 ln(1/δ)) / √V, where V is S times the sum of `Sources.variances`. V grows with m,
the number of others who hold label 1, up to half: the larger m, the more bits may be revealed before V falls to that
of m = 0. At a given m, revealing b bits multiplies V by about 1 - b/S, and so ε by about 1 + b/(2S).
"""

import math
from dataclasses import dataclass, replace

from p2p_sim.privacy.binomial_windows import NARROW
from p2p_sim.privacy.exchange.delta_evaluator import DeltaEvaluator, Sources

_LOOKS = 24
"""Limit of evaluations: a first attempt is made only if fewer than this are expected, and ends after twice as many."""
_BATCH = 24
"""Speed only: largest number of data sets that are evaluated together."""
_WORTH = 12
"""Speed only: where t is random, bits are revealed if b exceeds this or 3% of the sources, whichever is less."""


@dataclass(frozen=True)
class CoverBlock:
    """Data sets that are certified together: m to m + `revealed` for each m in `ones`.

    ones: ascending numbers m of others with label 1 at which δ is evaluated, at most 1 + `revealed` apart.
    revealed: b, how many other users' noisy bits are revealed to the learner.
    change: as in `DeltaEvaluator`. `NARROW` gives the figures that are reported; a larger value makes a *quick look*,
        whose upper bound is coarser and certifies as well.
    """

    ones: range
    revealed: int
    change: float = NARROW


ZEROS = CoverBlock(range(1), 0)
"""The data set in which all others hold label 0."""


@dataclass(frozen=True)
class CoverPlan:
    """Proposes blocks to certify: a heuristic. It decides how many evaluations are needed, and how tight the result is.

    exchange: the exchange whose data sets are certified. exact: the evaluator of blocks with b = `least` that are no
    quick look. least: smallest b. needed: the V at which δ is about the target δ.
    """

    exchange: Sources
    exact: DeltaEvaluator
    least: int
    needed: float

    def blocks(self, first: int, trust: float) -> list[CoverBlock]:
        """One or two blocks of data sets to certify next, the quicker first; a second one is for the same data sets.

        Args:
            first: smallest m (others who hold label 1) that is not certified yet.
            trust: share in (0, 1] of the bits that may be revealed by the estimate `revealable`.
        """
        exchange, least, half = self.exchange, self.least, (self.exchange.sources - 1) // 2
        # reveal b bits: if the estimate is right, δ of m at S - b sources is still below the target. With a
        # single t a quick look is fast, so that b = 3 is enough for one
        few = max(least, 2, 0 if exchange.rate == 1.0 else min(_WORTH, int(0.03 * exchange.sources)))
        revealed = int(trust * self.revealable(first))
        if revealed > few:
            revealed = min(revealed, half - first)
            # revealing b bits changes ln δ by about ln δ · b/S; let blocks of submissions change it by 0.4 of this
            change = min(max(1.2 * NARROW, -0.4 * self.exact.log_delta * revealed / exchange.sources), 1.0)
            return [CoverBlock(range(first, first + 1), revealed, change)]
        # else evaluate several data sets together, whose laws of X overlap: within 6 standard deviations of the flips
        apart = (1.0 - 2.0 * exchange.flip_prob) * (least + 1)
        flipped = exchange.flip_prob * (1.0 - exchange.flip_prob)
        overlap = 6.0 * math.sqrt(exchange.sources * flipped) / apart if apart else math.inf
        batch = max(1, int(min(_BATCH, overlap)))
        # up to the m from which revealing is faster; a single m where δ is not computed from tables
        count = next((c for c in range(4, batch, 4) if trust * self.revealable(first + c) > few), batch)
        block = CoverBlock(range(first, half + 1, least + 1)[: count if self.exact.direct else 1], least)
        # where V is larger than needed, try a quick look first: ln δ may grow by a share of 1 - needed/V, of which
        # 0.4 are used
        larger = exchange.sources * sum(exchange.variances(first))
        change = min(-0.4 * self.exact.log_delta * (1.0 - self.needed / larger), 1.0)
        return [replace(block, change=change), block] if change > 2.0 * NARROW and not least else [block]

    def most_looks(self, half: int) -> int:
        """Limit of evaluations of δ for the data sets m = 1 to `half`: 2 `_LOOKS`, or 0 if `_LOOKS` are expected."""
        ones, expected = 1, 0
        while ones <= half and expected < _LOOKS:
            ones += 1 + max(0, int(0.7 * self.revealable(ones)))
            expected += 1
        return 2 * _LOOKS if expected < _LOOKS else 0

    def revealable(self, ones: int) -> float:
        """About how many noisy bits may be revealed if `ones` others hold label 1, before δ reaches the target.

        By the Gaussian limit (see the module): each bit lowers V, and `needed` is the V at which δ is the target.
        """
        exchange = self.exchange
        if not 0.0 < self.needed < 1e150:
            return 0.0
        drawn, flipped = exchange.variances(ones)
        if exchange.rate < 1.0:
            return exchange.sources - self.needed / (drawn + flipped)
        # t is fixed and does not change when bits are revealed: with s sources left, V = s (drawn s/S + flipped)
        drawn /= exchange.sources
        sources = (math.sqrt(flipped**2 + 4.0 * drawn * self.needed) - flipped) / (2.0 * drawn)
        return exchange.sources - sources
