"""Every accountant against the truth, over all parameters that it takes: `python -m tests.validation.truth`.

Points are drawn at random, extremes included: n to a million, α and θ down to the smallest that are taken, ε from 0 to
ε₀. Where the truth can be computed to 50 digits, upper >= truth >= lower is checked; everywhere, that lower <= upper,
that neither rises with ε by more than the bracket, and that nothing is raised.
"""

import argparse
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from flint import arb
from threadpoolctl import threadpool_limits

from p2p_sim.privacy.bound import Bracket, PrivacyBound
from tests.validation.arb_truths import Curve, ball
from tests.validation.truth_cases import KINDS, Case

LARGE = 100
"""Users from which on a cluster counts as large."""
NEEDED = 0.3
"""Share of all points that must be checked against the truth with as many users."""
CLOSED = ("eavesdropper", "peer", "learner-times")
PRECISION = 2e-5
"""The coarsest that an ε is searched to."""


@dataclass
class Tally:
    """What was checked, and what failed."""

    checked: Counter[tuple[str, str]] = field(default_factory=Counter)
    large: Counter[str] = field(default_factory=Counter)
    open: int = 0
    tightest: dict[str, float] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    seconds: Counter[str] = field(default_factory=Counter)

    @property
    def points(self) -> int:
        """Pairs of parameters and ε."""
        return sum(count for (_, what), count in self.checked.items() if what == "points")


def run(points: int, seed: int, scale: float = 1.0, kinds: Sequence[str] | None = None) -> Tally:
    """Check so many points.

    Args:
        points: pairs of parameters and ε, about.
        seed: of the points.
        scale: the truth is multiplied by this: a control, as nothing but 1 may pass.
        kinds: names in `KINDS`; all by default, as often as their weights say.
    """
    threadpool_limits(1)
    rng, tally = random.Random(seed), Tally()
    names = list(kinds or KINDS)
    weights = [KINDS[name][0] for name in names]
    while tally.points < points:
        name = rng.choices(names, weights)[0]
        started = time.process_time()
        case = KINDS[name][1](rng)
        try:
            check(case, rng, tally, scale)
        except Exception as error:  # whatever it is, it is a finding
            tally.violations.append(f"{case.about}: {type(error).__name__}: {error}")
            tally.checked[case.observer, "points"] += 1
        tally.seconds[name] += int(1e6 * (time.process_time() - started))
    return tally


def check(case: Case, rng: random.Random, tally: Tally, scale: float) -> None:
    """All checks of one case, at several ε."""
    epsilons = sorted(case.epsilons(rng))
    brackets = case.deltas(epsilons)
    curves = case.truths(epsilons)
    before = Bracket(1.0, 1.0)
    for epsilon, bracket in zip(epsilons, brackets, strict=True):
        where = f"{case.about}, ε = {epsilon!r}: [{bracket.lower!r}, {bracket.upper!r}]"
        tally.checked[case.observer, "points"] += 1
        if not 0.0 <= bracket.lower <= bracket.upper <= 1.0:
            tally.violations.append(f"{where}: no bracket in [0, 1]")
        if bracket.lower > before.upper:
            tally.violations.append(f"{where}: δ rises from [{before.lower!r}, {before.upper!r}]")
        before = bracket
        if curves:
            _against(case, [scale * curve(epsilon) for curve in curves], bracket, where, tally)
    if case.epsilon is not None:
        _inverse(case, case.epsilon, curves, rng, tally, scale)


def _against(case: Case, truths: list[arb], bracket: Bracket, where: str, tally: Tally) -> None:
    """upper >= truth of every data set; lower <= the largest, where these are all that matter."""
    kind = "against the truth" if case.complete else "against a truth from below"
    tally.checked[case.observer, kind] += 1
    if case.users >= LARGE:
        tally.large[case.observer] += 1
    upper, lower = ball(bracket.upper), ball(bracket.lower)
    for truth in truths:
        if truth > upper:
            tally.violations.append(f"{where}: above lies {truth.str(25)}")
        elif not truth <= upper and bracket.upper < 1.0:
            tally.open += 1
        if truth > 0 and 1 > upper > truth:
            slack = float((upper / truth - 1).mid())
            tally.tightest[case.observer] = min(tally.tightest.get(case.observer, math.inf), slack)
    if case.complete and all(lower > truth for truth in truths):
        tally.violations.append(f"{where}: below lies {', '.join(truth.str(25) for truth in truths)}")


def _inverse(
    case: Case,
    epsilon: Callable[[float], PrivacyBound],
    curves: list[Curve],
    rng: random.Random,
    tally: Tally,
    scale: float,
) -> None:
    """ε(δ) at three δ, the smallest first: it falls, and δ of its ends is on the right side."""
    before = (math.inf, math.inf)
    for delta in sorted(10.0 ** -rng.uniform(0.1, rng.choice((6.0, 20.0, 290.0))) for _ in range(3)):
        found = epsilon(delta)
        low, high = found.epsilon_lower, found.epsilon_upper
        where = f"{case.about}, δ = {delta!r}: ε in [{low!r}, {high!r}]"
        tally.checked[case.observer, "ε(δ)"] += 1
        if not 0.0 <= low <= high:
            tally.violations.append(f"{where}: no bracket")
        if low > before[1] or high > before[1] * (1.0 + PRECISION) + 1e-300:
            tally.violations.append(f"{where}: rises from {before}")
        before = (low, high)
        if curves and math.isfinite(high) and any(scale * curve(high) > ball(delta) for curve in curves):
            tally.violations.append(f"{where}: δ(ε) is larger")
        small = case.users < LARGE or case.observer in CLOSED  # so that all data sets are among the curves
        if (
            small
            and case.complete
            and curves
            and 0.0 < low < math.inf
            and all(scale * curve(low) < ball(delta) for curve in curves)
        ):
            tally.violations.append(f"{where}: δ of the lower end is smaller")


def report(tally: Tally, points: int, seed: int) -> Iterator[str]:
    """What was checked, as lines."""
    yield f"seed {seed}: {tally.points} points of {points}"
    for (observer, what), count in sorted(tally.checked.items()):
        yield f"  {observer:<16} {what:<28} {count:>6}"
    closed = sum(tally.large[name] for name in CLOSED)
    total = sum(tally.large.values())
    yield f"with at least {LARGE} users, against the truth: {total}, of these {closed} of a closed form"
    for observer, count in sorted(tally.large.items()):
        yield f"  {observer:<16} {count:>6}, tightest upper / truth - 1 = {tally.tightest.get(observer, math.nan):.2g}"
    yield f"too close to tell: {tally.open}"
    seconds = ", ".join(f"{name} {count / 1e6:.0f}" for name, count in tally.seconds.most_common())
    yield f"CPU seconds: {sum(tally.seconds.values()) / 1e6:.0f} ({seconds})"
    yield from (f"VIOLATION {line}" for line in tally.violations)
    yield f"{len(tally.violations)} violations"


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="*", help="names of kinds of cases; default: all")
    arguments = parser.parse_args()
    tally = run(arguments.points, arguments.seed, kinds=arguments.kinds)
    for line in report(tally, arguments.points, arguments.seed):
        print(line)
    total, closed = sum(tally.large.values()), sum(tally.large[name] for name in CLOSED)
    if not arguments.kinds and (total < NEEDED * arguments.points or 3 * closed > total):
        print("too few large clusters were checked against the truth")
        sys.exit(1)
    sys.exit(1 if tally.violations else 0)


if __name__ == "__main__":
    main()
