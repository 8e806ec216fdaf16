"""Submitting the majority of several peers' noisy labels: by enumeration, by direct summation, in 50 digits."""

import functools
import itertools
import math

import mpmath as mp
import numpy as np
from scipy.stats import binom

from tests.reference.enumeration import flip_law


def submits_one(noisy: tuple[int, ...], peers: dict[int, float]) -> float:
    """Pr[a user who submits submits a one | noisy labels], over every number of peers and all requests."""
    total = 0.0
    for k, weight in peers.items():
        requests = itertools.product(noisy, repeat=k)
        total += weight * sum(2 * sum(answers) > k for answers in requests) / len(noisy) ** k
    return total


@functools.lru_cache(maxsize=512)
def _views(n: int, theta: float, peers: tuple[tuple[int, float], ...]) -> np.ndarray:
    """Pr[view | noisy labels], (2**n, 3**n): each user shows nothing, 0 or 1."""
    rows = []
    for noisy in itertools.product((0, 1), repeat=n):
        p = submits_one(noisy, dict(peers))
        user = np.array([1.0 - theta, theta * (1.0 - p), theta * p])
        rows.append(functools.reduce(np.kron, [user] * n))
    return np.array(rows)


def enumerated(n: int, alpha: float, theta: float, peers: dict[int, float], epsilon: float, rounds: int = 1) -> float:
    """The largest hockey-stick divergence over all ordered pairs of neighbouring label vectors."""
    once = given = _views(n, theta, tuple(peers.items()))
    for _ in range(rounds - 1):
        given = (given[:, :, None] * once[:, None, :]).reshape(len(once), -1)
    laws = {labels: flip_law(labels, alpha) @ given for labels in itertools.product((0, 1), repeat=n)}
    worst = 0.0
    for labels, p in laws.items():
        for target in range(n):
            q = laws[tuple(1 - y if i == target else y for i, y in enumerate(labels))]
            worst = max(worst, float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()))
    return worst


def share(p: np.ndarray, peers: dict[int, float]) -> np.ndarray:
    """g(p) = Σ w_k Pr[Bin(k, p) > k/2]."""
    return sum(weight * binom.sf(k // 2, k, p) for k, weight in peers.items())


def summed(n: int, alpha: float, theta: float, peers: dict[int, float], epsilons: list[float]) -> list[float]:
    """δ by summing over all data sets, all t, all numbers of ones and all noisy labels, at each ε."""
    p = share(np.arange(n + 1) / n, peers)
    laws = np.stack([_others(n, alpha, ones) for ones in range(n)], axis=1)
    totals = np.zeros((len(epsilons), 2, n))
    for t in range(n + 1):
        weight = binom.pmf(t, n, theta)
        if weight == 0.0:
            continue
        kernel = binom.pmf(np.arange(t + 1)[:, None], t, p)
        a, b = kernel[:, :-1] @ laws, kernel[:, 1:] @ laws
        zero, one = (1 - alpha) * a + alpha * b, alpha * a + (1 - alpha) * b
        for row, epsilon in enumerate(epsilons):
            for way, (u, v) in enumerate(((zero, one), (one, zero))):
                totals[row, way] += weight * np.maximum(u - math.exp(epsilon) * v, 0.0).sum(axis=0)
    return [float(total.max()) for total in totals]


@functools.lru_cache(maxsize=4096)
def _others(n: int, alpha: float, ones: int) -> np.ndarray:
    first = binom.pmf(np.arange(ones + 1), ones, 1 - alpha)
    return np.convolve(first, binom.pmf(np.arange(n - ones), n - 1 - ones, alpha))


def fifty_digits(n: int, alpha: float, theta: float, peers: dict[int, float], epsilon: float) -> mp.mpf:
    """δ by direct summation over all data sets in 50-digit arithmetic."""
    with mp.workdps(50):
        a, grow = mp.mpf(alpha), mp.exp(mp.mpf(epsilon))
        p = [exact_share(mp.mpf(j) / n, peers) for j in range(n + 1)]
        totals = [[mp.mpf(0), mp.mpf(0)] for _ in range(n)]
        for t in range(n + 1):
            weight = binomial(t, n, mp.mpf(theta))
            kernel = [[binomial(k, t, q) for q in p] for k in range(t + 1)]
            for ones, total in enumerate(totals):
                law = [mp.mpf(0)] * n
                for x, y in itertools.product(range(ones + 1), range(n - ones)):
                    law[x + y] += binomial(x, ones, 1 - a) * binomial(y, n - 1 - ones, a)
                for row in kernel:
                    zero, one = (mp.fsum(x * q for x, q in zip(law, part, strict=True)) for part in (row[:-1], row[1:]))
                    u, v = (1 - a) * zero + a * one, a * zero + (1 - a) * one
                    total[0] += weight * max(u - grow * v, mp.mpf(0))
                    total[1] += weight * max(v - grow * u, mp.mpf(0))
        return max(max(total) for total in totals)


def exact_share(p: mp.mpf, peers: dict[int, float]) -> mp.mpf:
    """g(p) at the working precision; the weights count as exact, over their sum."""
    weights = {k: mp.mpf(weight) for k, weight in peers.items()}
    tails = (w * mp.fsum(binomial(j, k, p) for j in range((k + 1) // 2, k + 1)) for k, w in weights.items())
    return mp.fsum(tails) / mp.fsum(weights.values())


def binomial(k: int, trials: int, p: mp.mpf) -> mp.mpf:
    """Bin(k; trials, p)."""
    return mp.binomial(trials, k) * p**k * (1 - p) ** (trials - k)
