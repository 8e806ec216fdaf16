"""Privacy statements as plain values for JSON, with or without their numbers.

A privacy statement bounds ε at δ. It also has texts: the observer, the adjacency (what is protected), the basis (how ε
was computed) and the conditions. A row of results has the numbers in its columns. The rest of its statements is called
the row's *terms*. Many rows have the same terms, which are stored once.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.conditions import CLAIMED, PROTOCOL_CONDITIONS, Condition
from p2p_sim.privacy.where_bounds_hold import Stated

Terms = dict[str, dict[str, Any]]
"""For each column that holds an ε: the column's statement without the numbers."""


def whole(bound: PrivacyBound) -> dict[str, Any]:
    """All fields of a statement as plain values, for JSON."""
    return {
        "epsilon_lower": bound.epsilon_lower,
        "epsilon_upper": bound.epsilon_upper,
        "delta": bound.delta,
        "observer": bound.observer,
        "adjacency": bound.adjacency,
        "basis": bound.basis,
        "conditions": [str(condition) for condition in bound.conditions],
        "condition_ids": list(bound.condition_ids),
        "conditional_on": bound.conditional_on,
    }


def terms(statements: Mapping[str, PrivacyBound | Stated], claimed_by: str = "") -> Terms:
    """The terms of a row of results: for each column that holds an ε, the privacy statement without the numbers.

    An entry has observer, adjacency, basis, conditions, `conditional_on` (what the bound takes as given) and
    `claimed_by`. A paper's ε has an entry only if the paper's bound does not apply. This entry has only the key
    `not_applicable`, with `id` and `text` of the condition that fails.

    Args:
        statements: by column of ε, a statement of the simulator, or a `Stated` (a paper's ε, or why there is none).
        claimed_by: the plug-in package that claims the statements; empty: the simulator itself.
    """
    by_column: Terms = {}
    for column, statement in statements.items():
        if isinstance(statement, PrivacyBound):
            by_column[column] = {
                "observer": statement.observer,
                "adjacency": statement.adjacency,
                "conditional_on": statement.conditional_on,
                "basis": statement.basis,
                "conditions": [
                    {"id": name, "text": str(condition)}
                    for name, condition in zip(statement.condition_ids, statement.conditions, strict=True)
                ],
                # the simulator itself states ε₀ (the ε of the noise on one label) for a plug-in's protocol
                "claimed_by": "" if statement.conditions == PROTOCOL_CONDITIONS else claimed_by,
            }
        elif statement.fails is not None:
            by_column[column] = {"not_applicable": {"id": statement.fails.identifier, "text": str(statement.fails)}}
    return by_column


def merged(several: Iterable[Terms]) -> Terms:
    """The terms of several rows (privacy statements without numbers, by column of ε), merged into one.

    Each column keeps its first entry. Conditions and bases (how ε was computed) of later entries are added, each
    once. An empty `conditional_on` takes the text of a later entry. An entry that only says why a paper's bound does
    not apply adds nothing, and nothing is added to this entry.
    """
    together: Terms = {}
    for row in several:
        for column, here in row.items():
            before = together.setdefault(column, here)
            if "conditions" in before and "conditions" in here:
                more = [condition for condition in here["conditions"] if condition not in before["conditions"]]
                together[column] = {
                    **before,
                    "basis": " | ".join(dict.fromkeys((*before["basis"].split(" | "), here["basis"]))),
                    "conditions": [*before["conditions"], *more],
                    "conditional_on": before["conditional_on"] or here["conditional_on"],
                }
    return together


def identifier(row_terms: Terms) -> str:
    """Sixteen hexadecimal digits that identify a row's terms. Equal terms have equal digits."""
    return hashlib.sha256(json.dumps(row_terms, sort_keys=True).encode()).hexdigest()[:16]


def statement_of(row: Mapping[str, Any], row_terms: Terms, column: str) -> PrivacyBound | None:
    """The privacy statement about one ε of a row, put together from the row's numbers and terms.

    None: the row has no number in this column, or the terms have no statement about the column. The lower bound of ε is
    0, except for the column `epsilon_upper`.

    Args:
        row: values by column: `delta`, the column of ε, and `epsilon_lower` if `epsilon_upper` is asked for.
        row_terms: the row's terms. column: the column of ε.
    """
    here, upper = row_terms.get(column), row.get(column)
    if here is None or upper is None or "not_applicable" in here:
        return None
    # conditions that a plug-in claims are plain text
    conditions = tuple(
        each["text"] if each["id"] == CLAIMED else Condition(each["id"], each["text"]) for each in here["conditions"]
    )
    return PrivacyBound(
        row["epsilon_lower"] if column == "epsilon_upper" else 0.0,
        upper,
        row["delta"],
        observer=here["observer"],
        adjacency=here["adjacency"],
        basis=here["basis"],
        conditions=conditions,
        conditional_on=here["conditional_on"],
    )
