"""What organisations have spent on releases of their rows, and whom these were shown to."""

import math
from dataclasses import dataclass, field

WHOLE = ""
"""The part of an organisation's rows that is all of them."""


@dataclass
class _Release:
    """A release of an organisation's rows: which part of the rows it is of, its ε, and who has seen it."""

    owner: int
    part: str
    epsilon: float
    seen_by: set[int] = field(default_factory=set)


class ReleaseLedger:
    """What each organisation has spent: ε of its releases, each counted once however many have seen it.

    A release is known by its content. It is paid for once; resent, passed on or seen by many it costs no more
    (post-processing). Different releases of the same rows add up (basic composition, δ = 0). Releases of disjoint parts
    of the rows cost the largest part's sum (parallel composition; the parts must be drawn without looking at the rows).
    A release that was not paid for cannot be shown.

    >>> ledger = ReleaseLedger(2)
    >>> ledger.pay(0, b"a model", 1.0)
    >>> ledger.show(b"a model", 1)
    >>> ledger.show(b"a model", 1)
    >>> ledger.spent(0), ledger.spent(1), ledger.shown_to(0)
    (1.0, 0.0, {1})
    """

    def __init__(self, organisations: int) -> None:
        self._organisations = organisations
        self._releases: dict[bytes, _Release] = {}

    def pay(self, owner: int, content: bytes, epsilon: float, part: str = WHOLE) -> None:
        """Enter a release before anybody sees it.

        Args:
            owner: the organisation whose rows it is of, from 0. content: what tells it from other releases, such as a
                hash.
            epsilon: ε ≥ 0 of it alone. part: name of the rows it is of, disjoint from other parts.

        Raises:
            ValueError: an owner that does not exist, an ε below 0, or a content that is another's.
        """
        if not 0 <= owner < self._organisations or not epsilon >= 0.0:
            raise ValueError(
                f"owner = {owner}, epsilon = {epsilon}: must be 0..{self._organisations - 1} and at least 0"
            )
        release = self._releases.setdefault(content, _Release(owner, part, epsilon))
        if (release.owner, release.part) != (owner, part):
            raise ValueError(f"release of organisation {release.owner}: organisation {owner} cannot pay for it too")
        release.epsilon = max(release.epsilon, epsilon)

    def show(self, content: bytes, to: int) -> None:
        """Note that an organisation has seen a release; seeing it again changes nothing.

        Raises:
            LookupError: nobody has paid for it.
        """
        if content not in self._releases:
            raise LookupError(f"organisation {to} was shown a release that no entry of the ledger pays for")
        self._releases[content].seen_by.add(to)

    def spent(self, owner: int) -> float:
        """The total ε of an organisation's releases, against an observer who sees all of them."""
        parts: dict[str, list[float]] = {}
        for release in self._releases.values():
            if release.owner == owner:
                parts.setdefault(release.part, []).append(release.epsilon)
        whole = math.fsum(parts.pop(WHOLE, ()))
        return whole + max((math.fsum(costs) for costs in parts.values()), default=0.0)

    def shown_to(self, owner: int) -> set[int]:
        """The other organisations that have seen some release of an organisation."""
        viewers = (release.seen_by for release in self._releases.values() if release.owner == owner)
        return set().union(*viewers) - {owner}
