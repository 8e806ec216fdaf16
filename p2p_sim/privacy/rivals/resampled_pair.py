"""One resampled label together with the noisy shares of its cluster: δ(ε) of both, from one pair of laws.

**The shares.** A changed label moves two shares by 1/n each, with Laplace noise of scale σ/n: two variables that each
move by 1/σ scales, whose Δ(t) is exact (`histograms.laplace_delta`). Clipping and renormalising only take away.

**The label.** Given q̃ the target's noisy label is y with probability λ q̃(y), and 1-λ more if y is her own. For t >= 0
its divergence is at most (1-λ) - (e^t - 1) λτ, or 0, as q̃ >= τ. That is the divergence of three outcomes with
probabilities p = 1-λ+λτ, λτ and w = λ-2λτ in one world, and λτ, p and w in the other; it is its own mirror image.

Given q̃ the others' noisy labels do not depend on the target's. So both together are dominated by the product of the
two pairs (adaptive composition; Zhu, Dong and Wang 2022, Theorem 10), and with l = ln(p/(λτ))

    δ(ε) <= p Δ(ε-l) + λτ Δ(ε+l) + w Δ(ε),   where Δ(-t) = 1 - e^-t + e^-t Δ(t).
"""

import math

from p2p_sim.privacy.rivals.histograms import laplace_delta


def resampled_delta(resampling_prob: float, noise_scale: float, threshold: float, epsilon: float) -> float:
    """Certified δ(ε) of noisy shares and noisy labels together.

    Args:
        resampling_prob: λ in [0, 1]. noise_scale: σ >= 0, infinite: the shares say nothing. threshold: τ in [0, 1/2].
        epsilon: ε, at least 0.
    """
    least = resampling_prob * threshold
    kept, rest = 1.0 - resampling_prob + least, resampling_prob - 2.0 * least
    moved = 2.0 / noise_scale if noise_scale > 0.0 else math.inf
    loss = math.log(kept / least) if least > 0.0 else math.inf
    parts = (
        kept * _shares(moved, epsilon - loss),
        least * _shares(moved, epsilon + loss),
        rest * _shares(moved, epsilon),
    )
    return min(1.0, math.fsum(parts) * (1.0 + 1e-12))


def _shares(moved: float, epsilon: float) -> float:
    """Δ of two shares that move by `moved` scales in all, at any ε, infinite allowed."""
    if epsilon == math.inf:
        return 1.0 if moved == math.inf else 0.0
    if epsilon < 0.0:
        return -math.expm1(epsilon) + math.exp(epsilon) * _shares(moved, -epsilon)
    if moved in (0.0, math.inf):
        return 0.0 if moved == 0.0 else 1.0
    return laplace_delta(moved, epsilon, cells=2)
