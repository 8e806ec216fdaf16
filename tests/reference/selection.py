"""Private selection by enumeration: a run has few outcomes with scores; the number of runs has listed masses."""

import itertools
import math

TAIL = 1e-13
"""Mass of the numbers of runs that are left out."""


def truncated_negative_binomial(eta, gamma):
    """Masses of k = 0, 1, 2, ... by the definition, factor by factor."""
    found, left, k = [0.0], 1.0, 1
    while left > TAIL:
        if eta == 0.0:
            mass = (1 - gamma) ** k / (k * math.log(1 / gamma))
        else:
            product = math.prod((i + eta) / (i + 1) for i in range(k))
            mass = (1 - gamma) ** k / (gamma**-eta - 1) * product
        found.append(mass)
        left -= mass
        k += 1
    return found


def poisson(mu):
    found, left = [], 1.0
    while left > TAIL:
        k = len(found)
        found.append(math.exp(-mu) * mu**k / math.factorial(k))
        left -= found[-1]
    return found


def binomial(n, p):
    return [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]


def fixed(k):
    return [0.0] * k + [1.0]


def best_law(run, scores, masses, by_order=False):
    """Law of what is released: outcome of the best run, and last a constant if there is none.

    run: probabilities of the outcomes. scores: of each; equal ones are settled at random, or for the later outcome.
    """
    order = list(enumerate(scores)) if by_order else [(0, score) for score in scores]
    rank = [(score, place) for place, score in order]
    found = []
    for outcome, mass in enumerate(run):
        alike = sum(m for m, r in zip(run, rank, strict=True) if r == rank[outcome])
        below = sum(m for m, r in zip(run, rank, strict=True) if r < rank[outcome])
        gained = sum(pk * ((below + alike) ** k - below**k) for k, pk in enumerate(masses) if k)
        found.append(gained * mass / alike if mass else 0.0)
    return [*found, masses[0]]


def best_law_by_tuples(run, scores, masses):
    """The same by all tuples of outcomes, ties settled at random; for few numbers of runs."""
    found = [0.0] * len(run) + [masses[0]]
    for k, pk in enumerate(masses):
        for outcomes in itertools.product(range(len(run)), repeat=k) if k else ():
            best = [o for o in outcomes if scores[o] == max(scores[i] for i in outcomes)]
            for outcome in best:
                found[outcome] += pk * math.prod(run[o] for o in outcomes) / len(best)
    return found


def first_above(run, reaching, gamma):
    """Law of the first outcome that reaches a threshold, and last of nothing; a failure ends it with probability γ."""
    found, alive = [0.0] * (len(run) + 1), 1.0
    while alive > TAIL:
        for outcome, mass in enumerate(run):
            if reaching[outcome]:
                found[outcome] += alive * mass
            else:
                found[-1] += alive * mass * gamma
        alive *= (1 - gamma) * sum(m for m, r in zip(run, reaching, strict=True) if not r)
    return found


def delta(one, other, epsilon):
    """The larger hockey-stick divergence of the two directions."""
    ways = ((one, other), (other, one))
    return max(math.fsum(max(0.0, p - math.exp(epsilon) * q) for p, q in zip(*way, strict=True)) for way in ways)
