"""Privacy statements as plain values for JSON: whole, or without the numbers that a row of results holds anyway.

A row of results holds ε and δ in columns. The rest of its privacy statements (observer, adjacency, basis and
conditions) is the same for many rows and is kept once. This rest, given for each column that holds an ε, is called the
row's *terms*.
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
    """The terms of a row of results: for each column that holds an ε, its privacy statement without the numbers.

    A column's entry has the observer, the adjacency, what the bound takes as given (`conditional_on`), the basis (how ε
    was computed), the conditions and who claims the statement. For a paper's ε that does not apply, the
    entry has the identifier and text of the condition that fails. A paper's ε that does apply has no entry.

    Args:
        statements: by column of ε, a statement of the simulator, or a `Stated`: a paper's ε, or why it does not apply.
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
                # ε₀ of a plug-in's protocol is the simulator's own statement, whoever wrote the protocol
                "claimed_by": "" if statement.conditions == PROTOCOL_CONDITIONS else claimed_by,
            }
        elif statement.fails is not None:
            by_column[column] = {"not_applicable": {"id": statement.fails.identifier, "text": str(statement.fails)}}
    return by_column


def merged(several: Iterable[Terms]) -> Terms:
    """The terms of several rows (their privacy statements without the numbers, by column of ε), merged into one.

    For each column the entry of the first row that has one is kept. The conditions and the bases (how ε was computed)
    of later rows are added to this entry, each once, in order. If its `conditional_on` is empty, that of a later row is
    taken. An entry that only says why a paper's bound does not apply adds nothing, and nothing is added to it.
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
    """Sixteen hexadecimal digits that identify a row's terms: equal for equal terms."""
    return hashlib.sha256(json.dumps(row_terms, sort_keys=True).encode()).hexdigest()[:16]


def statement_of(row: Mapping[str, Any], row_terms: Terms, column: str) -> PrivacyBound | None:
    """The whole privacy statement about one ε of a row, put together from the row's numbers and its terms (the
    statement without the numbers). None if the row has no number in this column, or the terms have no statement about
    the column. Except for the column `epsilon_upper`, the lower bound of ε is 0.

    Args:
        row: the row's values by column: `delta`, the column that is asked for and, if this is `epsilon_upper`, also
        `epsilon_lower`. row_terms: the row's terms. column: the column of ε.
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
