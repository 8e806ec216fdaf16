"""Errors that a simulated exchange might have, each with the law that it would follow then.

A fault has a strength p, the probability with which it happens; at p = 0 the exchange keeps to the protocol. The list
is public: an audit says from which strength on it sees each of them, and tests plant them in the simulator.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from p2p_sim.analysis.privacy.attack.submission_law import Cluster, protocol, submission_law
from p2p_sim.analysis.privacy.statement.windows import Floats


@dataclass(frozen=True)
class Seen:
    """What a learner sees of a cluster by the protocol's own positions, as probabilities or as counts.

    users: (n, 3) submits nothing, a zero, a one. order: (2, n, 2) whose submission comes first, and last, and whether
    it is a zero or a one. late: (2,) ones come later than zeros on average, what holders of 1 submit later than what
    holders of 0 do; a coin decides between equals. fetched: (c, 3) a member of the coalition fetches from the target, a
    member, another user. table: how many ones and zeros the holders of 1 and of 0 submit, of the cluster's `shape`.
    Not-a-number: not worked out.
    """

    users: NDArray[np.float64]
    order: NDArray[np.float64]
    late: NDArray[np.float64]
    fetched: NDArray[np.float64]
    table: NDArray[np.float64]


def seen_of(cluster: Cluster, table: Floats) -> Seen:
    """What follows from a table of laws if users of one label are alike and the order of arrival tells nothing."""
    o1, z1, o0, z0 = np.indices(cluster.shape, dtype=np.float64)
    share = 1.0 / np.maximum(o1 + z1 + o0 + z0, 1.0)
    users, order = np.zeros((cluster.size, 3)), np.zeros((cluster.size, 2))
    for label, zero, one, group in ((1, z1, o1, cluster.ones), (0, z0, o0, cluster.zeros)):
        here = np.array(cluster.labels) == label
        sent = [float((table * count).sum()) / max(group, 1) for count in (zero, one)]
        users[here] = (1.0 - sum(sent), *sent)
        order[here] = [float((table * count * share).sum()) / max(group, 1) for count in (zero, one)]
    mixed = ((o1 + o0) * (z1 + z0) > 0), ((o1 + z1) * (o0 + z0) > 0)
    late = np.array([0.5 * float(table[both].sum()) for both in mixed])
    return Seen(users, np.stack([order, order]), late, _fetched(cluster), table)


def _fetched(cluster: Cluster, p: float = 0.0) -> Floats:
    """Whom each member fetches from, if with probability p she asks herself."""
    n, c = cluster.size, cluster.members
    return np.tile((1.0 - p) * np.array([1.0, c, n - 1.0 - c]) / n + (0.0, p, 0.0), (c, 1))


@dataclass(frozen=True)
class Fault:
    """One error.

    name: in a few words. text: what happens with probability p. law: what is seen then.
    tabled: the whole table of the law is known, so that there is an event which tells most.
    members: it needs a coalition.
    """

    name: str
    text: str
    law: Callable[[Cluster, float], Seen]
    tabled: bool = True
    members: bool = False


def _by_rule(change: Callable[[Cluster, int, int, Floats, Floats], Floats | float]) -> Callable[[Cluster, float], Seen]:
    """Faults in which the label passed on is, with probability p, a one with another probability."""

    def law(cluster: Cluster, p: float) -> Seen:
        def rule(c: Cluster, label: int, bit: int, high: Floats, low: Floats) -> tuple[Floats, Floats]:
            fetched = (high + low) / c.size
            one = (1.0 - p) * fetched + p * change(c, label, bit, high, low)
            return c.sampling_rate * (1.0 - one), c.sampling_rate * one

        return seen_of(cluster, submission_law(cluster, rule))

    return law


def _kin(c: Cluster, label: int, bit: int, high: Floats, low: Floats) -> Floats:
    return high / max(c.ones, 1) if label else low / max(c.zeros, 1)


def _silence(cluster: Cluster, p: float) -> Seen:
    def rule(c: Cluster, label: int, bit: int, high: Floats, low: Floats) -> tuple[Floats, Floats]:
        zero, one = protocol(c, label, bit, high, low)
        return (zero * (1.0 - p), one * (1.0 - p)) if bit else (zero, one)

    return seen_of(cluster, submission_law(cluster, rule))


def _common(cluster: Cluster, p: float) -> Seen:
    together = np.zeros_like(cluster.bits)
    together[cluster.ones, 0] += 1.0 - cluster.flip_prob
    together[0, cluster.zeros] += cluster.flip_prob
    return seen_of(cluster, submission_law(cluster, bits=(1.0 - p) * cluster.bits + p * together))


def _sorted(cluster: Cluster, p: float) -> Seen:
    sound = seen_of(cluster, submission_law(cluster))
    o1, z1, o0, z0 = np.indices(cluster.shape, dtype=np.float64)
    first, last = np.zeros((cluster.size, 2)), np.zeros((cluster.size, 2))
    for label, zero, one, group in ((1, z1, o1, cluster.ones), (0, z0, o0, cluster.zeros)):
        here = np.array(cluster.labels) == label
        ones, zeros = one / np.maximum(o1 + o0, 1.0), zero / np.maximum(z1 + z0, 1.0)
        ahead, behind = (ones, zeros * (o1 + o0 == 0)), (ones * (z1 + z0 == 0), zeros)
        first[here] = [float((sound.table * x).sum()) / max(group, 1) for x in ahead[::-1]]
        last[here] = [float((sound.table * x).sum()) / max(group, 1) for x in behind[::-1]]
    order, late = (1.0 - p) * sound.order + p * np.stack([first, last]), sound.late * (1.0 - p, 1.0)
    return replace(sound, order=order, late=late)


def _herself(cluster: Cluster, p: float) -> Seen:
    return replace(_MEMBERS_OWN(cluster, p), fetched=_fetched(cluster, p))


def _users_alone(
    pick: Callable[[Cluster], Floats], who: Callable[[Cluster], NDArray[np.bool_]]
) -> Callable[[Cluster, float], Seen]:
    """Faults of which only each user's own frequencies are worked out: some pass on a one as often as `pick` says."""

    def law(cluster: Cluster, p: float) -> Seen:
        rate = np.where(who(cluster), p, 0.0)
        one = cluster.sampling_rate * ((1.0 - rate) * cluster.fetched + rate * pick(cluster))
        users = np.stack([np.full(cluster.size, 1.0 - cluster.sampling_rate), cluster.sampling_rate - one, one], axis=1)
        shapes = ((2, cluster.size, 2), (2,), (cluster.members, 3), cluster.shape)
        return Seen(users, *(np.full(shape, np.nan) for shape in shapes))

    return law


def _everybody(cluster: Cluster) -> NDArray[np.bool_]:
    return np.ones(cluster.size, dtype=np.bool_)


def _members(cluster: Cluster) -> NDArray[np.bool_]:
    place = np.arange(cluster.size)
    return (place >= 1) & (place <= cluster.members)


_MEMBERS_OWN = _users_alone(lambda cluster: cluster.noisy, _members)

FAULTS = (
    Fault(
        "own label",
        "a user passes on her own noisy label instead of a fetched one",
        _by_rule(lambda c, y, bit, *_: bit),
    ),
    Fault("true label", "a user passes on her own true label", _by_rule(lambda c, label, *_: label)),
    Fault(
        "neighbour's label",
        "a user passes on the noisy label of the next one of her cluster",
        _users_alone(lambda cluster: np.roll(cluster.noisy, -1), _everybody),
        tabled=False,
    ),
    Fault("common flips", "the noise flips all labels of a cluster or none", _common),
    Fault("flips redrawn", "a request is answered with fresh noise", _by_rule(lambda c, *_: c.fetched)),
    Fault("fetches among equals", "a user fetches from a holder of her own label", _by_rule(_kin)),
    Fault("order by label", "the ones of a cluster arrive before its zeros", _sorted, tabled=False),
    Fault("silence", "a user whose noisy label is a one submits nothing", _silence),
    Fault(
        "member's own label",
        "a member of the coalition passes on her own noisy label instead of the one that she fetched",
        _MEMBERS_OWN,
        tabled=False,
        members=True,
    ),
    Fault(
        "member asks herself",
        "a member of the coalition takes her own noisy label for a fetched one",
        _herself,
        tabled=False,
        members=True,
    ),
)
"""The faults that an audit states its power for."""
