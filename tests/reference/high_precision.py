"""δ(ε) of the learner by direct summation in 50-digit arithmetic."""

import mpmath as mp


def delta(n: int, alpha: float, theta: float, epsilon: float, datasets=None, digits: int = 50) -> mp.mpf:
    """Largest hockey-stick divergence over the given numbers of ones (all by default) and both directions."""
    with mp.workdps(digits):
        a, theta, grow = mp.mpf(alpha), mp.mpf(theta), mp.exp(mp.mpf(epsilon))
        totals = {m: [mp.mpf(0), mp.mpf(0)] for m in (range(n) if datasets is None else datasets)}
        laws = {m: _noisy_ones(n, a, m) for m in totals}
        for t in range(n + 1):
            weight = _binomial(t, n, theta)
            if weight == 0:
                continue
            kernel = [[_binomial(k, t, mp.mpf(j) / n) for j in range(n + 1)] for k in range(t + 1)]
            for m, law in laws.items():
                for k in range(t + 1):
                    zero = mp.fsum(x * kernel[k][j] for j, x in enumerate(law))
                    one = mp.fsum(x * kernel[k][j + 1] for j, x in enumerate(law))
                    p, q = (1 - a) * zero + a * one, a * zero + (1 - a) * one
                    totals[m][0] += weight * max(p - grow * q, mp.mpf(0))
                    totals[m][1] += weight * max(q - grow * p, mp.mpf(0))
        return max(max(pair) for pair in totals.values())


def _binomial(k: int, trials: int, p: mp.mpf) -> mp.mpf:
    return mp.binomial(trials, k) * p**k * (1 - p) ** (trials - k)


def _noisy_ones(n: int, a: mp.mpf, ones: int) -> list[mp.mpf]:
    law = [mp.mpf(0)] * n
    for x in range(ones + 1):
        for y in range(n - ones):
            law[x + y] += _binomial(x, ones, 1 - a) * _binomial(y, n - 1 - ones, a)
    return law
