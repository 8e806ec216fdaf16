"""Upper bounds of δ from a *blanket*: messages that are drawn independently of their owner's label (Balle et al. 2019).

**What is revealed.** There are n users and t submissions, each with the message of an independent uniform user. A
message belongs to the blanket with probability γ, whatever its owner's label is. The users whose messages are submitted
are *visited*; V is their number. Reveal to the learner

- which submissions carry the same user's message;
- which users other than the target have a message outside the blanket, and which submissions carry these messages.

Let D be the number of visited users whose message is not revealed to be outside the blanket. The learner does not know
who these D users are, nor whether the target is among them. The target is visited with probability V/n. Each other
visited user is among the D with probability γ. So, by Bayes' rule, given V and D, the odds that the target is among the
D are D/γ : (n - V). Each of the D is equally likely to be the target.

**The bound.** Let P and Q be the laws (distributions) of what the learner sees under the target's two labels. A
message's *worth* is what it adds to P - e^ε Q, relative to the likelihood of blanket messages and up to a constant
factor. A message of the blanket is worth `keep` with probability 1/kinds (evidence for the first label), and `-lose`
with probability 1/kinds (evidence for the second). Otherwise it is worth `-rest` (evidence for neither). These names
are fields of `Blanket`. If a message is a label of k classes, `kinds` is k. The bound is

    δ(ε) <= (1/n) E [ Y_1 + ... + Y_V + (n - V)(1 - e^ε) ]_+ ,

where Y_1, Y_2, ... are independent copies of Y, and [x]_+ = max(0, x). If a message belongs to the blanket, Y is
`kinds`/γ times its worth; otherwise Y is 0. Y has mean 1 - e^ε. D is the number of terms whose message belongs to the
blanket. Repetitions of a message are no further evidence. If V = n, this is Lemma 5.3 of Balle et al. (2019) for all n
messages, shuffled.

The bound grows with V. To see this, replace Y_V by its mean 1 - e^ε, which gives the bound for V - 1. By Jensen's
inequality this does not raise the expectation.

**The law of V** (`visited`). Each of t ~ Bin(n, θ) submissions carries the noisy label of an independent, uniform user.
Since the bound grows with V, a block of values of V may count as its largest value. For the same reason, any law above
the law of V in the stochastic order may replace it.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from p2p_sim.privacy.binomial_windows import SUBNORMAL, UNIT, VALUE_ERROR, Floats, bernstein_window, binomial_pmf, some

EXACT = 4096
"""Largest number of users, and of submitters, for whom the law of V is computed submitter by submitter. Besides, V must
count all users whose label may be submitted.
"""
LOG_TAIL = -60.0
"""ln of the probability that a window of values may leave out on each side."""
Blocks = tuple[tuple[int, float], ...]
"""Pairs (V, probability), with V ascending. Each pair stands for a block of values of V, and has the largest one."""


@lru_cache(maxsize=64)
def visited(users: int, sampling_rate: float, blocks: int, sources: int, trials: int | None = None) -> Blocks:
    """A law on few values v that lies above the law of V, the number of users whose label is submitted.

    The result is pairs (v, probability). For every v, Pr[V >= v] is at most the same probability under the result. Each
    v stands for a block of values of V, and is the block's largest value.

    Args:
        users: number of users whom V may count, at most `sources`. sampling_rate: θ in (0, 1]. blocks: largest number
        of values near the mean of V; one more may be added. sources: number of users from whom a submission's label may
        come, each equally likely. trials: number of users who submit one label with probability θ each. None: the
        number `sources`.
    """
    trials = sources if trials is None else trials
    hit = sampling_rate / sources

    def tail(v: int) -> float:
        if users == sources and max(users, trials) <= EXACT:
            return float(_upper_tails(users, sampling_rate, trials)[v])
        return _bounded_tail(v, users, sampling_rate, hit, trials)

    # Blocks lie near the mean. By Bernstein's inequality, they leave out at most e^(-60) on either side. A last block
    # ends at V = `users`.
    mean = users * some(hit, trials)
    reach = math.sqrt(2.0 * mean * -LOG_TAIL) + -LOG_TAIL / 3.0
    low, high = max(0, math.floor(mean - reach)), min(users, math.ceil(mean + reach))
    between = np.linspace(low, high, min(blocks, high - low + 1)).round().astype(int).tolist()
    tops = [*dict.fromkeys([*between, users])]
    # A block gets Pr[V > the previous top] - Pr[V > its own top]. Bounds of these tails are made non-increasing.
    above = np.minimum.accumulate([1.0, *(tail(top + 1) for top in tops[:-1]), 0.0])
    weights = above[:-1] - above[1:] + 2.0 * UNIT * above[:-1]
    return tuple((int(top), float(weight)) for top, weight in zip(tops, weights, strict=True) if weight > 0.0)


@lru_cache(maxsize=16)
def _upper_tails(users: int, rate: float, trials: int) -> Floats:
    """Pr[V >= v] for v = 0..n + 1, rounded up. V is how many of n users have their label submitted.

    The law of V is computed submitter by submitter. Each submits, with probability `rate`, the label of a uniform user.
    All terms are positive. With u = 2^-53, the relative error of each step is below 6u. The sum of probabilities adds
    (n+1)u. The result is raised by more than these errors. To cover underflow, it is also raised by the smallest
    positive number for each step and value.

    Args:
        users: n. rate: probability that a submitter submits. trials: number of submitters.
    """
    steps = max(users, trials) + 1
    law, v = np.zeros(users + 1), np.arange(users + 1)
    law[0] = 1.0
    new, old = rate * ((users - v) / users), (1.0 - rate) + rate * (v / users)
    for _ in range(trials):
        moved = law[:-1] * new[:-1]
        law *= old
        law[1:] += moved
    sums = np.append(np.cumsum(law[::-1])[::-1], 0.0)
    return np.asarray(sums * (1.0 + 8.0 * steps * UNIT) + float(steps) ** 2 * SUBNORMAL)


def _bounded_tail(v: int, users: int, rate: float, hit: float, trials: int) -> float:
    """Upper bound of Pr[V >= v]. V is how many of `users` users have their label submitted.

    V is at most the number of submissions, which gives one bound. The other bound is Chernoff's. Let q be the
    probability that a given user's label is submitted. These events are negatively associated for different
    users (Dubhashi and Ranjan 1998). So E e^(sV) <= (1 - q + q e^s)^users for s >= 0, and any s gives a bound.

    Args:
        rate: probability that a submitter submits at all. hit: probability that a submitter submits the label of one
        particular user. trials: number of submitters.
    """
    q, x = some(hit, trials) * (1.0 + 2.0**-47), v / users
    if v > trials:
        return 0.0
    submitted = float(scipy.special.betainc(float(v), trials - v + 1.0, rate)) if v >= 1 else 1.0
    by_submissions = submitted * (1.0 + 1e-11) + 1e-300
    if x <= q:
        return min(1.0, by_submissions)
    # Chernoff: the best s is ln of the ratio of odds. Any other s gives a bound too; 40 is taken if x = 1.
    s = math.log(x / q) + (math.log1p(-q) - math.log1p(-x) if x < 1.0 else 40.0)
    exponent = users * math.log1p(q * math.expm1(s)) - s * v
    return min(1.0, by_submissions, math.exp(min(0.0, exponent + 1e-12 * (1.0 + s * v))))


MOST = 400_000
"""Approximate limit of the number of terms of a sum. It limits the number of blocks of b: how many messages of the
other users are in the blanket.
"""
BLOCKS = 6, 48
"""The smallest and the largest number of blocks of b for each V, by default."""


@dataclass(frozen=True)
class Blanket:
    """An upper bound of δ at one ε: the mean positive part of a random walk whose steps are the worths of messages.

    Args:
        users: n, at least 1, the target among them.
        share: γ in [0, 1], the probability that another user's message belongs to the blanket.
        kinds: k, at least 2, perhaps a fraction. 1/k is the probability of either kind of evidence for a label.
        keep, lose, rest: a blanket message is worth keep, -lose or -rest; lose and rest are at least 0.
        growth: e^ε - 1, rounded down; keep, lose and rest are in units in which E Y = 1 - e^ε.
    """

    users: int
    share: float
    kinds: float
    keep: float
    lose: float
    rest: float
    growth: float = 0.0

    def delta(self, visited: Blocks | None = None, blocks: tuple[int, int] = BLOCKS) -> float:
        """The upper bound of δ(ε), at the ε that this object was made for.

        Submitted labels that are drawn independently of their owner's label form the blanket. The blanket hides the
        target's label. The bound is a sum over V and b. V users have their label submitted. b of them, besides the
        target, have a label in the blanket. Both numbers are cut into blocks, and each block counts as its worst value.
        This saves time.

        Args:
            visited: the law of V as pairs (V, probability), each for one block. None: V = n, all users. blocks:
            smallest and largest number of blocks of b for each V, by default 6 and 48. More blocks give a sharper bound
            and take longer.
        """
        keep, lose, rest = self.keep, self.lose, self.rest
        if keep <= 0.0:
            return 2.0 * math.exp(LOG_TAIL)
        walk = _walk(self.users, self.share, self.kinds, visited or ((self.users, 1.0),), blocks)
        # s = `walk.both` messages are evidence for a label, and N ~ Bin(s, 1/2) of these s for the first label. The sum
        # of all worths, less the charge for users who are not visited, is (keep + lose)·N - due.
        due = (lose * walk.both + rest * (walk.total - walk.both) + self.growth * walk.unseen) * (1.0 - 1e-14)
        # `cut` is the smallest N that is counted: (keep + lose)·N - due is positive there, or 0 up to rounding. A term
        # of 0 adds nothing. For rounding, 1e-11 is charged below.
        cut = np.floor(due / (keep + lose) * (1.0 - 1e-13)) + 1.0
        gain = (keep + lose) * walk.both / 2.0 * _at_least(cut - 1.0, walk.both - 1.0)
        loss = due * _at_least(cut, walk.both)
        excess = np.maximum(gain - loss, 0.0) + 1e-11 * (gain + loss)
        lost = walk.lost * min(1.0, keep)  # k E[worth]_+ is at most keep
        return min(1.0, float(walk.weights @ excess) * walk.slack + lost + (keep + lose + rest) * walk.tiny)


@dataclass(frozen=True)
class _Walk:
    """The parts of the bound's sum that do not depend on ε: arrays (terms,) with an entry for each term (V, b, s).

    both: s, how many messages are evidence for a label. total: b + 1, how many messages belong to the blanket, where b
    is the first of its block.
    unseen: the charge for users who are not visited, in units of e^ε - 1. It is (n - V)γ/k times (b + 1)/(b' + 1),
    where b' is the last b of its block.
    weights: the term's probability times kV/(n(b+1)). slack: factor for the rounding of the whole sum.
    lost: probability left out of the law of b given V, times V/n, and averaged over V.
    tiny: probability left out of the law of s, times 2k, which exceeds kV/(n(b+1)); k is `kinds`.
    """

    both: Floats
    total: Floats
    unseen: Floats
    weights: Floats
    slack: float
    lost: float
    tiny: float


@lru_cache(maxsize=8)
def _walk(users: int, share: float, kinds: float, visited: Blocks, blocks: tuple[int, int]) -> _Walk:
    """The parts of the bound of δ(ε) that do not depend on ε, computed once for many ε.

    Of n users, V have their message submitted. The messages of b of the V - 1 others belong to the blanket. With the
    target's message there are b + 1. Of these, s are evidence for one of the target's two labels. The worths of the b +
    1 messages are added up; the module's text defines a message's worth. The n - V users whose messages are not
    submitted lower this sum by a charge c = (n - V)(e^ε-1)γ/k. Let [x]_+ = max(0, x). Given V, the bound of δ(ε) is
    kV/n times the mean, over b, of E [ mean of b+1 worths - c/(b+1) ]_+. The mean of b+1 worths falls with b (in the
    convex order), and so does c/(b+1). So for a block of values of b the bound takes the mean at the first b, and
    c/(b+1) at the last b.

    Args:
        users: n. share: γ, the probability that a message belongs to the blanket. kinds: k; 1/k is the probability that
        such a message is evidence for a given one of the two labels. visited: the law of V, as pairs (V, probability).
        blocks: smallest and largest number of blocks of b for each V.
    """
    # Choose the number of blocks of b for each V. The sum should have approximately `MOST` terms. s has approximately
    # 2√(2·60·(variance of s + 1)) + 60 values.
    likely = visited[0 if len(visited) == 1 else len(visited) // 2][0]
    values = 2.0 * math.sqrt(-2.0 * LOG_TAIL * (2.0 * likely * share / kinds + 1.0)) - LOG_TAIL
    most = max(blocks[0], min(blocks[1], int(MOST / (values * len(visited)))))
    parts, steps, lost = [], 0, 0.0
    for top, probability in visited:
        if top == 0:
            continue
        # b among the other V - 1, in blocks
        others, weight = top - 1, probability * (top / users)
        first, last = bernstein_window(others * share, others * share * (1.0 - share), others, LOG_TAIL)
        mass = binomial_pmf(first, last, others, share)
        lost += weight * 2.0 * math.exp(LOG_TAIL)
        starts = np.arange(0, mass.size, max(1, mass.size // most))
        ends = np.append(starts[1:], mass.size)
        for start, end, chance in zip(starts.tolist(), ends.tolist(), np.add.reduceat(mass, starts), strict=True):
            # s of the b + 1 messages are evidence for a label, with b the first of the block
            total = first + start + 1
            spread = 2.0 * total / kinds
            low, high = bernstein_window(spread, spread * (1.0 - 2.0 / kinds), total, LOG_TAIL)
            s = np.arange(low, high + 1, dtype=np.float64)
            # the charge for users who are not visited, with b the last of the block
            unseen = (users - top) * share / kinds * (total / (first + end)) * (1.0 - 1e-14)
            scale = weight * float(chance) * kinds / total
            columns = np.full((2, s.size), [[total], [unseen]])
            parts.append(np.stack([s, *columns, scale * binomial_pmf(low, high, total, 2.0 / kinds)]))
            steps = max(steps, s.size + mass.size)
    terms = np.concatenate(parts, axis=1) if parts else np.zeros((4, 0))
    return _Walk(
        terms[0],
        terms[1],
        terms[2],
        terms[3],
        slack=1.0 + 1e-10 + 4.0 * VALUE_ERROR * (steps + 1) + terms.shape[1] * 2.0**-52,
        lost=lost,
        tiny=4.0 * kinds * math.exp(LOG_TAIL),
    )


def _at_least(x: Floats, coins: Floats) -> Floats:
    """The probability of at least x heads among `coins` fair coins, for each pair of entries of the two arrays."""
    inside = (x > 0) & (x <= coins)
    safe = np.where(inside, x, 1.0)
    value = scipy.special.betainc(safe, np.where(inside, coins - safe + 1.0, 1.0), 0.5)
    return np.asarray(np.where(inside, value, np.where(x <= 0, 1.0, 0.0)))
