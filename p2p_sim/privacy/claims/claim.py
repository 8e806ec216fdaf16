"""Claims of papers: a statement, the cases on which the statement is checked, and the verdict."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

TOLERANCE = 1e-9
"""If a claim is attained exactly, its slack (a ratio, see `ClaimCase`) is 1. Rounding may lower the slack by up to
this number.
"""

VECTOR = "Vector approximation"
STACKING = "Privacy-preserving stacking"
CONSISTENCY = "Private Bayes consistency"
AGGREGATION = "Label DP via aggregation"

Where = Mapping[str, float]


@dataclass(frozen=True)
class ClaimCase:
    """One evaluation of a claim at one choice of parameters: how much slack the claim has.

    The slack is a ratio, at least 1 where the claim holds. For an upper bound, it is the claimed value divided by the
    true value. For a lower bound, it is the true value divided by the claimed value.
    claimed: the printed value. ratio_low: the slack from a certified bound of the true value; at 1 or above, the claim
    holds here. ratio_high: the slack from an attained value; below 1, the claim is refuted. where: the parameters of
    the case, with the claimed and the true value. size: how large the case is; the smallest of all counter-examples is
    reported.
    """

    claimed: float
    ratio_low: float
    ratio_high: float
    where: Where
    size: float = 0.0


def at_most(claimed: float, true: float, upper: float | None = None, size: float = 0.0, **where: float) -> ClaimCase:
    """One case of the claim that a quantity is at most `claimed`.

    The claim holds in this case if `claimed` is at least `upper`. The claim is refuted if `claimed` is below `true`.
    In between, the case is undecided.

    Args:
        true: a value that some example attains, so a lower bound of the quantity. upper: a certified upper bound of the
        quantity. None: `true` is exact. size: any number that grows with the case, such as users or classes; the
        smallest refuting case is reported. where: the parameters of the case, by name.
    """
    low, high = (_ratio(claimed, value) for value in (true if upper is None else upper, true))
    return ClaimCase(claimed, low, high, {**where, "claimed": claimed, "true": true}, size)


def at_least(claimed: float, true: float, size: float = 0.0, **where: float) -> ClaimCase:
    """One case of the claim that a value, which is exactly `true`, is at least `claimed`.

    Args:
        size: any number that grows with the case, such as users or classes; the smallest refuting case is reported.
        where: the parameters of the case, by name.
    """
    ratio = _ratio(true, claimed)
    return ClaimCase(claimed, ratio, ratio, {**where, "claimed": claimed, "true": true}, size)


def _ratio(larger: float, smaller: float) -> float:
    """The slack of the claim `smaller` <= `larger`: the ratio larger/smaller. Below 1 the claim is false. If `smaller`
    is 0 or negative, the slack is infinite: the claim holds for any non-negative `larger`.
    """
    return larger / smaller if smaller > 0.0 else math.inf


@dataclass(frozen=True)
class Verdict:
    """The outcome of checking a claim: its slack over all cases, and a counter-example if there is one.

    name, paper, statement, corrected, belief: copied from the claim. holds: whether no case refutes the claim.
    tightest, loosest: the smallest and the largest finite slack (a ratio, see `ClaimCase`). where: parameters of the
    "tightest" and of the "loosest" case. counterexample: parameters and values of the smallest case that refutes the
    claim. None: the claim holds. cases: number of evaluated cases.
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
    """A statement of a paper. The function `cases` yields the cases on which the statement is checked.

    name, paper: the statement's number in the paper, and the paper's title. corrected: a statement that holds instead,
    or a sharper one. belief: whether the statement is a common belief that the paper denies.
    """

    name: str
    paper: str
    statement: str
    cases: Callable[[], Iterable[ClaimCase]] = field(repr=False)
    corrected: str = ""
    belief: bool = False

    def check(self) -> Verdict:
        """Evaluate every case and return the verdict: whether the claim holds, the slack, any counter-example.

        Raises:
            ArithmeticError: there is no case; or no case refutes the claim, but some case is undecided.
        """
        cases = list(self.cases())
        if not cases:
            raise ArithmeticError(f"{self.name}: no case meets its conditions")
        # An attained value may refute the claim in a case. A certified value may prove the claim. A case with neither
        # is open.
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
