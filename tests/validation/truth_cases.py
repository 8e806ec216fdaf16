"""Random points for `truth`, a kind of case for each observer and each way to the truth."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from p2p_sim.privacy.bound import Bracket, PrivacyBound
from p2p_sim.privacy.exchange.delta_evaluator import DeltaEvaluator
from p2p_sim.privacy.exchange.kary import KaryExchange
from p2p_sim.privacy.exchange.label_exchange import LabelExchange
from p2p_sim.privacy.exchange.observers import Coalition, Eavesdropper, Peer, TimedLearner
from p2p_sim.privacy.exchange.one_cluster import ClusterExchange
from p2p_sim.privacy.overlays.fetch_distribution import FetchDistribution
from p2p_sim.privacy.overlays.realised_network import CappedFetch, UniformSources
from p2p_sim.privacy.randomized_response import local_epsilon
from p2p_sim.privacy.rivals.shuffled_labels import ShuffledResponse
from p2p_sim.privacy.rivals.shuffled_messages import ShuffledMessages
from tests.validation import arb_truths as exact
from tests.validation.arb_truths import Curve, arb, ball

CURVE = 5
"""ε for each case."""


@dataclass(frozen=True)
class Case:
    """One observer at one choice of parameters.

    observer, about: its kind, and all parameters; users: n; local: ε₀ of its noise.
    deltas: δ at several ε. truths: curves of some data sets, given the ε; none if the truth is not known.
    complete: whether the largest of these curves is the truth, or nearly; else each of them is below it.
    epsilon: ε(δ), if it is to be checked.
    """

    observer: str
    about: str
    users: int
    local: float
    deltas: Callable[[Sequence[float]], Sequence[Bracket]]
    truths: Callable[[Sequence[float]], list[Curve]]
    complete: bool = True
    epsilon: Callable[[float], PrivacyBound] | None = None

    def epsilons(self, rng: random.Random) -> list[float]:
        """ε from 0 to ε₀, both ends and what lies beside them as well."""
        top = min(self.local, 700.0)
        draws = (
            lambda: top * rng.random(),
            lambda: top * rng.random() ** 4,
            lambda: top * 10.0 ** -rng.uniform(0.0, 20.0),
            lambda: top * (1.0 - 10.0 ** -rng.uniform(0.0, 16.0)),
            lambda: rng.choice((0.0, top, 5e-324, math.nextafter(top, 0.0), top * 1.01)),
        )
        return [rng.choices(draws, (4, 3, 1, 2, 1))[0]() for _ in range(CURVE)]


def none(_: Sequence[float]) -> list[Curve]:
    """No truth is known."""
    return []


def each(delta: Callable[[float], Bracket]) -> Callable[[Sequence[float]], list[Bracket]]:
    """δ at several ε, one after the other."""
    return lambda epsilons: [delta(epsilon) for epsilon in epsilons]


def flip_prob(rng: random.Random, least: float = 1e-300, largest: float = 0.5) -> float:
    """α over its whole range."""
    draws = (
        lambda: largest * rng.random(),
        lambda: 10.0 ** rng.uniform(-4.0, math.log10(largest)),
        lambda: min(largest, max(least, 10.0 ** rng.uniform(math.log10(least), -4.0))),
        lambda: largest * (1.0 - 10.0 ** -rng.uniform(1.0, 16.0)),
        lambda: rng.choice((0.0, least, largest, 0.1, 0.25)),
    )
    return rng.choices(draws, (4, 5, 3, 2, 1))[0]()


def any_flip_prob(rng: random.Random) -> float:
    """α over the whole range of observers without amplification: the smallest numbers as well."""
    return rng.choice((flip_prob(rng), 10.0 ** -rng.uniform(300.0, 307.0), 5e-324 * rng.randrange(1, 2**40)))


def rate(rng: random.Random) -> float:
    """θ over its whole range."""
    draws = (rng.random, lambda: 10.0 ** -rng.uniform(0.0, 9.0), lambda: 10.0 ** -rng.uniform(9.0, 300.0), lambda: 1.0,
             lambda: 1.0 - 10.0 ** -rng.uniform(1.0, 15.0))  # fmt: skip
    return max(1e-300, rng.choices(draws, (5, 3, 1, 2, 1))[0]())


def log_uniform(rng: random.Random, low: int, high: int) -> int:
    """A whole number between."""
    return min(high, max(low, round(math.exp(rng.uniform(math.log(low), math.log(high + 0.49))))))


def settled(setting: ClusterExchange) -> bool:
    """Whether `worst_ones` holds the worst data set, or the one for which the lower end is found."""
    return setting.flip_prob == 0.0 or setting.sources <= 400 or not setting.searched_in_full


def worst_ones(setting: ClusterExchange, epsilons: Sequence[float], rng: random.Random) -> set[int]:
    """Data sets worth a look: 0, one at random, and those that a scan finds worst at some of the ε."""
    half = (setting.sources - 1) // 2
    found = {0, rng.randint(0, half)}
    if setting.flip_prob == 0.0 or not setting.searched_in_full or setting.sources > 400:
        return found
    for epsilon in epsilons:
        if epsilon < local_epsilon(setting.flip_prob):
            scan, best = DeltaEvaluator(setting, setting._log_delta(epsilon)), (-1.0, 0)
            for first in range(0, half + 1, 64):
                ones = range(first, min(first + 64, half + 1))
                values = scan.bounds(scan.views(ones), epsilon)[1].max(axis=1)
                best = max(best, (float(values.max()), ones[int(values.argmax())] if len(values) > 1 else ones[0]))
            found.add(best[1])
    return found


def eavesdropper(rng: random.Random) -> Case:
    alpha = any_flip_prob(rng)
    observer, n = Eavesdropper(alpha), log_uniform(rng, 100, 10**6)
    curve = lambda epsilon: exact.local(alpha, epsilon)  # noqa: E731
    return Case("eavesdropper", f"Eavesdropper({alpha!r})", n, min(local_epsilon(alpha), 800.0), each(observer.delta),
                lambda _: [curve], True, observer.epsilon)  # fmt: skip


def peer(rng: random.Random) -> Case:
    alpha, n = any_flip_prob(rng), log_uniform(rng, 2, 10**6)
    observer = Peer(n, alpha)
    curve = lambda epsilon: exact.local(alpha, epsilon) / n  # noqa: E731
    return Case("peer", f"Peer({n}, {alpha!r})", n, local_epsilon(alpha), each(observer.delta), lambda _: [curve],
                True, observer.epsilon)  # fmt: skip


def timed(rng: random.Random) -> Case:
    alpha, n = flip_prob(rng), log_uniform(rng, 2, 10**6)
    observer = TimedLearner(LabelExchange(n, alpha, rate(rng)))
    curve = lambda epsilon: exact.local(alpha, epsilon)  # noqa: E731
    return Case("learner-times", f"Timed{observer.exchange}", n, local_epsilon(alpha), each(observer.delta),
                lambda _: [curve], False)  # fmt: skip


def few(mean: float) -> int:
    """How many submissions to look at, if so many are expected: more are less probable than any by 1e-26 and more."""
    top = 1
    while (top + 1) * math.log(mean) - math.lgamma(top + 2) > min(0.0, math.log(mean)) - 60.0:
        top += 1
    return top + 1


def _learner(rng: random.Random, exchange: LabelExchange, top: int | None, inverse: bool = False) -> Case:
    setting = exchange.setting
    s, trials, alpha = setting.sources, setting.trials, setting.flip_prob

    def curves(epsilons: Sequence[float]) -> list[Curve]:
        if alpha == 0.0:
            return [lambda _: exact.exposure(s, trials, setting.rate)]
        theta = Fraction(setting.rate)
        if s < 20:
            return [exact.all_counts(s, trials, theta, alpha, m) for m in range((s + 1) // 2)]
        if top is None:
            return [exact.all_counts(s, trials, theta, alpha, m) for m in worst_ones(setting, epsilons, rng)]
        return [exact.few_counts(s, trials, theta, alpha, m, top) for m in worst_ones(setting, epsilons, rng)]

    return Case("learner", repr(exchange), s, local_epsilon(alpha), exchange.profile, curves, settled(setting),
                exchange.epsilon if inverse else None)  # fmt: skip


def learner_tiny(rng: random.Random) -> Case:
    exchange = LabelExchange(rng.randint(2, 9), flip_prob(rng), rate(rng), rng.choice((1, 1, 1, 2, 5)))
    return _learner(rng, exchange, None, rng.random() < 0.3)


def learner_full(rng: random.Random) -> Case:
    """Everybody submits."""
    return _learner(
        rng, LabelExchange(rng.choice((100, 101, 140, 180)), flip_prob(rng), 1.0), None, rng.random() < 0.05
    )


def learner_half(rng: random.Random) -> Case:
    """A hundred users, of whom any number submit."""
    return _learner(rng, LabelExchange(100, flip_prob(rng), rng.choice((0.05, 0.5, 0.97, rng.random()))), None)


def learner_few(rng: random.Random) -> Case:
    """Few submissions of many users."""
    n = log_uniform(rng, 100, 400) if rng.random() < 0.95 else log_uniform(rng, 400, 2500)
    rounds = rng.choice((1, 1, 1, 3))
    theta = max(
        1e-300, 10.0 ** -rng.choice((rng.uniform(0, 3), rng.uniform(0, 12), rng.uniform(0, 299))) / (n * rounds)
    )
    return _learner(rng, LabelExchange(n, flip_prob(rng), theta, rounds), few(n * rounds * theta))


def learner_huge(rng: random.Random) -> Case:
    """The same up to a million users."""
    n = log_uniform(rng, 2049, 10**6)
    theta = 10.0 ** -rng.uniform(1, 12) / n
    return _learner(rng, LabelExchange(n, flip_prob(rng), theta), few(n * theta))


def learner_any(rng: random.Random) -> Case:
    """No truth, any size."""
    n = log_uniform(rng, 2, 300) if rng.random() < 0.98 else log_uniform(rng, 2049, 5000)
    exchange = LabelExchange(n, flip_prob(rng), rate(rng), rng.choice((1, 1, 2)))
    return Case("learner", repr(exchange), n, local_epsilon(exchange.flip_prob), exchange.profile, none, True,
                exchange.epsilon if n < 80 and rng.random() < 0.2 else None)  # fmt: skip


def sources_few(rng: random.Random) -> Case:
    """A realised network with few submissions, or as many as there are sources."""
    alpha, full = flip_prob(rng), rng.random() < 0.3
    s = (
        rng.choice((100, 140))
        if full
        else log_uniform(rng, 100, 500)
        if rng.random() < 0.97
        else log_uniform(rng, 2049, 10**6)
    )
    t = rng.choice((40, 100, 150)) if full else rng.randint(1, 14 if s <= 2048 else 4)
    known = rng.choice((0, 0, 1, s // 10)) if s <= 2048 else 0
    members, draws = (rng.choice((0, 1, 3)), rng.choice((1, 2))) if s <= 2048 else (0, 1)
    observer, setting = UniformSources(s, known, t, alpha, members, draws), ClusterExchange(s, alpha, t, 1.0)

    def curves(epsilons: Sequence[float]) -> list[Curve]:
        if alpha == 0.0:
            return [lambda _: exact.exposure(s, t, 1.0)]
        ones = worst_ones(setting, epsilons, rng)
        if full:
            return [exact.all_counts(s, t, Fraction(1), alpha, m) for m in ones]
        return [exact.few_counts(s, t, Fraction(1), alpha, m, t) for m in ones]

    return Case("uniform-sources", repr(observer), s, local_epsilon(alpha), each(observer.delta), curves,
                settled(setting) and not known and not members)  # fmt: skip


def shuffled(rng: random.Random) -> Case:
    n, alpha = log_uniform(rng, 2, 300) if rng.random() < 0.9 else log_uniform(rng, 300, 3000), flip_prob(rng)
    observer = ShuffledResponse(n, alpha)
    ones = set(range((n + 1) // 2)) if n <= 60 else {0, rng.randint(0, (n - 1) // 2)} if n < 400 else {0}

    def curves(_: Sequence[float]) -> list[Curve]:
        return [exact.shuffled(n, alpha, m) for m in ones] if alpha > 0.0 else [lambda _: arb(1)]

    # the worst data set is looked for in small clusters, and above 2,048 users the lower end is that of m = 0
    return Case("shuffled", repr(observer), n, local_epsilon(alpha), each(observer.delta), curves, n <= 60 or n > 2048)


def messages(rng: random.Random) -> Case:
    """The bound for any randomizer, against randomised response between two labels."""
    n, alpha = log_uniform(rng, 2, 250), flip_prob(rng)
    local = local_epsilon(alpha)
    observer = ShuffledMessages(n, local, rng.choice((1.0, math.nextafter(1.0 - 2.0 * alpha, 1.0))))
    m = rng.randint(0, (n - 1) // 2)
    return Case("shuffled-messages", f"{observer!r}, α = {alpha!r}, m = {m}", n, local, each(observer.delta),
                lambda _: [exact.shuffled(n, alpha, m)] if alpha > 0.0 else [lambda _: arb(1)], False)  # fmt: skip


def kary_many(rng: random.Random) -> Case:
    """Many users: told only which submissions are of one class, the truth is known if few submit."""
    n, k = log_uniform(rng, 100, 3000), rng.choice((2, 3, 5, 10, 1000))
    alpha = flip_prob(rng, largest=(k - 1) / k)
    theta = max(1e-300, 10.0 ** -rng.choice((rng.uniform(0, 3), rng.uniform(0, 299))) / n)
    observer = KaryExchange(n, alpha, theta, k)
    other = ball(alpha) / (k - 1)

    def curves(_: Sequence[float]) -> list[Curve]:
        return [exact.few_counts(n, n, Fraction(theta), alpha, 0, few(n * theta), (other, ball(alpha)))]

    return Case("kary", repr(observer), n, local_epsilon(alpha, k), each(observer.delta), curves, False)


def kary_tiny(rng: random.Random) -> Case:
    n, k = rng.choice(((2, 2), (2, 3), (3, 3), (2, 5), (4, 2)))
    alpha, theta = flip_prob(rng, largest=(k - 1) / k), rate(rng)
    observer, others = KaryExchange(n, alpha, theta, k), [rng.randrange(k) for _ in range(n - 1)]

    def curves(_: Sequence[float]) -> list[Curve]:
        sets = [others] if n > 2 else [[label] for label in range(k)]
        return [exact.kary(n, k, alpha, theta, labels) for labels in sets]

    return Case("kary", repr(observer), n, local_epsilon(alpha, k), each(observer.delta), curves, n == 2)


def coalition_tiny(rng: random.Random) -> Case:
    n = rng.randint(2, 8)
    c, alpha, theta = rng.randint(1, min(n - 1, 3)), flip_prob(rng), rate(rng)
    observer = Coalition(LabelExchange(n, alpha, theta), c)

    def curves(_: Sequence[float]) -> list[Curve]:
        return [exact.coalition(n, alpha, theta, c, m) for m in range((n - c - 1) // 2 + 1)] if alpha > 0.0 else []

    return Case("coalition", repr(observer), n, local_epsilon(alpha), each(observer.delta), curves)


def coalition_many(rng: random.Random) -> Case:
    """Many users: the members who forget what they got are below the truth."""
    n = log_uniform(rng, 100, 300)
    c, alpha = rng.choice((1, 2, 10, n // 2, n - 1)), flip_prob(rng)
    theta = max(1e-300, 10.0 ** -rng.choice((rng.uniform(0, 3), rng.uniform(0, 299))) / n)
    observer, s = Coalition(LabelExchange(n, alpha, theta), c), n - c

    def curves(_: Sequence[float]) -> list[Curve]:
        met = 1 - ball(Fraction(n - 1, n)) ** c
        if alpha == 0.0:
            return [lambda e: met + (1 - met) * (1 - (1 - ball(Fraction(theta) / n)) ** s)]
        rest = exact.few_counts(s, s, Fraction(theta) * s / n, alpha, 0, few(s * theta))
        return [lambda e: met * exact.local(alpha, e) + (1 - met) * rest(e)]

    return Case("coalition", repr(observer), n, local_epsilon(alpha), each(observer.delta), curves, False)


def _row(rng: random.Random, n: int) -> list[float]:
    """A fetch distribution that sums to exactly one."""
    cuts = sorted(rng.choice((0, 2**45, rng.randrange(2**45), rng.randrange(2**10))) for _ in range(n - 1))
    parts = [after - before for before, after in zip([0, *cuts], [*cuts, 2**45], strict=True)]
    rng.shuffle(parts)
    return [part / 2**45 for part in parts]


def fetch_tiny(rng: random.Random) -> Case:
    """Any overlay of three users, each with a rate of her own."""
    n = 3
    table = np.array([_row(rng, n) for _ in range(n)])
    alpha = rng.choice((flip_prob(rng), any_flip_prob(rng)))
    rates = [rate(rng) for _ in range(n)]
    if rng.random() < 0.3:
        table, rates = np.eye(n), [rates[0]] * n
    observer = FetchDistribution(table, alpha, np.array(rates))
    labels = [rng.randrange(2) for _ in range(n)]

    def curves(_: Sequence[float]) -> list[Curve]:
        return [exact.fetch(table.tolist(), alpha, rates, target, labels) for target in range(n)]

    return Case("fetch", f"{table.tolist()}, α = {alpha!r}, rates {rates}, labels {labels}", n, local_epsilon(alpha),
                each(observer.delta), curves, False)  # fmt: skip


def capped(rng: random.Random) -> Case:
    """Submitters who fetch uniformly: no cap is exceeded."""
    s, t, alpha = log_uniform(rng, 100, 10**6), rng.randint(1, 10), any_flip_prob(rng)
    observer = CappedFetch(np.full(t, math.nextafter(1.0 / s, 1.0)), alpha)

    def curves(_: Sequence[float]) -> list[Curve]:
        if alpha == 0.0:
            return [lambda _: exact.exposure(s, t, 1.0)]
        return [exact.few_counts(s, t, Fraction(1), alpha, rng.choice((0, s // 3)), t)]

    return Case(
        "capped-fetch",
        f"{t} caps of 1/{s}, α = {alpha!r}",
        s,
        local_epsilon(alpha),
        each(observer.delta),
        curves,
        False,
    )


KINDS: dict[str, tuple[float, Callable[[random.Random], Case]]] = {
    "eavesdropper": (6, eavesdropper), "peer": (4, peer), "timed": (2, timed),
    "learner_tiny": (12, learner_tiny), "learner_full": (5, learner_full), "learner_half": (0.3, learner_half),
    "learner_few": (8, learner_few),
    "learner_huge": (0.3, learner_huge), "learner_any": (12, learner_any), "sources_few": (9, sources_few),
    "shuffled": (10, shuffled), "messages": (6, messages), "kary_many": (6, kary_many), "kary_tiny": (4, kary_tiny),
    "coalition_tiny": (4, coalition_tiny), "coalition_many": (5, coalition_many), "fetch_tiny": (4, fetch_tiny),
    "capped": (4, capped),
}  # fmt: skip
"""Kinds of cases: how often they are drawn, and how."""
