"""What the privacy figures promise, to whom, against whom and on which conditions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from analysis.figures.report.points import worst_bases
from analysis.figures.report.text import count, number, plain, span
from analysis.privacy.fetch import CONDITIONS as FETCH_CONDITIONS
from analysis.privacy.label_exchange import LEARNER_CONDITIONS
from analysis.privacy.local import LOCAL_CONDITIONS
from analysis.privacy.realised import CAPPED_CONDITION, REALISED_CONDITIONS, UNIFORM_CONDITION

OBSERVERS = (
    ("epsilon_upper", "the learner, who sees the set of submissions, or what else is released"),
    ("epsilon_others_upper", "the learner, about users who did not pass on their own label"),
    ("epsilon_times_upper", "a learner who also sees when each submission came"),
    ("epsilon_coalition_upper", "the learner together with the coalition of the scenario"),
    ("epsilon_unmet_upper", "the same, about users whose label no member fetched"),
    ("epsilon_local", "a peer who asked that very user; an eavesdropper on the wire (ε₀, the noise alone)"),
)
COMPARED = (
    ("epsilon_lower", "no smaller ε holds for the learner than"),
    ("epsilon_paper", "the paper's Theorem 1 would state"),
    ("epsilon_paper_lemma9", "the paper's Lemma 9 would state"),
    ("epsilon_paper_theorem3", "the paper's Theorem 3 would state, at its own δ"),
)
PASSIVE = "members ask whom they are told to, once each, and follow the protocol; else the noise alone is counted"


@dataclass(frozen=True)
class Described:
    """What a mechanism other than the exchange says of itself.

    text: goes after "privatised by". conditions: of its figures. claimed_by: the package, where it is not the
    simulator's own.
    """

    text: str
    conditions: tuple[str, ...]
    claimed_by: str = ""


Mechanisms = Mapping[str, Described]
"""What is known of mechanisms, by kind."""


@dataclass(frozen=True)
class Line:
    """One line of the table of observers: who, and ε over the points, each at its worst."""

    who: str
    smallest: str
    largest: str
    note: str = ""


@dataclass(frozen=True)
class Statement:
    """The privacy section.

    promise: paragraphs. lines, compared: figures by observer, and what others say. conditions: groups of a heading and
    its conditions. bases: where the figures come from, with how many points.
    """

    promise: tuple[str, ...]
    lines: tuple[Line, ...]
    compared: tuple[Line, ...]
    conditions: tuple[tuple[str, tuple[str, ...]], ...]
    bases: tuple[tuple[str, str], ...]

    @property
    def partial(self) -> bool:
        """Whether some line is not known for all points."""
        return any(line.note for line in (*self.lines, *self.compared))


def statement(rows: pd.DataFrame, table: pd.DataFrame, mechanisms: Mechanisms) -> Statement:
    """The privacy section of a report.

    Args:
        rows: one line a point and replicate. table: one line a point, from `with_failures`.
        mechanisms: other than the exchange.
    """
    done = table[table["replicates"] > 0]
    bases = worst_bases(rows).map(plain).value_counts()
    return Statement(
        promise=(_who(rows), _figure(done), _caution(rows, done)),
        lines=tuple(_line(done, *entry) for entry in OBSERVERS if done[entry[0]].notna().any()),
        compared=tuple(_line(done, *entry) for entry in COMPARED if (done[entry[0]] > 0).any()),
        conditions=tuple(_conditions(rows, mechanisms)),
        bases=tuple((str(basis), count(int(size), "point")) for basis, size in bases.items()),
    )


def realised(rows: pd.DataFrame) -> pd.Series:
    """Which rows hold figures that are conditional on the network as it turned out."""
    return rows["epsilon_others_upper"].notna()


def _who(rows: pd.DataFrame) -> str:
    protected = {
        "label": "Two data sets are neighbours if they differ in the label of one user. Features, clusters and who "
        "takes part are public and not protected.",
        "example": "Two data sets are neighbours if they differ in one whole example, features and label.",
    }
    kinds = dict.fromkeys(map(str, rows["adjacency"]))
    seen = " or ".join(plain(kind) for kind in dict.fromkeys(map(str, rows["observer"])))
    text = " ".join(protected.get(kind, f"Adjacency: {plain(kind)}.") for kind in kinds)
    return f"One user's label, whoever she is, is protected from the {seen}, who sees what is released. {text}"


def _figure(done: pd.DataFrame) -> str:
    worst = float(done["epsilon_upper"].fillna(math.inf).max())
    place = "worst cluster and the worst replicate"
    if len(done) > 1:
        place = f"{place} of the worst of {count(len(done), 'point')}"
    if math.isinf(worst):
        return (
            f"In the {place} no finite ε is known to hold: ε = ∞, nothing is promised there. Each point has its own ε."
        )
    factor = rounded_up(math.exp(worst)) if worst < 50 else f"e^{number(worst)}"
    each = " Each point has its own ε, in the table." if len(done) > 1 else ""
    return (
        f"At δ = {_deltas(done)}, ε is at most {rounded_up(worst)} in the {place}: changing one user's label "
        f"multiplies the probability of anything the learner may conclude by at most e^ε = {factor}, plus δ.{each}"
    )


def _caution(rows: pd.DataFrame, done: pd.DataFrame) -> str:
    text = "Each ε is about one release"
    if len(done) > 1 or len(rows) > 1:
        text += "; releasing several replicates or points about the same users would add up"
    conditional = realised(rows)
    if conditional.any():
        some = "" if conditional.all() else "Where something could go wrong or somebody looked on, "
        text += (
            f". {some}{'the' if some else 'The'} figures are conditional on each replicate's realised network (who "
            "was online, what was lost, who submitted); the worst replicate's is shown, and they must not be averaged"
        )
    if rows["oracle"].any():
        some = "The" if rows["oracle"].all() else "At some points the"
        text += (
            f". {some} mechanism was told φ by an oracle, which looked at the population; ε does not account for that"
        )
    return f"{text}. The noise is simulated: it protects nobody's real data."


def _conditions(rows: pd.DataFrame, mechanisms: Mechanisms) -> list[tuple[str, tuple[str, ...]]]:
    """Conditions by group; a mechanism whose conditions are not known here is said to have its own."""
    kind, basis = rows["mechanism_kind"], rows["basis"].astype(str)
    known, conditional = kind == "label_exchange", realised(rows)
    alone, uniform = basis.str.startswith("noise alone"), basis.str.startswith("realised network")
    uneven, capped = basis.str.startswith("any fetch distribution"), basis.str.startswith("largest fetch")
    faults = known & conditional & ~alone
    groups = (
        (known & ~conditional, "Where nothing could go wrong", LEARNER_CONDITIONS),
        (faults & ~uneven, "On a network with faults or onlookers", REALISED_CONDITIONS),
        (faults & uniform, "Where everybody who answered could be asked", (UNIFORM_CONDITION,)),
        (faults & capped, "Where users come and go", (CAPPED_CONDITION,)),
        (faults & uneven, "Where peers were drawn unevenly", (REALISED_CONDITIONS[0], *FETCH_CONDITIONS)),
        (known & alone, "Where only the noise on each label is certain", LOCAL_CONDITIONS),
        (known & rows["epsilon_coalition_upper"].notna(), "For the coalition", (PASSIVE,)),
        *((~known & (kind == name), _heading(said), said.conditions) for name, said in mechanisms.items()),
        (~known & ~kind.isin(mechanisms), "Other mechanisms", ("those of the accountant named below",)),
    )
    return [(heading, conditions) for chosen, heading, conditions in groups if chosen.any()]


def _heading(said: Described) -> str:
    claimed = f", as {plain(said.claimed_by)} claims, which p2p-sim has not checked" if said.claimed_by else ""
    return f"For {plain(said.text)}{claimed}"


def _line(done: pd.DataFrame, column: str, who: str) -> Line:
    values = done[column].dropna().astype(float)
    note = "" if len(values) == len(done) else f"{len(values):,d} of {count(len(done), 'point')}"
    show = rounded_up if column.endswith(("_upper", "_local")) else number
    return Line(who, show(float(values.min())), show(float(values.max())), note)


def _deltas(done: pd.DataFrame) -> str:
    return span(done["delta"])


def rounded_up(value: float) -> str:
    """An upper bound in four digits, never below what it bounds.

    >>> rounded_up(0.74211), rounded_up(0.5), rounded_up(float("inf"))
    ('0.7422', '0.5', '∞')
    """
    if not math.isfinite(value) or value == 0 or float(f"{value:.4g}") >= value:
        return number(value)
    step = 10.0 ** (math.floor(math.log10(abs(value))) - 3)
    return number(float(f"{value:.4g}") + step)
