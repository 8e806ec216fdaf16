"""δ to more than 50 digits, in ball arithmetic: slow and obvious counterparts of the accountants.

A ball holds the true value; where terms are left out, what they can add widens it. Parameters are the floats that the
accountants get, taken as exact.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import flint
from flint import arb

flint.ctx.prec = 400
Views = list[tuple[arb, arb]]
"""Probabilities of each view with the target's noisy bit 0 and 1."""


def ball(x: float | int | Fraction) -> arb:
    """The number as it is."""
    exact = Fraction(x)
    return arb(flint.fmpq(exact.numerator, exact.denominator))


def between(low: arb, high: arb) -> arb:
    """A ball that holds both."""
    return low.union(high)


def positive(x: arb) -> arb:
    """max(0, x)."""
    if x > 0:
        return x
    return arb(0) if x < 0 else arb(0).union(x)


def local(alpha: float, epsilon: float, classes: int = 2) -> arb:
    """max(0, 1-α-e^ε α/(K-1))."""
    other = ball(alpha) / (classes - 1)
    return positive(1 - ball(alpha) - other - ball(epsilon).expm1() * other)


def larger(a: arb, b: arb) -> arb:
    """The larger of two numbers, or a ball that holds it."""
    return a if a >= b else b if b >= a else between(a, b)


def divergence(views: Views, epsilon: float, wrong: arb, missed: arb) -> arb:
    """The larger hockey-stick divergence, if the noisy bit is 1 with probability `wrong` given label 0, and 0 with
    probability `missed` given label 1."""
    growth, gap, sums = ball(epsilon).expm1(), 1 - missed - wrong, []
    for keep, lose, place in ((gap - growth * missed, gap + growth * (1 - missed), 0),
                              (gap - growth * wrong, gap + growth * (1 - wrong), 1)):  # fmt: skip
        sums.append(sum((positive(keep * pair[place] - lose * pair[1 - place]) for pair in views), arb(0)))
    return larger(*sums)


def binomial(users: int, chance: arb) -> list[arb]:
    """Bin(k; users, chance) for every k."""
    if chance == 0 or chance == 1:
        return [arb(int(k == (0 if chance == 0 else users))) for k in range(users + 1)]
    law = [(1 - chance) ** users]
    odds = chance / (1 - chance)
    for k in range(users):
        law.append(law[-1] * odds * (users - k) / (k + 1))
    return law


@functools.lru_cache(maxsize=64)
def noisy(zeros: int, ones: int, alpha: float) -> tuple[arb, ...]:
    """The law of the number of noisy ones among so many holders of 0 and of 1."""
    first, second = binomial(zeros, ball(alpha)), binomial(ones, ball(alpha))[::-1]
    if not ones:
        return tuple(first)
    return tuple((flint.arb_poly(first) * flint.arb_poly(second))[k] for k in range(zeros + ones + 1))


@functools.lru_cache(maxsize=512)
def kernel(sources: int, t: int) -> flint.arb_mat:
    """Bin(k; t, j/sources): a row for each k, a column for each j."""
    columns = [binomial(t, arb(j) / sources) for j in range(sources + 1)]
    return flint.arb_mat(t + 1, sources + 1, [columns[j][k] for k in range(t + 1) for j in range(sources + 1)])


def views(sources: int, t: int, law: Sequence[arb], known_ones: int = 0) -> Views:
    """Of t submissions, with so many noisy ones among the others (and known ones)."""
    table = kernel(sources, t)
    pads = [
        [arb(0)] * shift + list(law) + [arb(0)] * (sources + 1 - shift - len(law))
        for shift in (known_ones, known_ones + 1)
    ]
    a, b = (table * flint.arb_mat(sources + 1, 1, pad) for pad in pads)
    return [(a[k, 0], b[k, 0]) for k in range(t + 1)]


def few_views(sources: int, t: int, moments: Sequence[tuple[arb, arb]]) -> Views:
    """Of t submissions, from the moments E (X/S)^j and E ((X+1)/S)^j: any number of sources."""
    found = []
    for k in range(t + 1):
        ends = [arb(0), arb(0)]
        for i in range(t - k + 1):
            sign = math.comb(t - k, i) * (-1) ** i
            for place in (0, 1):
                ends[place] += sign * moments[k + i][place]
        found.append((math.comb(t, k) * ends[0], math.comb(t, k) * ends[1]))
    return found


def moments(
    sources: int, zeros: int, ones: int, alpha: float, top: int, chances: tuple[arb, arb] | None = None
) -> list[tuple[arb, arb]]:
    """E (X/S)^j and E ((X+1)/S)^j, j = 0..top, from factorial moments."""
    p, q = chances or (ball(alpha), ball(alpha))
    first = [p**j * arb(math.comb(zeros, j)) for j in range(top + 1)]
    second = [(1 - q) ** j * arb(math.comb(ones, j)) for j in range(top + 1)]
    factorial = [
        math.factorial(j) * sum((first[i] * second[j - i] for i in range(j + 1)), arb(0)) for j in range(top + 1)
    ]
    raw = [sum((_stirling(j, i) * factorial[i] for i in range(j + 1)), arb(0)) for j in range(top + 1)]
    up = [sum((math.comb(j, i) * raw[i] for i in range(j + 1)), arb(0)) for j in range(top + 1)]
    return [(raw[j] / arb(sources) ** j, up[j] / arb(sources) ** j) for j in range(top + 1)]


@functools.cache
def _stirling(n: int, k: int) -> int:
    if n == k:
        return 1
    return 0 if k == 0 or k > n else k * _stirling(n - 1, k) + _stirling(n - 1, k - 1)


Curve = Callable[[float], arb]


def all_counts(sources: int, trials: int, rate: Fraction, alpha: float, ones: int) -> Curve:
    """δ(ε) of one data set, t ~ Bin(trials, rate): every t, every k, every X."""
    law = noisy(sources - 1 - ones, ones, alpha)
    mass = binomial(trials, ball(rate))
    seen = [(mass[t], views(sources, t, law)) for t in range(1, trials + 1) if not mass[t] == 0]  # noqa: SIM201 (balls)
    flat = [(w * a, w * b) for w, part in seen for a, b in part]
    return lambda epsilon: divergence(flat, epsilon, ball(alpha), ball(alpha))


def few_counts(
    sources: int, trials: int, rate: Fraction, alpha: float, ones: int, top: int, chances: tuple[arb, arb] | None = None
) -> Curve:
    """The same up to t = top; more submissions can add their probability times the local δ.

    chances: of a 1 from those who hold 0, and of a 0 from those who hold 1, where they are not α.
    """
    wrong, missed = chances or (ball(alpha), ball(alpha))
    found = moments(sources, sources - 1 - ones, ones, alpha, min(top, trials), (wrong, missed))
    p, flat, seen = ball(rate), [], arb(0)
    for t in range(min(top, trials) + 1):
        weight = math.comb(trials, t) * p**t * (1 - p) ** (trials - t)
        seen += weight
        flat += [(weight * a, weight * b) for a, b in few_views(sources, t, found)] if t else []
    mean = trials * p
    rest = mean ** (top + 1) / math.factorial(top + 1) if trials > top else arb(0)  # Pr[t > top] is at most this

    def curve(epsilon: float) -> arb:
        value, growth = divergence(flat, epsilon, wrong, missed), ball(epsilon).expm1()
        keep = larger(*(positive(1 - wrong - missed - growth * lost) for lost in (wrong, missed)))  # no view gives more
        return between(value, value + rest * keep)

    return curve


def shuffled(n: int, alpha: float, ones: int) -> Curve:
    """δ(ε) of the number of noisy ones."""
    law = noisy(n - 1 - ones, ones, alpha)
    both = list(zip([*law, arb(0)], [arb(0), *law], strict=True))
    return lambda epsilon: divergence(both, epsilon, ball(alpha), ball(alpha))


def exposure(sources: int, trials: int, rate: float) -> arb:
    """1 - (1 - rate/S)^trials."""
    return 1 - (1 - ball(Fraction(rate) / sources)) ** trials


def coalition(n: int, alpha: float, theta: float, members: int, ones: int) -> Curve:
    """δ(ε) of the coalition for one data set of the others that are no members; every draw of every member."""
    sources, zeros = n - members, n - members - 1 - ones
    known: dict[tuple[int, int], Fraction] = {(0, 0): Fraction(1)}
    for _ in range(members):
        then: dict[tuple[int, int], Fraction] = {}
        for (f0, f1), p in known.items():
            for key, ways in (((f0, f1), members + f0 + f1), ((f0 + 1, f1), zeros - f0), ((f0, f1 + 1), ones - f1)):
                if ways > 0:
                    then[key] = then.get(key, Fraction(0)) + p * Fraction(ways, n)
        known = then
    mass, flat = binomial(sources, ball(Fraction(theta) * sources / n)), []
    for (f0, f1), p in known.items():
        bits, law = noisy(f0, f1, alpha), noisy(zeros - f0, ones - f1, alpha)
        for t in range(1, sources + 1):
            for j, bit in enumerate(bits):
                weight = ball(p) * bit * mass[t]
                flat += [(weight * a, weight * b) for a, b in views(sources, t, law, j)]
    met = 1 - ball(Fraction(n - 1, n)) ** members
    flat += [(met, arb(0)), (arb(0), met)]
    return lambda epsilon: divergence(flat, epsilon, ball(alpha), ball(alpha))


def fetch(
    weights: Sequence[Sequence[float]], alpha: float, rates: Sequence[float], target: int, labels: Sequence[int]
) -> Curve:
    """δ(ε) of the target where user i's release is seen as hers: every noisy bit, every view."""
    n, chance = len(weights), ball(alpha)
    flat: dict[tuple[int, ...], list[arb]] = {}
    for bits in itertools.product((0, 1), repeat=n):
        weight = arb(1)
        for j in range(n):
            if j != target:
                weight *= chance if bits[j] != labels[j] else 1 - chance
        ones = [sum((ball(w) for w, bit in zip(row, bits, strict=True) if bit), arb(0)) for row in weights]
        zeros = [sum((ball(w) for w, bit in zip(row, bits, strict=True) if not bit), arb(0)) for row in weights]
        for view in itertools.product((0, 1, 2), repeat=n):
            p = weight
            for i, what in enumerate(view):
                p *= 1 - ball(rates[i]) if what == 2 else ball(rates[i]) * (ones[i] if what else zeros[i])
            flat.setdefault(view, [arb(0), arb(0)])[bits[target]] += p
    both = [(a, b) for a, b in flat.values()]
    return lambda epsilon: divergence(both, epsilon, chance, chance)


def kary(n: int, classes: int, alpha: float, theta: float, others: Sequence[int]) -> Curve:
    """δ(ε) of K-ary labels for one data set, target 0 against 1: every noisy vector, every view of counts."""
    noise = ball(alpha) / (classes - 1)
    sides: list[dict[tuple[int, ...], arb]] = [{}, {}]
    for bits in itertools.product(range(classes), repeat=n):
        counts = [bits.count(c) for c in range(classes)]
        shared = arb(1)
        for label, bit in zip(others, bits[1:], strict=True):
            shared *= 1 - ball(alpha) if label == bit else noise
        for side in (0, 1):
            weight = shared * (1 - ball(alpha) if bits[0] == side else noise)
            place = sides[side]
            place[tuple(counts)] = place.get(tuple(counts), arb(0)) + weight
    mass = binomial(n, ball(theta))
    shown: dict[tuple[int, ...], list[arb]] = {}
    for t in range(1, n + 1):
        for view in _splits(t, classes):
            ways = math.factorial(t) // math.prod(math.factorial(v) for v in view)
            for side in (0, 1):
                total = arb(0)
                for counts, weight in sides[side].items():
                    if all(c or not v for c, v in zip(counts, view, strict=True)):
                        total += weight * ball(
                            Fraction(math.prod(c**v for c, v in zip(counts, view, strict=True)), n**t)
                        )
                shown.setdefault(view, [arb(0), arb(0)])[side] += mass[t] * ways * total

    def curve(epsilon: float) -> arb:
        grow, sums = ball(epsilon).exp(), [arb(0), arb(0)]
        for p, q in shown.values():
            sums[0] += positive(p - grow * q)
            sums[1] += positive(q - grow * p)
        return larger(*sums)

    return curve


def _splits(total: int, parts: int) -> list[tuple[int, ...]]:
    if parts == 1:
        return [(total,)]
    return [(first, *rest) for first in range(total + 1) for rest in _splits(total - first, parts - 1)]
