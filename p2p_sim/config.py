"""The base of every configuration class: strict, frozen, closed to unknown keys."""

import difflib
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict


class Config(BaseModel):
    """A frozen value that a scenario file spells out.

    Types are strict (no string becomes a number), unknown keys are errors, and infinities and NaN are refused.
    Each field states its meaning, unit, range and, where there is one, the paper's symbol in its description.
    """

    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class InputError(Exception):
    """A user's mistake: one clear line that names the key or file, the value and what is allowed."""


def nearest(name: str, known: Iterable[str]) -> str:
    """'; did you mean ...?', naming the valid choice nearest to a wrong one, or nothing."""
    close = difflib.get_close_matches(name, list(known), 1, 0.4)
    return f"; did you mean {close[0]}?" if close else ""
