"""Statements as plain values: whole, or apart from the numbers that a table of results holds anyway.

A row of results holds ε and δ in columns. What is said of these columns besides, from the observer to the conditions,
is the same for many rows, and is kept once: its *terms*, a table by column.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.conditions import CLAIMED, PROTOCOL_CONDITIONS, Condition, identifier_of
from p2p_sim.privacy.where_bounds_hold import Stated

Terms = dict[str, dict[str, Any]]
"""What is said of each column of a row that holds an ε, besides the number."""


def whole(bound: PrivacyBound) -> dict[str, Any]:
    """A statement as plain values, for JSON."""
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
    """What is said besides the numbers, by column.

    Args:
        statements: by column. claimed_by: the package whose claim they are; empty: the simulator's own.
    """
    found: Terms = {}
    for column, statement in statements.items():
        if isinstance(statement, Stated):
            if statement.fails is not None:
                found[column] = {"not_applicable": _condition(statement.fails)}
            continue
        found[column] = {
            "observer": statement.observer,
            "adjacency": statement.adjacency,
            "conditional_on": statement.conditional_on,
            "basis": statement.basis,
            "conditions": [_condition(condition) for condition in statement.conditions],
            # ε₀ of a protocol of one's own is the simulator's statement, whoever wrote the protocol
            "claimed_by": "" if statement.conditions == PROTOCOL_CONDITIONS else claimed_by,
        }
    return found


def _condition(condition: str) -> dict[str, str]:
    return {"id": identifier_of(condition), "text": str(condition)}


def merged(several: Iterable[Terms]) -> Terms:
    """What is said of the columns of several rows together: all conditions and every basis, in their order."""
    found: Terms = {}
    for said in several:
        for column, here in said.items():
            held = found.setdefault(column, here)
            if "conditions" in held and "conditions" in here:
                more = [condition for condition in here["conditions"] if condition not in held["conditions"]]
                given = held["conditional_on"] or here["conditional_on"]
                bases = dict.fromkeys((*held["basis"].split(" | "), here["basis"]))
                joined = {"basis": " | ".join(bases), "conditions": [*held["conditions"], *more]}
                found[column] = {**held, **joined, "conditional_on": given}
    return found


def identifier(said: Terms) -> str:
    """Sixteen digits that say which terms these are: equal for equal terms."""
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]


def statement_of(row: Mapping[str, Any], said: Terms, column: str) -> PrivacyBound | None:
    """A row's statement about one of its columns, made whole again; None where the column has none.

    Args:
        row: with `delta`, the column and, for the learner's figure, `epsilon_lower`. said: the row's terms.
    """
    here, upper = said.get(column), row.get(column)
    if here is None or upper is None or "not_applicable" in here:
        return None
    lower = row["epsilon_lower"] if column == "epsilon_upper" else 0.0
    conditions = tuple(
        each["text"] if each["id"] == CLAIMED else Condition(each["id"], each["text"]) for each in here["conditions"]
    )
    return PrivacyBound(
        *(lower, upper, row["delta"], here["observer"], here["adjacency"], here["basis"], conditions),
        conditional_on=here["conditional_on"],
    )
