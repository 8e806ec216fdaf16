"""Which data sets of one cluster to certify together: a heuristic, on which nothing that is certified rests.

In the Gaussian limit ε is about √(2 ln(1/δ)) / √V, with V = `Sources.variance`: what the choice of peers and their
flips hide together. V grows with m up to half, so that b bits may be revealed before it falls to that of all zeros.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass

from p2p_sim.privacy.exchange.delta_evaluator import DeltaEvaluator, Sources
from p2p_sim.privacy.exchange.submission_counts import NARROW

_LOOKS = 24
"""Most evaluations, where ε may be larger, before b is; as many again may fail."""
_BATCH = 24
"""Most data sets that are evaluated together."""
_WORTH = 12
"""To reveal more bits than this, or than 3% of them, is faster than to evaluate as many data sets together."""


@dataclass(frozen=True)
class CoverBlock:
    """Data sets from `first` to `last`: those of `ones` certify them if `revealed` others' noisy bits are known.

    change: as in `DeltaEvaluator`. `NARROW` is for figures; more is for a quick look, which may fail.
    """

    first: int
    last: int
    revealed: int
    change: float = NARROW

    @property
    def ones(self) -> range:
        """The m that are evaluated; each of them certifies m to m + `revealed`."""
        return range(self.first, self.last + 1, self.revealed + 1)

    @property
    def quick(self) -> bool:
        """Whether the block may fail, and another one is proposed then."""
        return self.change > NARROW


def plan_cover(
    exchange: Sources, exact: DeltaEvaluator, *, limited: bool, share: float
) -> Generator[CoverBlock, bool | None, None]:
    """Propose blocks that cover m up to half; to each one is sent whether it is certified. It may give up.

    The first one starts at 1 + `least`, where `least` others are revealed in `exact`.

    Args:
        exact: evaluates blocks that are not quick. limited: whether to give up rather than take many evaluations.
        share: V that is needed, beside that of all zeros.
    """
    least, half = exchange.sources - exact.setting.sources, (exchange.sources - 1) // 2
    needed = exchange.variance(0) * share
    if limited and _expected_looks(exchange, half, needed) >= _LOOKS:
        return
    # data sets are evaluated together whose laws of X overlap: as many as are within 6 standard deviations of the flips
    apart = (1.0 - 2.0 * exchange.flip_prob) * (least + 1)
    overlap = 6.0 * math.sqrt(exchange.sources * exchange.flipped) / apart if apart else math.inf
    batch = max(1, int(min(_BATCH, overlap)))
    worth = max(least, 2, 0 if exchange.rate == 1.0 else min(_WORTH, int(0.03 * exchange.sources)))
    m, trust, looks = 1 + least, 0.6, 0
    while m <= half and not (limited and looks >= 2 * _LOOKS):
        looks += 1
        # if the estimate of b is trusted, δ of m at S - b sources is below the target, and certifies m to m + b
        b = int(trust * _revealed(exchange, m, needed))
        if b > worth:
            b = min(b, half - m)
            change = min(max(1.2 * NARROW, -0.4 * exact.log_delta * b / exchange.sources), 1.0)
            held = yield CoverBlock(m, m + b, b, change)
            m, trust = (m + b + 1, min(1.3 * trust, 1.0)) if held else (m, trust / 2.0)
            continue
        # else the data sets up to where b is large enough are evaluated together, 1 + `least` apart
        count = next((c for c in range(4, batch, 4) if trust * _revealed(exchange, m + c, needed) > worth), batch)
        last = exact.together(range(m, half + 1, least + 1)[:count])[-1] + least
        # where V is larger than needed a quick look may be enough
        change = min(-0.4 * exact.log_delta * (1.0 - needed / exchange.variance(m)), 1.0)
        held = change > 2.0 * NARROW and not least and (yield CoverBlock(m, last, least, change))
        if not held:
            yield CoverBlock(m, last, least)
        m, trust = last + 1, min(1.3 * trust, 1.0)


def _expected_looks(exchange: Sources, half: int, needed: float) -> int:
    """How many data sets up to `half` ones are evaluated if about so many bits are revealed; at most `_LOOKS`."""
    ones, looks = 1, 0
    while ones <= half and looks < _LOOKS:
        ones += 1 + max(0, int(0.7 * _revealed(exchange, ones, needed)))
        looks += 1
    return looks


def _revealed(exchange: Sources, ones: int, needed: float) -> float:
    """How many bits may be revealed before V falls to `needed`."""
    if not 0.0 < needed < 1e150 or exchange.load > 1e150:
        return 0.0
    drawn, flipped = exchange.drawn(ones) / exchange.load, exchange.flipped
    if exchange.rate < 1.0:
        return exchange.sources - needed / (drawn + flipped)
    drawn /= exchange.sources  # t is fixed and stays when bits are revealed: V is quadratic in S
    left = (math.sqrt(flipped**2 + 4.0 * drawn * needed) - flipped) / (2.0 * drawn)
    return exchange.sources - left
