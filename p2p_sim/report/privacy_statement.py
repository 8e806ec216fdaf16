"""The report's section on privacy: what is protected from which observer, and under which conditions."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from p2p_sim.base import count, four_digits
from p2p_sim.measures import DOMINATED, NEAR_LOCAL, POINT, adds_little, adds_nothing, population, sentences
from p2p_sim.privacy import Terms
from p2p_sim.report.columns import choices, number, plain, span, worst_bases

OBSERVERS = (
    ("epsilon_upper", "the learner, who sees the set of submissions, or what else is released"),
    ("epsilon_others_upper", "the learner, about users who did not pass on their own label"),
    ("epsilon_times_upper", "a learner who also sees when each submission came"),
    ("epsilon_coalition_upper", "the learner together with the coalition of the scenario"),
    ("epsilon_unmet_upper", "the learner together with the coalition, about users whose label no member fetched"),
    ("epsilon_local", "a peer who asked the user; an eavesdropper on the wire (ε₀, the noise alone)"),
)
COMPARED = (
    ("epsilon_lower", "no smaller ε holds for the learner than"),
    ("epsilon_paper", "the paper's Theorem 1 would state"),
    ("epsilon_paper_lemma9", "the paper's Lemma 9 would state"),
    ("epsilon_paper_theorem3", "the paper's Theorem 3 would state, at its own δ"),
)
NOT_KEPT = (
    "An earlier version of p2p-sim wrote these results, without the conditions under which the figures hold. Run the "
    "scenario again to have the conditions beside the figures."
)
LONGEST = 300
"""Largest number of characters of a condition; longer conditions are cut."""
Mechanisms = Mapping[str, str]
"""For each kind of mechanism, words that may go after "privatised by"."""


class StatementLine(NamedTuple):
    """One line of the table of observers.

    who: the observer. smallest, largest: the extreme values of ε over the points (combinations of swept values). A
    point has the ε of its worst replicate. note: the number of points at which ε is known; empty: all points.
    """

    who: str
    smallest: str
    largest: str
    note: str = ""


def statement(
    rows: pd.DataFrame, table: pd.DataFrame, mechanisms: Mechanisms, terms: Mapping[str, Terms]
) -> dict[str, Any]:
    """The parts of a report's section on privacy, by name.

    promise: paragraphs on what ε promises. lines: a line with ε for each observer. compared: lines with a lower bound
    of ε and with papers' bounds. partial: whether some of these lines lack some points. refused: sentences on papers'
    bounds that do not apply. conditions: groups of a heading and conditions. bases: each way in which the learner's ε
    was computed, with the number of points.

    Args:
        rows: one line for each point and replicate. table: one line for each point, with its number of replicates.
        mechanisms: words for each kind of mechanism. terms: the privacy statements without numbers, by the identifier
        in the rows' column `statement`.
    """
    # a point whose replicates all failed has no values
    measured = table[table["replicates"] > 0]
    bases = worst_bases(rows).map(plain).value_counts()
    # how often somebody who guesses labels is right; rows of earlier versions lack this
    guesses = sentences(rows)
    if guesses:
        where = ["Where most is learned of a label:"] if rows[POINT].nunique() > 1 else []
        guesses = [*where, *guesses, population(rows)]
    paragraphs = (
        _who(rows), _figure(rows, measured), " ".join(filter(None, guesses)), _little(rows), *choices(rows),
        _caution(rows, measured),
    )  # fmt: skip
    lines = [_line(measured, *entry) for entry in OBSERVERS if measured[entry[0]].notna().any()]
    compared = [_line(measured, *entry) for entry in COMPARED if (measured[entry[0]] > 0).any()]
    return {
        "promise": tuple(filter(None, paragraphs)),
        "lines": lines,
        "compared": compared,
        "partial": any(line.note for line in (*lines, *compared)),
        "refused": _refused(rows, terms),
        "conditions": _conditions(rows, mechanisms, terms),
        "bases": [(str(basis), count(int(size), "point")) for basis, size in bases.items()],
    }


def _who(rows: pd.DataFrame) -> str:
    """A sentence on what is protected from whom, and on which data sets are neighbours."""
    protected = {
        "label": "Two data sets are neighbours if they differ in the label of one user. Features, clusters and who "
        "takes part are public and not protected.",
        "example": "Two data sets are neighbours if they differ in one whole example, features and label.",
    }
    kinds = dict.fromkeys(map(str, rows["adjacency"]))
    observers = " or ".join(plain(kind) for kind in dict.fromkeys(map(str, rows["observer"])))
    text = " ".join(protected.get(kind, f"Adjacency: {plain(kind)}.") for kind in kinds)
    secret = "Any one whole row" if set(kinds) == {"example"} else "Any one user's label"
    finite = np.isfinite(rows["epsilon_upper"].fillna(math.inf).astype(float))
    if not finite.any():
        return f"{secret} is not protected from the {observers}, who sees what is released. {text}"
    some = "" if finite.all() else ", except where ε = ∞,"
    return f"{secret} is{some} protected from the {observers}, who sees what is released. {text}"


def _figure(rows: pd.DataFrame, measured: pd.DataFrame) -> str:
    """A sentence with the learner's largest ε over all points, and with what this ε promises.

    If no finite ε is known, the sentence says that nothing is promised. Otherwise the coalition's ε is stated, too.

    Args:
        rows: one line for each point and replicate. measured: one line for each point that has results.
    """
    worst = float(measured["epsilon_upper"].fillna(math.inf).max())
    where = "worst cluster and the worst replicate"
    if len(measured) > 1:
        where = f"{where} of the worst of {count(len(measured), 'point')}"
    if math.isinf(worst):
        return (
            f"In the {where} no finite ε is known to hold: ε = ∞. Nothing is promised there. Each point has its own ε."
        )
    # a factor of e^50 or more stands as a power
    factor = rounded_up(math.exp(worst)) if worst < 50 else f"e^{rounded_up(worst)}"
    changed = "row" if set(rows["adjacency"].astype(str)) == {"example"} else "user's label"
    each = " Each point has its own ε, in the table." if len(measured) > 1 else ""
    coalition = measured["epsilon_coalition_upper"].dropna().astype(float)
    if len(coalition):
        largest = rounded_up(float(coalition.max()))
        each = f" A learner who belongs to the scenario's coalition has ε = {largest}.{each}"
    return (
        f"At δ = {span(measured['delta'])}, ε is at most {rounded_up(worst)} in the {where}: changing one {changed} "
        f"multiplies the probability of anything the learner may conclude by at most e^ε = {factor}, plus δ.{each}"
    )


def _little(rows: pd.DataFrame) -> str:
    """Text on points of a label exchange whose learner's ε is finite and above 90% of ε₀, the ε of the noise alone.

    The text is empty if there are no such points.
    """
    exchanged = rows[(rows["mechanism_kind"] == "label_exchange") & rows["epsilon_local"].notna()]
    worst = exchanged.groupby(POINT)[["epsilon_upper", "epsilon_local"]].max().astype(float)
    basis = exchanged.groupby(POINT)["basis"].first()
    texts = [text for text in map(adds_little, worst["epsilon_upper"], worst["epsilon_local"], basis) if text]
    if not texts or rows[POINT].nunique() == 1:
        nothing = exchanged["flip_prob"].notna().all() and any(map(adds_nothing, *worst.to_numpy().T))
        return " ".join([*texts, *([DOMINATED] if texts and nothing else ())])
    return (
        f"At {len(texts):,d} of {count(rows[POINT].nunique(), 'point')} the exchange adds little: ε is more than "
        f"{NEAR_LOCAL:.0%} of ε₀, which the noise on each label gives."
    )


def _caution(rows: pd.DataFrame, measured: pd.DataFrame) -> str:
    """Sentences on what ε does not cover: further releases, other events on the network, an oracle, and real data.

    Args:
        rows: one line for each point and replicate. measured: one line for each point that has results.
    """
    text = "Each ε is about one release"
    if len(measured) > 1 or len(rows) > 1:
        text += "; if several replicates or points about the same users were released, their ε would add up"
    conditional = rows["epsilon_others_upper"].notna()  # these values of ε take what happened on the network as given
    if conditional.any():
        some = "" if conditional.all() else "Where the network has faults or other observers, "
        text += (
            f". {some}{'the' if some else 'The'} values of ε are conditional on each replicate's realised network "
            "(who was online, what was lost, who submitted); the largest ε is shown, and these ε must not be averaged"
        )
    if rows["oracle"].any():
        some = "The" if rows["oracle"].all() else "At some points the"
        text += (
            f". {some} mechanism was told the clusters' heterogeneity φ by an oracle, which looked at the population; "
            "ε does not account for that"
        )
    return f"{text}. The noise is simulated: it protects nobody's real data."


class ConditionGroup(NamedTuple):
    """Observers for whom the values of ε hold under the same conditions.

    heading: the observers' names. conditions: texts; none if the heading is a warning.
    """

    heading: str
    conditions: tuple[str, ...]


def _conditions(rows: pd.DataFrame, mechanisms: Mechanisms, terms: Mapping[str, Terms]) -> list[ConditionGroup]:
    """The conditions under which the rows' values of ε hold, as groups of a heading and a list of conditions.

    The values of ε in a group have the same mechanism, conditions and claimant (a plug-in package, or none). If some
    row's conditions are not on disk, the last group is a warning.

    Args:
        rows: one line for each point and replicate. mechanisms: words for each kind of mechanism. terms: the privacy
        statements without numbers, by the rows' column `statement`.
    """
    # by mechanism, claimant and conditions: the columns of ε with these conditions, and their points
    groups: dict[tuple[str, str, tuple[str, ...]], dict[str, set[str]]] = {}
    texts = dict(OBSERVERS)
    for point, kind, statements in _statement_terms(rows, terms):
        for column, here in statements.items():
            if "not_applicable" in here or column not in texts:
                continue
            conditions = tuple(plain(condition["text"], LONGEST) for condition in here["conditions"])
            who = groups.setdefault((kind, here["claimed_by"], conditions), {})
            who.setdefault(column, set()).add(point)
    headed = [
        ConditionGroup(_heading(kind, claimed, who, mechanisms, rows[POINT].nunique()), conditions)
        for (kind, claimed, conditions), who in groups.items()
        if conditions
    ]
    complete = "statement" in rows and bool(rows["statement"].astype(str).isin(list(terms)).all())
    return headed if complete else [*headed, ConditionGroup(NOT_KEPT, ())]


def _heading(kind: str, claimed: str, who: Mapping[str, set[str]], mechanisms: Mechanisms, everywhere: int) -> str:
    """The heading of a group of values of ε with the same conditions: mechanism, observers, and the claim of a plug-in.

    If the conditions apply to an observer at only some points, the number of points is added.

    Args:
        kind: kind of the mechanism. claimed: the plug-in that claims the values, or empty. who: for each column of ε,
        the points at which it has these conditions. mechanisms: words for each kind of mechanism. everywhere: number of
        all points.
    """
    text = mechanisms.get(kind, kind)
    about = "" if kind == "label_exchange" else f"{plain(text)}: "
    if claimed:
        about = f"{plain(text)}, as {plain(claimed)} claims, which p2p-sim has not checked: "
    parts = []
    for column, observer in OBSERVERS:
        if size := len(who.get(column, ())):
            parts.append(observer + (f" (at {size:,d} of {count(everywhere, 'point')})" if size < everywhere else ""))
    return f"For {about}{'; '.join(parts)}"


def _refused(rows: pd.DataFrame, terms: Mapping[str, Terms]) -> list[str]:
    """Sentences on bounds of the papers that do not apply, each with the first condition that fails. If a bound fails
    at only some points, their number is added.

    Args:
        rows: one line for each point and replicate. terms: the privacy statements without numbers, by the rows' column
        `statement`. If a bound does not apply, its statement is the condition that fails.
    """
    points: dict[str, set[str]] = {}
    for point, _, statements in _statement_terms(rows, terms):
        for column, text in COMPARED:
            if (fails := statements.get(column, {}).get("not_applicable")) is not None:
                name = text.removesuffix(" would state").removesuffix(" would state, at its own δ")
                points.setdefault(f"{name} does not apply: {plain(fails['text'], LONGEST)}", set()).add(point)
    everywhere = rows[POINT].nunique()
    some = (f" (at {len(at):,d} of {everywhere:,d} points)" * (len(at) < everywhere) for at in points.values())
    return [f"{text[0].upper()}{text[1:]}{which}." for text, which in zip(points, some, strict=True)]


class PointTerms(NamedTuple):
    """A point, the kind of mechanism, and the terms: by column of ε, the privacy statement without numbers."""

    point: str
    kind: str
    terms: Terms


def _statement_terms(rows: pd.DataFrame, terms: Mapping[str, Terms]) -> list[PointTerms]:
    """The terms (privacy statements without numbers, by column of ε) of each point, with the kind of mechanism.

    A point appears once for each different set of statements of its replicates. Statements that are not on disk are
    left out.

    Args:
        rows: one line for each point and replicate. The column `statement` identifies the terms. terms: the terms, by
        this identifier.
    """
    if "statement" not in rows:
        return []
    lines = rows[[POINT, "mechanism_kind", "statement"]].drop_duplicates().astype(str)
    return [
        PointTerms(point, kind, terms[name]) for point, kind, name in lines.itertuples(index=False) if name in terms
    ]


def _line(measured: pd.DataFrame, column: str, who: str) -> StatementLine:
    """A line with the smallest and largest value of a column of ε.

    measured: one line for each point that has results. who: the observer, or words for a bound that is compared.
    """
    values = measured[column].dropna().astype(float)
    note = "" if len(values) == len(measured) else f"{len(values):,d} of {count(len(measured), 'point')}"
    show = rounded_down if column == "epsilon_lower" else rounded_up
    return StatementLine(who, show(float(values.min())), show(float(values.max())), note)


def rounded_up(value: float) -> str:
    """An upper bound as text with four significant digits, never below what it bounds.

    >>> rounded_up(0.74211), rounded_up(0.5), rounded_up(float("inf"))
    ('0.7422', '0.5', '∞')
    """
    return number(four_digits(value, up=True))


def rounded_down(value: float) -> str:
    """A lower bound as text with four significant digits, never above what it bounds.

    >>> rounded_down(0.74219)
    '0.7421'
    """
    return number(four_digits(value, up=False))
