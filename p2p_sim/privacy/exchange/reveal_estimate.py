"""How many bits may be revealed, by an estimate: what is certified never rests on it."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class RevealEstimate:
    """The Gaussian limit of one exchange, in which ε is about √(2 ln(1/δ)) / √V.

    V = S (p(1-p) S/t + α(1-α)), p = α + (1-2α) m/S: what the choice of peers and their flips hide together.

    Args:
        sources, flip_prob: as in `Setting`. load: t/S, expected. fixed: t is known and stays when bits are revealed.
    """

    sources: int
    flip_prob: float
    load: float
    fixed: bool

    def variance(self, ones: int) -> float:
        """V of the data set in which `ones` of the others hold label 1."""
        return self.sources * (self._drawn(ones) / self.load + self._flipped)

    def together(self, step: int, most: int) -> int:
        """How many data sets, so many ones apart, have laws of X that overlap."""
        apart = (1.0 - 2.0 * self.flip_prob) * step
        return max(1, int(min(most, 6.0 * math.sqrt(self.sources * self._flipped) / apart))) if apart else most

    def looks(self, half: int, needed: float, most: int) -> int:
        """How many data sets up to `half` ones are evaluated if about so many bits are revealed; at most `most`."""
        ones, looks = 1, 0
        while ones <= half and looks < most:
            ones += 1 + max(0, int(0.7 * self.revealed(ones, needed)))
            looks += 1
        return looks

    def revealed(self, ones: int, needed: float) -> float:
        """How many bits may be revealed before V falls to `needed`."""
        drawn = self._drawn(ones) / self.load
        if not 0.0 < needed < 1e150 or self.load > 1e150:
            return 0.0
        if not self.fixed:
            return self.sources - needed / (drawn + self._flipped)
        drawn /= self.sources  # S t is fixed: V is quadratic in S
        left = (math.sqrt(self._flipped**2 + 4.0 * drawn * needed) - self._flipped) / (2.0 * drawn)
        return self.sources - left

    def crossing(self, log_delta: float) -> tuple[float, float]:
        """ε(δ) of all zeros, roughly, and d ln δ / dε there.

        δ(ε) is about φ(z) μ / z², z = ε/μ, if a noisy bit moves the view by μ standard deviations.
        """
        mu, z = (1.0 - 2.0 * self.flip_prob) / math.sqrt(max(self.variance(0), 1e-3)), 3.0
        if not 0.0 < mu < math.inf:
            return 1.0, -1.0
        for _ in range(6):
            z = math.sqrt(max(0.5, 2.0 * (math.log(mu / (z * z * math.sqrt(2.0 * math.pi))) - log_delta)))
        return z * mu, -z / mu

    def _drawn(self, ones: int) -> float:
        p = self.flip_prob + (1.0 - 2.0 * self.flip_prob) * min(1.0, ones / self.sources)
        return max(p * (1.0 - p), 1e-300)

    @property
    def _flipped(self) -> float:
        return self.flip_prob * (1.0 - self.flip_prob)
