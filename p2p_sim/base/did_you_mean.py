"""What was meant by a name that is not known."""

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """'; did you mean ...?', naming the valid choice nearest to a wrong one, or nothing.

    Nearest by the whole name or, failing that, by the last part of a dotted one.

    >>> nearest("los", ["seed", "network.loss"]), nearest("x", ["seed"])
    ('; did you mean network.loss?', '')
    """
    known = list(known)
    ends = {choice.rsplit(".", 1)[-1]: choice for choice in reversed(known)}
    close = difflib.get_close_matches(name, known, 1, 0.5) or [
        ends[end] for end in difflib.get_close_matches(name.rsplit(".", 1)[-1], ends, 1, 0.5)
    ]
    return f"; did you mean {close[0]}?" if close else ""
