#!/usr/bin/env python3
"""Proves the (ε, δ) that a certificate of p2p-sim claims, or refuses it: `python verify_certificate.py FILE`.

This file needs Python 3.11 and nothing else. The exit status is 0 if the claim is proved, and 1 if it is not proved. It
is 2 if the file cannot be read or no file is named. A certificate that would take more than minutes is refused.

The claim. A cluster has n users, each with a binary label. Each user draws one noisy label, which differs from her
label with probability α. In each of R rounds, each user acts with probability θ. If she acts, she fetches the noisy
label of a member, drawn uniformly from the n, and passes it to the learner. The target is the user whose label is
protected. Let t be the number of labels that reach the learner, and k the number of ones among these t labels. Let m be
the number of users besides the target who hold 1. Let X be the number of users besides the target with the noisy label
1, so X = Bin(m, 1-α) + Bin(n-1-m, α). Given t ~ Bin(Rn, θ), let

    A(k) = E Bin(k; t, X/n), B(k) = E Bin(k; t, (X+1)/n), P0 = (1-α)A + αB, P1 = αA + (1-α)B.

A and B are the laws of k for the target's noisy label 0 and 1. P0 and P1 are the laws of k for her true label 0 and 1.
The claim is that for all m

    δ ≥ E_t Σ_k max(0, P0 - e^ε P1) = E_t Σ_k max(0, keep A - lose B),

with keep = 1-α-αe^ε and lose = (1-α)e^ε - α. A second inequality, with P0 and P1 (A and B) exchanged, must hold, too.
If the two labels are swapped, m becomes n-1-m, and each inequality becomes the other. So it is enough to prove both for
m ≤ (n-1)/2. Every number in a certificate is exact: "0.1" is one tenth.

The proof, in multiples of 2^-bits; `bits` and `drop` are entries of the certificate:
1. e^ε is replaced by a smaller number. So keep grows and lose shrinks.
2. All probabilities are rounded down, and probabilities below 2^-drop are dropped. Let a ≤ A and b ≤ B be what is left.
   Then keep A - lose B ≤ (keep a - lose b) + keep (A - a). Since ΣA = 1, Σ max(0, keep a - lose b) + keep (1 - Σa) is
   an upper bound. So nothing has to be known of what is dropped. What the law of t lacks of probability 1 is added.
3. Let A_t and B_t be A and B for t submissions, whose labels are exchangeable. Take one of the t away at random:
   A_(t-1)(k) = A_t(k) (t-k)/t + A_t(k+1) (k+1)/t. The same formula holds for B. So the sum over X is computed only for
   the largest t.
4. Not every m is evaluated. Tell the learner the noisy labels of b other users, and which submissions are fetched from
   these users. This information only helps her, and does not depend on the target's label. What is left is an exchange
   of n-b users with t ~ Bin(Rn, θ(n-b)/n). In this exchange, m' of the n-1-b other users hold 1. Any b users may be
   chosen. So one m' proves the claim for every m from m' to m'+b. The certificate states each m' and b; together they
   cover every m.
"""

import json
import re
import sys
from fractions import Fraction
from typing import Any, NamedTuple, NoReturn

VERSION = 1
LARGEST_FILE, LARGEST_N, LARGEST_TRIALS, LARGEST_BITS, LARGEST_EPSILON = 2**20, 65_536, 2**18, 1200, 1000
LARGEST_WORK = 10**9
"""Largest count of numbers to compute, which takes some minutes. A certificate that needs more is refused."""
NUMBER = re.compile(r"[0-9]{1,40}(\.[0-9]{1,40})?(e[+-]?[0-9]{1,3})?|[0-9]{1,40}/[1-9][0-9]{0,39}")
Law = tuple[int, list[int]]
"""A law on whole numbers: the first value; the probabilities from this value on, in units of 2^-bits, rounded down."""
Float = tuple[int, int]
"""A number as mantissa and exponent of 2, rounded down."""


class RoundedLaws(NamedTuple):
    """Lower bounds of A(k) and B(k) for k from `low` on, in units of 2^-bits."""

    low: int
    a: list[int]
    b: list[int]


class Refused(Exception):  # noqa: N818
    """Raised if a certificate does not prove its claim; the text says why."""


class Unreadable(Exception):  # noqa: N818
    """Raised if a certificate's file does not exist, or is not JSON."""


def verify(certificate: Any) -> str:
    """Proves the claim of a certificate, and returns in words what is proved.

    Args:
        certificate: the content of a JSON file, as a dictionary. Its entries are the version, the claim (n, α, θ,
        rounds, ε, δ), two numbers that set the precision in bits, and a list of intervals of m. m is the number of
        other users with label 1. One evaluation of δ proves a whole interval. Numbers with a point are strings.

    Raises:
        Refused: the certificate does not prove its claim.
    """
    fields(certificate, "the certificate", ("version", "claim", "bits", "drop", "cover"))
    version = certificate["version"]
    require(whole(version, "version", 0, 10**6) == VERSION, f"version: is {version}, and {VERSION} is known here")
    claim = certificate["claim"]
    proof = Proof(claim, certificate["bits"], certificate["drop"])
    for part in covering(certificate["cover"], proof.n):
        proof.check(part["from"], part["to"], part["revealed"])
    # What is proved, in words.
    rounds = claim["rounds"]
    often = "" if rounds == 1 else f" in each of {rounds} rounds, always with the same noisy labels,"
    return (
        f"(epsilon, delta) = ({claim['epsilon']}, {claim['delta']}) holds for one user's binary label in a cluster of "
        f"{proof.n} users, whatever the others' labels, against a learner who sees the set of submitted labels and "
        "nothing else. Conditions: (1) every user draws one noisy label, flipped with probability "
        f"{claim['flip_prob']}; (2) with probability {claim['sampling_rate']} each user{often} submits the noisy label "
        "of a member of the cluster, drawn uniformly and independently of everything else; (3) the cluster does not "
        "depend on labels"
    )


class Proof:
    """Checks one claim, by intervals of m, in multiples of 2^-bits. Probabilities below 2^-drop are dropped."""

    def __init__(self, claim: Any, bits: Any, drop: Any) -> None:
        fields(claim, "claim", ("n", "flip_prob", "sampling_rate", "rounds", "epsilon", "delta"))
        self.n = whole(claim["n"], "n", 2, LARGEST_N)
        self.trials = self.n * whole(claim["rounds"], "rounds", 1, LARGEST_TRIALS // self.n)
        self.alpha = alpha = fraction(claim["flip_prob"], "flip_prob", Fraction(1, 2))
        self.theta = fraction(claim["sampling_rate"], "sampling_rate", Fraction(1))
        self.delta = fraction(claim["delta"], "delta", Fraction(1))
        self.bits = whole(bits, "bits", 16, LARGEST_BITS)
        self.unit, self.cut, self.work = 1 << self.bits, 1 << self.bits - whole(drop, "drop", 1, self.bits), 0
        least = exponential(fraction(claim["epsilon"], "epsilon", Fraction(LARGEST_EPSILON)), self.bits)
        self.keep = -((alpha * least - (1 - alpha) * self.unit) // 1)  # upwards
        self.lose = ((1 - alpha) * least - alpha * self.unit) // 1

    def check(self, first: int, last: int, revealed: int) -> None:
        """Proves the claimed δ for all m, the number of other users with label 1, from `first` to `last`.

        One evaluation proves the claim for all these m. The learner is told the noisy labels of b = `revealed` other
        users, which only helps her. This leaves n - b users, of whom `first` besides the target hold label 1. The b
        users may hold any labels, so this covers each m from `first` to `first` + b.
        """
        if self.keep <= self.delta * self.unit:
            return  # δ(ε) is at most `keep`, whatever the learner sees
        sources = self.n - revealed
        least, times = self.binomial(self.trials, self.theta * Fraction(sources, self.n))
        bounds = [(self.unit - sum(times)) * self.unit**2] * 2
        start, noisy = self.noisy_ones(first, sources - 1 - first)
        t = least + len(times) - 1
        # From the largest t down: Pr[t] times the divergence, in both directions.
        views = self.views(start, noisy, sources, t)
        while times:
            share = times.pop()
            self.spend(4 * len(views.a))
            for direction, (p, q) in enumerate(((views.a, views.b), (views.b, views.a))):
                bounds[direction] += share * self.divergence(p, q)
            if times:
                views = self.thinned(views, t)
                t -= 1
        if max(bounds) > self.delta * self.unit**3:
            bound = float(Fraction(max(bounds), self.unit**3))
            raise Refused(f"cover: for m from {first} to {last} delta is {bound:.6g} here, which is above the claim")

    def divergence(self, p: list[int], q: list[int]) -> int:
        """An upper bound of Σ max(0, keep P - lose Q) over all outcomes, in units of 2^(-2 bits).

        With keep = 1-α-αe^ε, lose = (1-α)e^ε-α and the laws P and Q for the target's two noisy labels, this is δ(ε) in
        one direction for one data set. p, q: lower bounds of P, Q, times 2^bits. keep (1 - Σ p) is added.
        """
        gains = sum(max(0, self.keep * x - self.lose * y) for x, y in zip(p, q, strict=True))
        return gains + self.keep * (self.unit - sum(p))

    def noisy_ones(self, ones: int, zeros: int) -> Law:
        """The law, rounded down, of X, the noisy ones among `ones` users with label 1 and `zeros` with label 0."""
        (first, up), (second, down) = self.binomial(ones, 1 - self.alpha), self.binomial(zeros, self.alpha)
        self.spend(len(up) * len(down))
        both = [0] * (len(up) + len(down))
        for i, factor in enumerate(up):
            both[i : i + len(down)] = [old + factor * x for old, x in zip(both[i:], down, strict=False)]
        return first + second, [x >> self.bits for x in both]

    def views(self, start: int, noisy: list[int], sources: int, t: int) -> RoundedLaws:
        """Lower bounds of the laws A and B of k, the number of ones among t submitted labels, for the target's noisy
        label 0 and 1.

        A(k) = Σ_x Pr[X = x] Bin(k; t, x/n). B has (x+1)/n in place of x/n. X is the number of noisy ones among the
        other users. start, noisy: the law of X, see `Law`. sources: n, the number of users whose labels can be
        submitted.
        """
        a, b = [0] * (t + 1), [0] * (t + 1)
        k, ways = 0, (1, 0)
        self.spend(2 * t)
        for share, (before, here) in enumerate(zip([0, *noisy], [*noisy, 0], strict=True), start):
            p = Fraction(share, sources)  # X/n in A, with probability `here`; (X+1)/n in B, with probability `before`
            k, ways = mode(t, p), self.ways(t, k, ways, mode(t, p))
            if not here and not before:
                continue
            first, row = self.spread(t, p, k, ways, (self.cut << self.bits) // max(here, before) + 1)
            ends = slice(first, first + len(row))
            a[ends] = [old + here * x for old, x in zip(a[ends], row, strict=True)]
            b[ends] = [old + before * x for old, x in zip(b[ends], row, strict=True)]
        return self.stripped(0, [x >> self.bits for x in a], [x >> self.bits for x in b])

    def thinned(self, views: RoundedLaws, t: int) -> RoundedLaws:
        """Lower bounds of the laws A and B for t - 1 submitted labels, from bounds for t labels.

        One of the t labels is taken away at random: A_(t-1)(k) = A_t(k) (t-k)/t + A_t(k+1) (k+1)/t. B has the same
        formula.
        """
        low, a, b = views
        if low:
            low, a, b = low - 1, [0, *a], [0, *b]
        fewer, more = range(t - low, t - low - len(a), -1), range(low + 1, low + len(a) + 1)
        a, b = ([(x * c + y * d) // t for x, y, c, d in zip(p, [*p[1:], 0], fewer, more, strict=False)] for p in (a, b))
        return self.stripped(low, a, b)

    def stripped(self, low: int, a: list[int], b: list[int]) -> RoundedLaws:
        """The laws A and B of k without the values at both ends where both probabilities are below 2^-drop.

        Args:
            low: the first k. a, b: lower bounds of A(k) and B(k) from k = low on, in units of 2^-bits.
        """
        large = [k for k, pair in enumerate(zip(a, b, strict=True)) if max(pair) >= self.cut]
        inside = slice(large[0], large[-1] + 1) if large else slice(0, 0)
        return RoundedLaws(low + inside.start, a[inside], b[inside])

    def binomial(self, trials: int, p: Fraction) -> Law:
        """The law Bin(trials, p) without probabilities below 2^-drop; `Law` explains the form."""
        k = mode(trials, p)
        return self.spread(trials, p, k, self.ways(trials, 0, (1, 0), k), self.cut)

    def ways(self, trials: int, k: int, ways: Float, wanted: int) -> Float:
        """A lower bound of (trials choose `wanted`), computed from a lower bound of (trials choose k). A later call
        with a larger `wanted` can continue from the result.

        Args:
            k: at most `wanted`. ways: the lower bound of (trials choose k), as mantissa and exponent of 2. The result
            has the same form, with a mantissa of at most bits + 32 bits.
        """
        self.spend(8 * (wanted - k))
        for j in range(k, wanted):
            ways = trimmed(ways[0] * (trials - j) << 32, ways[1] - 32, self.bits + 32, j + 1)
        return ways

    def spread(self, trials: int, p: Fraction, k: int, ways: Float, cut: int) -> Law:
        """The part of the law Bin(trials, p) around its mode where probabilities are at least `cut`; `Law` explains the
        form.

        Args:
            k: the mode, the most likely value. ways: lower bound of (trials choose k), as mantissa and exponent of 2.
            cut: a probability in units of 2^-bits.
        """
        # At the mode the probability is ways · p^k · (1-p)^(trials-k); all others follow from their neighbours.
        yes, no = power(p, k, self.bits + 32), power(1 - p, trials - k, self.bits + 32)
        mantissa, exponent = ways[0] * yes[0] * no[0], ways[1] + yes[1] + no[1] + self.bits
        value = mantissa << exponent if exponent >= 0 else mantissa >> -exponent
        hit, miss = p.numerator, p.denominator - p.numerator
        up, down = [value], [value]
        for j in range(k, trials):
            value = value * ((trials - j) * hit) // ((j + 1) * miss)
            if value < cut:
                break
            up.append(value)
        for j in range(k, 0, -1):
            value = down[-1] * (j * miss) // ((trials - j + 1) * hit)
            if value < cut:
                break
            down.append(value)
        self.spend((len(up) + len(down) + 100) * (1 + p.denominator.bit_length() // 128))
        return k - len(down) + 1, [*reversed(down[1:]), *up]

    def spend(self, numbers: int) -> None:
        """Counts the numbers that a step computes; numbers with more bits count more.

        Raises `Refused` if the count exceeds 10^9, some minutes of work.
        """
        self.work += numbers * (1 + self.bits // 256)
        if self.work > LARGEST_WORK:
            raise Refused(f"the certificate needs more work than is allowed, {LARGEST_WORK} numbers")


def mode(trials: int, p: Fraction) -> int:
    """The most likely value of Bin(trials, p)."""
    return min(trials, (trials + 1) * p.numerator // p.denominator)


def trimmed(mantissa: int, exponent: int, bits: int, divisor: int = 1) -> Float:
    """mantissa · 2^exponent / divisor as mantissa and exponent, rounded down to a mantissa of at most `bits` bits."""
    mantissa //= divisor
    spare = max(0, mantissa.bit_length() - bits)
    return mantissa >> spare, exponent + spare


def power(base: Fraction, exponent: int, bits: int) -> Float:
    """A lower bound of base^exponent with a mantissa of at most `bits` bits, for a base from 0 to 1."""
    scale = bits + base.denominator.bit_length()
    square = trimmed(base.numerator << scale, -scale, bits, base.denominator)
    bound: Float = (1, 0)
    while exponent:
        if exponent & 1:
            bound = trimmed(bound[0] * square[0], bound[1] + square[1], bits)
        square = trimmed(square[0] * square[0], 2 * square[1], bits)
        exponent >>= 1
    return bound


def exponential(x: Fraction, bits: int) -> int:
    """A lower bound of e^x in units of 2^-bits, for x at least 0: the power series, each term rounded down."""
    term, total, i = 1 << bits, 0, 0
    while term:
        total, i = total + term, i + 1
        term = term * x.numerator // (i * x.denominator)
    return total


def covering(cover: Any, n: int) -> list[dict[str, int]]:
    """Checks and returns a certificate's list of intervals of m, the number of other users with label 1.

    Each interval is a dictionary. "from" and "to" are its ends. "revealed" is b, the number of other users whose noisy
    labels are told to the learner. One evaluation of δ at m = "from" then proves all m up to "from" + b.

    Args:
        cover: the certificate's entry "cover". n: number of users.

    Raises:
        Refused: the intervals do not cover 0 to (n-1)/2 in order, or b is too small or too large for an interval.
    """
    require(isinstance(cover, list) and cover, "cover: must be a list of intervals")
    wanted, half = 0, (n - 1) // 2
    for part in cover:
        fields(part, "cover", ("from", "to", "revealed"))
        first, last = whole(part["from"], "from", 0, half), whole(part["to"], "to", 0, half)
        revealed = whole(part["revealed"], "revealed", 0, n - 1)
        require(first == wanted, f"cover: an interval starts at m = {first}, and {wanted} is the next one wanted")
        # If m' = `first` of n-1-b others hold 1, one evaluation proves every m up to m' + b.
        require(
            first <= last <= first + revealed, f"cover: m from {first} to {last} is not served by revealing {revealed}"
        )
        require(first < n - revealed, f"cover: of {n - 1 - revealed} others who are not revealed {first} cannot hold 1")
        wanted = last + 1
    require(wanted > half, f"cover: ends at m = {wanted - 1}, and {half} is the last one wanted")
    return list(cover)


def require(condition: Any, reason: str) -> None:
    """Raises `Refused` with this reason unless the condition holds."""
    if not condition:
        raise Refused(reason)


def fields(value: Any, where: str, names: tuple[str, ...]) -> None:
    """Raises `Refused` unless the value, called `where` in the error, is an object with exactly these keys."""
    if not isinstance(value, dict) or set(value) != set(names):
        raise Refused(f"{where}: must be an object with the keys {', '.join(names)}, each once")


def whole(value: Any, name: str, least: int, largest: int) -> int:
    """The value if it is a whole number from `least` to `largest`; else raises `Refused`."""
    if type(value) is not int or not least <= value <= largest:
        raise Refused(f"{name}: must be a whole number from {least} to {largest}")
    return value


def fraction(value: Any, name: str, largest: Fraction) -> Fraction:
    """The exact number in a string, a decimal or a ratio; raises `Refused` unless it lies in [0, `largest`]."""
    if not isinstance(value, str) or not NUMBER.fullmatch(value):
        raise Refused(
            f'{name}: must be a string with a decimal or a ratio of at most 40 digits, such as "0.1" or "1/3"'
        )
    number = Fraction(value)
    require(number <= largest, f"{name}: must be at most {largest}")
    return number


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as a dictionary; raises `Refused` if a key occurs twice."""
    require(len(values := dict(pairs)) == len(pairs), "a key occurs twice in one object")
    return values


def inexact(_: str) -> NoReturn:
    """Raises `Refused`; the JSON reader calls it for infinity, NaN, and each number with a point or an exponent."""
    raise Refused("numbers must be whole or in strings")


def read(path: str) -> Any:
    """The JSON content of a certificate's file, for `verify`.

    Raises:
        Unreadable: there is no such file, or it is not JSON.
        Refused: a key occurs twice, a number is not whole, or the file is too large.
    """
    try:
        with open(path, "rb") as file:
            text = file.read(LARGEST_FILE + 1)
        require(len(text) <= LARGEST_FILE, f"the file has more than {LARGEST_FILE} bytes")
        return json.loads(text.decode(), object_pairs_hook=unique, parse_float=inexact, parse_constant=inexact)
    except (OSError, ValueError, RecursionError) as error:
        raise Unreadable(" ".join(str(error).split())[:200] or "nested too deeply") from None


def main(arguments: list[str]) -> int:
    """Verify the named file; return 0 if the claim is proved, 1 if refused, 2 if no file is named or readable."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python verify_certificate.py FILE", file=sys.stderr)
        return 2
    try:
        print(f"verified: {verify(read(arguments[0]))}")
    except (Refused, Unreadable) as error:
        print(f"{type(error).__name__.lower()}: {error}", file=sys.stderr)
        return 1 if isinstance(error, Refused) else 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
