"""A claim of a paper: its statement, the cases on which it is checked, and the verdict on it."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

TOLERANCE = 1e-9
"""If a claim is attained exactly, its slack (a ratio, see `ClaimCase`) is 1. Rounding may lower it by at most this
number.
"""

VECTOR = "Vector approximation"
STACKING = "Privacy-preserving stacking"
CONSISTENCY = "Private Bayes consistency"
AGGREGATION = "Label DP via aggregation"

Where = Mapping[str, float]


@dataclass(frozen=True)
class ClaimCase:
    """One evaluation of a claim, at one choice of parameters: how much slack the claim has.

    The slack is a ratio. If the claim is an upper bound, it is the claimed value divided by the true value. If the
    claim is a lower bound, it is the true value divided by the claimed value.
    claimed: the printed value. ratio_low: the ratio, computed from a certified bound of the true value; if it is at
    least 1, the claim holds here. ratio_high: the ratio, computed from an attained value; if it is below 1, the claim
    is refuted. where: the parameters of the case, with the claimed and the true value. size: how large the case is; the
    smallest of all counter-examples is reported.
    """

    claimed: float
    ratio_low: float
    ratio_high: float
    where: Where
    size: float = 0.0


def at_most(claimed: float, true: float, upper: float | None = None, size: float = 0.0, **where: float) -> ClaimCase:
    """One case of the claim that a value is at most `claimed`. The claim holds in this case if `claimed` is at least
    `upper`, and is refuted if `claimed` is below `true`.

    Args:
        true: a value that is attained, which bounds the value from below. upper: a certified upper bound of the
        value; None: `true` is exact. size: any number that grows with the case, such as users or classes; of
        several refuting cases the one of least size is reported. where: the parameters of the case, by name.
    """
    low, high = (_ratio(claimed, value) for value in (true if upper is None else upper, true))
    return ClaimCase(claimed, low, high, {**where, "claimed": claimed, "true": true}, size)


def at_least(claimed: float, true: float, size: float = 0.0, **where: float) -> ClaimCase:
    """One case of the claim that a value, which is exactly `true`, is at least `claimed`.

    Args:
        size: any number that grows with the case, such as users or classes; of several refuting cases the one of
        least size is reported. where: the parameters of the case, by name.
    """
    ratio = _ratio(true, claimed)
    return ClaimCase(claimed, ratio, ratio, {**where, "claimed": claimed, "true": true}, size)


def _ratio(larger: float, smaller: float) -> float:
    """The slack of the claim `smaller` <= `larger`: the ratio larger/smaller. If it is below 1, the claim is false. If
    `smaller` is 0 or negative, the claim holds for any non-negative `larger`, and the result is infinite.
    """
    return larger / smaller if smaller > 0.0 else math.inf


@dataclass(frozen=True)
class Verdict:
    """The outcome of checking a claim: whether the claim holds in all cases and with how much slack, or else a
    counter-example.

    name, paper, statement, corrected, belief: copied from the claim. holds: whether no case refutes the claim.
    tightest, loosest: the smallest and the largest finite slack; if the smallest is below 1 by more than
    `TOLERANCE`, the claim fails. where: parameters of the "tightest" and of the "loosest" case.
    counterexample: parameters and values of the smallest case that refutes the claim; None if the claim holds.
    cases: how many cases were evaluated.
    """

    name: str
    paper: str
    statement: str
    holds: bool
    tightest: float
    loosest: float
    where: Mapping[str, Where]
    counterexample: Where | None
    corrected: str
    cases: int
    belief: bool


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, and the function `cases` that yields the cases on which it is checked.

    name, paper: the statement's number in the paper, and the paper's title. corrected: a statement that holds instead,
    or a sharper one.
    belief: whether the statement is a common belief that the paper denies, rather than a claim of the paper.
    """

    name: str
    paper: str
    statement: str
    cases: Callable[[], Iterable[ClaimCase]] = field(repr=False)
    corrected: str = ""
    belief: bool = False

    def check(self) -> Verdict:
        """Evaluate every case and return the verdict.

        Raises:
            ArithmeticError: no case could be evaluated; or no case refutes the claim, but in some case it could not be
                shown to hold.
        """
        cases = list(self.cases())
        if not cases:
            raise ArithmeticError(f"{self.name}: no case meets its conditions")
        # an attained value may refute the claim in a case, a certified value may prove it; a case in which neither
        # happens is open
        refuting = [case for case in cases if not case.ratio_high >= 1.0 - TOLERANCE]
        open_cases = [case for case in cases if not case.ratio_low >= 1.0 - TOLERANCE]
        if open_cases and not refuting:
            raise ArithmeticError(f"{self.name}: undecided at {dict(open_cases[0].where)}")
        finite = [case for case in cases if math.isfinite(case.ratio_low)] or cases
        tight, loose = min(finite, key=lambda c: c.ratio_low), max(finite, key=lambda c: c.ratio_low)
        smallest = min(refuting, key=lambda c: (c.size, c.ratio_high)) if refuting else None
        return Verdict(
            name=self.name,
            paper=self.paper,
            statement=self.statement,
            holds=not refuting,
            tightest=tight.ratio_low,
            loosest=loose.ratio_low,
            where={"tightest": tight.where, "loosest": loose.where},
            counterexample=smallest.where if smallest else None,
            corrected=self.corrected,
            cases=len(cases),
            belief=self.belief,
        )


def clustering(name: str, statement: str, cases: Callable[[], Iterable[ClaimCase]], corrected: str = "") -> Claim:
    """A claim of the paper "Label differential privacy via clustering".

    Args:
        name: the claim's number in the paper. statement: the claim, in words. cases: a function that yields the cases
        on which the claim is checked. corrected: a statement that holds instead, or a sharper one.
    """
    return Claim(name, "Label differential privacy via clustering", statement, cases, corrected)
