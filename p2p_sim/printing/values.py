"""Numbers as the commands show them."""

import math
from typing import Any


def number(value: float | None) -> str:
    """Four digits; what does not apply, and infinity, in words and signs."""
    if value is None:
        return "not applicable"
    return "∞" if math.isinf(value) else f"{value:.4g}"


def finite(value: Any) -> Any:
    """The value for JSON: infinities spelled out and NaN as null, at any depth."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value
