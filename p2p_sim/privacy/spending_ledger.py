"""A ledger of releases: the ε that each release costs an organisation, and who has seen the release."""

import math
from dataclasses import dataclass, field

WHOLE = ""
"""In place of the name of a part, this name stands for all rows of an organisation."""


@dataclass
class _Release:
    """A release computed from all or part of an organisation's rows, with ε and the organisations that have seen it."""

    owner: int
    part: str
    epsilon: float
    seen_by: set[int] = field(default_factory=set)


class ReleaseLedger:
    """The total ε of each organisation's releases.

    A row is the data of one person. A release is identified by its content. The release costs ε only once, even if
    many organisations see it (post-processing). For different releases of the same rows, ε adds up (basic
    composition, δ = 0). For releases of disjoint parts of the rows, only the part with the largest sum of ε counts
    (parallel composition). The parts must be drawn without looking at the rows.

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
        """Enter a release with its ε, before anybody sees the release. At a second entry, the larger ε counts.

        Args:
            owner: number, from 0, of the organisation whose rows were used. content: bytes that identify the release,
            such as its hash. epsilon: ε ≥ 0 of this release alone. part: name of the part of the rows that was used;
            empty: all rows. Parts with different names must be disjoint.

        Raises:
            ValueError: the owner does not exist, ε is below 0, or this content was entered for another owner or part.
        """
        if not 0 <= owner < self._organisations or not epsilon >= 0.0:
            raise ValueError(
                f"owner = {owner}, epsilon = {epsilon}: must be 0..{self._organisations - 1} and at least 0"
            )
        release = self._releases.setdefault(content, _Release(owner, part, epsilon))
        if (release.owner, release.part) != (owner, part):
            raise ValueError(
                f"a release from {release.part or 'all rows'} of organisation {release.owner}: {part or 'all rows'} of "
                f"organisation {owner} cannot pay for it too"
            )
        release.epsilon = max(release.epsilon, epsilon)

    def show(self, content: bytes, to: int) -> None:
        """Enter that the organisation `to` has seen a release. A second entry changes nothing.

        Raises:
            LookupError: no ε has been entered for the release.
        """
        if content not in self._releases:
            raise LookupError(f"organisation {to} was shown a release that no entry of the ledger pays for")
        self._releases[content].seen_by.add(to)

    def spent(self, owner: int) -> float:
        """The total ε of an organisation's releases, against an observer who sees all of them.

        The total is the sum for releases of all rows, plus the largest sum for a part. owner: its number, from 0.
        """
        parts: dict[str, list[float]] = {}
        for release in self._releases.values():
            if release.owner == owner:
                parts.setdefault(release.part, []).append(release.epsilon)
        whole = math.fsum(parts.pop(WHOLE, ()))
        return whole + max((math.fsum(costs) for costs in parts.values()), default=0.0)

    def shown_to(self, owner: int) -> set[int]:
        """The other organisations that have seen at least one release of an organisation."""
        return set().union(*(each.seen_by for each in self._releases.values() if each.owner == owner)) - {owner}
