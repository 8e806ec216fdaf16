"""What a checked claim is: a statement, the cases it was evaluated on, and the verdict they give."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

TOLERANCE = 1e-9
"""Relative allowance for rounding: where a claim is attained exactly the ratio is one up to rounding."""

CLUSTERING = "Label differential privacy via clustering"
VECTOR = "Vector approximation"
STACKING = "Privacy-preserving stacking"
CONSISTENCY = "Private Bayes consistency"
AGGREGATION = "Label DP via aggregation"

Where = Mapping[str, float]


@dataclass(frozen=True)
class ClaimCase:
    """One evaluation of a claim: by what factor the claimed value and the true one differ.

    A ratio is claimed over true for an upper bound, true over claimed for a lower one; above 1 the claim has slack.
    claimed: the printed figure.
    ratio_low: the ratio with a certified bound of the true value: at least 1 shows that the claim holds here.
    ratio_high: the ratio with an attained value: below 1 refutes the claim.
    where: parameters and values, the true one among them.
    size: rank among counter-examples; the smallest is reported.
    """

    claimed: float
    ratio_low: float
    ratio_high: float
    where: Where
    size: float = 0.0


def at_most(claimed: float, true: float, upper: float | None = None, size: float = 0.0, **where: float) -> ClaimCase:
    """The case of a claim that a value is at most `claimed`.

    Args:
        true: attained value, a lower bound of what the claim speaks of.
        upper: certified upper bound of it; None: the attained value is exact.
        size: rank among counter-examples. where: parameters of the case.
    """
    low, high = (_ratio(claimed, value) for value in (true if upper is None else upper, true))
    return ClaimCase(claimed, low, high, {**where, "claimed": claimed, "true": true}, size)


def at_least(claimed: float, true: float, size: float = 0.0, **where: float) -> ClaimCase:
    """The case of a claim that a value, whose exact value is `true`, is at least `claimed`; others as of `at_most`."""
    ratio = _ratio(true, claimed)
    return ClaimCase(claimed, ratio, ratio, {**where, "claimed": claimed, "true": true}, size)


def _ratio(larger: float, smaller: float) -> float:
    """larger / smaller, infinite where `smaller` is not positive."""
    return larger / smaller if smaller > 0.0 else math.inf


@dataclass(frozen=True)
class Verdict:
    """What the cases of a claim show: whether it holds, with how much slack, and a counter-example if not.

    tightest, loosest: smallest and largest finite slack (claimed over true for an upper bound, the inverse for a lower
    one); below 1 where the claim fails. where: parameters of the tightest and of the loosest case. counterexample:
    parameters and values of the smallest case that refutes the claim; None if it holds. corrected: the statement that
    holds instead, or a sharper one. cases: number of cases evaluated. belief: a common belief that the paper denies,
    and no claim of the paper.
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
    """A printed statement and the cases on which it is evaluated.

    belief: a common belief that the paper denies, and no claim of the paper.
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
            ArithmeticError: no case could be evaluated, or none refutes the claim but one could not be shown to hold.
        """
        cases = list(self.cases())
        if not cases:
            raise ArithmeticError(f"{self.name}: no case meets its conditions")
        # an attained value refutes the claim, a certified one shows that it holds; a case between the two is open
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
    """A claim of the clustering paper; arguments as the fields of `Claim`."""
    return Claim(name, CLUSTERING, statement, cases, corrected)
