"""The record of a run's network, from which privacy is computed: whose label each user may have submitted.

The realised network is the network as it turned out: who was online, which messages were lost, who submitted. A record
takes this network as given. The realised network does not depend on labels. From the set of submissions a learner can
know the submitted labels and at most this network. Only the users' own choices remain random. A user's fetch law gives,
for each user of her cluster, the probability that she submitted this user's label.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_sim.base import BLOCK
from p2p_sim.exchange.exchange_run import ExchangeRun
from p2p_sim.exchange.message_timing import NEVER, Bools, Floats, MessageTiming, Users
from p2p_sim.network import CALIBRATED, Availability, GossipView, Overlay
from p2p_sim.population import Shard

ACCOUNTED = CALIBRATED | {"network.overlay", "network.peers", "network.availability"}
"""Keys of network faults that the fetch laws below take into account. With any other fault, only the noise is sure to
protect a label."""
LARGEST_TABLE = 120_000_000
"""Largest number of entries of a fetch law's table; each entry takes 12 bytes."""
LARGEST_WALKS = 20_000_000
"""Largest number of entries of the table for random walks."""


@dataclass(frozen=True)
class Uniform:
    """A fetch law under which all members of a user's cluster who answer are equally likely."""


@dataclass(frozen=True)
class Capped:
    """A fetch law of which only upper bounds are known. caps: (m,) user i submitted the label of any one peer with a
    probability of at most caps[i]; caps[i] is 0 if she submitted nothing.
    """

    caps: Floats


@dataclass(frozen=True)
class FetchTable:
    """The fetch law as a table.

    weights: (m, m) user i got the label of user j with probability weights[i, j]; rows of users who submitted nothing
    are empty. requests: (m, m) a member i of the coalition gets the label of user j with probability requests[i, j],
    whether she submits the label or not. None: the coalition may see more fetches than the requests that its members
    answer, such as forwarded or failed requests.
    """

    weights: "scipy.sparse.csr_array"
    requests: "scipy.sparse.csr_array | None" = None


@dataclass(frozen=True)
class Unknown:
    """A fetch law that is not known. Then only the noise on each label is sure to protect the label.

    reason: why the law is not known, in words. anything: whether even the set of users whose submissions arrived may
    depend on labels.
    """

    reason: str
    anything: bool = False


FetchLaw = Uniform | Capped | FetchTable | Unknown


def fetch_law(journey: MessageTiming, submitted: Bools, late: Bools | None = None) -> FetchLaw:
    """The fetch law of users who submitted a fetched label, given the network as it turned out. The law covers all m
    users of a shard, a group of whole clusters. An overlay is a graph of who may ask whom. The first case that applies
    gives the kind of the law:

    - `Unknown`: a fault of the network is not in `ACCOUNTED`.
    - `Uniform`: there is no overlay, and nobody goes offline.
    - `Unknown`: there is a deadline, and the learner's link has a limited bandwidth.
    - `Capped`: there is no overlay, and users may go offline.
    - `FetchTable`: users ask their neighbours on an overlay. If the table would be too large: `Unknown`.
    - `Unknown`: requests walk at random on an overlay, and users may be offline or silent, or distances cause delays.
    - `FetchTable`: all other random walks. If the table would be too large: `Unknown`.

    Args:
        journey: times and losses of messages, also of messages that users might have sent to other peers. submitted:
        (m,) which users passed on a fetched label. late: (m,) which users' submissions came after the deadline; None:
        no submission did.
    """
    config, overlay = journey.config, journey.overlay
    # first the cases of any network, last the cases with an overlay, the graph of who may ask whom
    beyond = [key for key in config.faults if key not in ACCOUNTED]
    if beyond:
        return Unknown(f"nobody has said what {beyond[0]} does", anything=True)
    if overlay is None and journey.availability is None:
        return Uniform()
    if config.deadline_s is not None and config.learner_bandwidth_bps is not None:
        return Unknown("in the queue at the learner's link, a submission's delay depends on other submissions")
    users = np.flatnonzero(submitted).astype(np.int32)
    if overlay is None:
        return Capped(_caps(journey, users, late))
    if journey.hops == 1:
        return _neighbours(journey, overlay, users, late)
    if journey.availability is not None or journey.serves(users) is not None or config.distance_s:
        return Unknown("random walks across users who may not forward")
    return _walks(journey, overlay, users)


def _caps(journey: MessageTiming, users: Users, late: Bools | None) -> Floats:
    """For each of a shard's m users, (m,), an upper bound of the probability that she submitted any one peer's label.
    The network as it turned out is given. The bound is 1/N if at least N peers could have answered. The bound is 0 if
    she submitted nothing.

    If each attempt draws a peer anew, the probability is a weighted mean of 1/N over the attempts. If the same peer is
    asked again, N counts the peers who could have answered at least one attempt. In a gossip network, each user asks an
    entry of a short list of random users, which changes in time. Several attempts may ask the same entry. So N is
    divided by the number of attempts, if attempts draw anew.

    A submission after the deadline has the bound 1: peers with an earlier reply in time are ruled out, but count in N.
    The bound above holds only if an attempt gets at most one reply, and each attempt draws a peer anew. In a gossip
    network, there must also be a single attempt.

    Args:
        journey: times and losses of messages. users: (u,) who submitted a fetched label. late: (m,) whether each user's
        submission came after the deadline; None: no submission did.
    """
    # sizes: for each user, a lower bound N of the number of peers who could have answered
    rule, caps = journey.config.on_timeout, np.zeros(journey.shard.size)
    able = [_able(journey, users, attempt, late) for attempt in range(rule.attempts)]
    least = np.full(users.size, np.inf)
    most = np.zeros(users.size)
    for count in able:
        possible = count > 0
        least[possible] = np.minimum(least[possible], count[possible])
        most = np.maximum(most, count)
    if isinstance(journey.config.peers, GossipView) and rule.retry == "redraw":
        sizes = most / rule.attempts
    else:
        sizes = least if rule.retry == "redraw" else most
    caps[users] = 1.0 / np.clip(sizes, 1.0, None)
    alone = journey.copies == 1 and rule.retry != "same_peer"
    if late is not None and not (alone and (rule.attempts == 1 or not isinstance(journey.config.peers, GossipView))):
        caps[users[late[users]]] = 1.0
    return caps


def _able(journey: MessageTiming, users: Users, attempt: int, late: Bools | None) -> NDArray[np.int64]:
    """For each of u users, (u,), a lower bound of how many users of her cluster could have answered a given request.
    Such users answer requests, and were online when the request would have come. The bound is 0 if the reply would have
    come too late, or if her submission would not have arrived.

    Args:
        journey: times and losses of messages. users: (u,) who submitted. attempt: number of the user's request, from 0.
        late: (m,) which users' submissions came after the deadline, and must be late here too; None: no submission did.
    """
    availability = cast(Availability, journey.availability)  # never None here: the law would be uniform
    offsets, count = journey.shard.offsets, np.zeros(users.size, dtype=np.int64)
    cluster = np.searchsorted(offsets, users, side="right") - 1
    for trip in journey.trips(users, attempt, None):
        valid = journey.arrives(users, trip.back_s, late) & (trip.back_s < NEVER)
        for index in np.unique(cluster[valid]):
            rows = np.flatnonzero(valid & (cluster == index))
            members = np.arange(offsets[index], offsets[index + 1], dtype=np.int32)
            serves = journey.serves(members)
            members = members if serves is None else members[serves]
            online = availability.take(members).count_online(0, members.size, trip.answered_s[rows])
            count[rows] = np.maximum(count[rows], online)
    return count


def _neighbours(journey: MessageTiming, overlay: Overlay, users: Users, late: Bools | None) -> FetchLaw:
    """The fetch law of a shard's m users who each ask a random neighbour on an overlay, the graph of who may ask whom.
    The table (m, m) has the probability that a user submitted a neighbour's label, given the network as it turned out.
    If the table would be too large, the law is unknown.

    Args:
        journey: times and losses of messages. overlay: the graph. users: (u,) who submitted a fetched label. late: (m,)
        whether each user's submission came after the deadline; None: no submission did.
    """
    size = journey.shard.size
    edges = int(overlay.degrees[users].sum())
    if edges > LARGEST_TABLE:
        return Unknown(f"an overlay of {edges:,} edges")
    # alike: an edge's weight does not depend on the neighbour, unless she is silent
    alike = journey.availability is None and journey.config.distance_s == 0
    even = alike and journey.serves(users) is None
    peers, weights = np.empty(edges, dtype=np.int32), np.empty(edges)
    counts, filled = np.zeros(size, dtype=np.int64), 0
    for first in range(0, users.size, BLOCK):
        block = users[first : first + BLOCK]
        row, peer = _edges(overlay, block)
        degree = overlay.degrees[block]
        # weights are scaled to sum to 1 for each user; edges of weight 0 are left out
        weight = 1.0 / degree[row] if even else _edge_weights(journey, block, row, peer, late)
        total = np.bincount(row, weights=weight, minlength=block.size)
        weight /= np.maximum(total, np.finfo(float).tiny)[row]
        keep = weight > 0
        counts[block] = np.bincount(row[keep], minlength=block.size)
        end = filled + int(np.count_nonzero(keep))
        peers[filled:end], weights[filled:end] = peer[keep], weight[keep]
        filled = end
    table = _table((weights[:filled], peers[:filled], counts), size)
    return FetchTable(table, _member_requests(journey, overlay) if alike else None)


class Edges(NamedTuple):
    """Edges of some users. row: (e,) the position of each edge's user in the list of these users. peer: (e,) the
    neighbour at the edge's other end.
    """

    row: NDArray[np.int64]
    peer: Users


def _edges(overlay: Overlay, users: Users) -> Edges:
    """All e edges of some users, user by user: the position (e,) of the edge's user in `users`, and the neighbour (e,).
    overlay: the graph of who may ask whom. users: (u,).
    """
    degree = overlay.degrees[users]
    row = np.repeat(np.arange(users.size), degree)
    first = overlay.indptr[users] - np.concatenate([[0], np.cumsum(degree)[:-1]])
    return Edges(row, overlay.indices[first[row] + np.arange(row.size)])


def _edge_weights(
    journey: MessageTiming, users: Users, row: NDArray[np.int64], peer: Users, late: Bools | None
) -> Floats:
    """For each of e edges from a user to a neighbour, (e,), a weight. The weight is proportional to the probability
    that the neighbour answered and that the user submitted the neighbour's label. Divided by their sum over a user's
    edges, the weights are her fetch law. The weights follow from the times and losses that requests to each neighbour
    would have had.

    Args:
        journey: times and losses of messages. users: (u,) who submitted. row: (e,) position in `users` of each edge's
        user. peer: (e,) the neighbour. late: (m,) for every user of the shard, whether her submission came after the
        deadline; None: no submission did.
    """
    rule, asker = journey.config.on_timeout, users[row]
    degree = np.bincount(row, minlength=users.size)
    weight, open_, has_answered = np.zeros(asker.size), np.ones(users.size), np.zeros(asker.size, dtype=np.bool_)
    for attempt in range(rule.attempts):
        times = journey.answered(asker, attempt, [peer]).time_s
        answered = (times < NEVER) & ~has_answered
        arrived = answered & journey.arrives(asker, times, late)
        weight[arrived] += open_[row[arrived]] / degree[row[arrived]]
        if rule.retry == "redraw":
            share = np.bincount(row[answered], minlength=users.size) / np.maximum(degree, 1)
            open_ *= 1.0 - share
        else:
            has_answered |= answered  # the same peer is asked again only if she has not answered
    return weight


def _member_requests(journey: MessageTiming, overlay: Overlay) -> "scipy.sparse.csr_array":
    """A table (m, m) for the members of a coalition: the probability that a member's request gets the label of each
    user. In a member's row, all neighbours who answer are equally likely. The rows of other users are empty. The table
    holds for every label that a member gets, submitted or not, in time or late. The table is only right if neither loss
    nor delay depends on the neighbour.

    Args:
        journey: has the users' roles. overlay: the graph of who may ask whom.
    """
    members = np.flatnonzero(journey.roles.member).astype(np.int32)
    row, peer = _edges(overlay, members)
    answers = ~journey.roles.silent[peer]
    row, peer = row[answers], peer[answers]
    weight = 1.0 / overlay.degrees[members][row]
    total = np.bincount(row, weights=weight, minlength=members.size)
    counts = np.zeros(overlay.num_users, dtype=np.int64)
    counts[members] = np.bincount(row, minlength=members.size)
    return _table((weight / total[row], peer, counts), overlay.num_users)


def _table(entries: tuple[Floats, Users, NDArray[np.int64]], size: int) -> "scipy.sparse.csr_array":
    """A sparse table of shape (size, size).

    Args:
        entries: three arrays: (E,) the values of the E entries, row by row; (E,) their columns; and (size,) the number
        of entries in each row. size: number of rows and of columns.
    """
    weight, column, counts = entries
    width = np.int32 if weight.size < 2**31 else np.int64
    start = np.concatenate([[0], np.cumsum(counts)]).astype(width)
    return scipy.sparse.csr_array((weight, column, start), shape=(size, size))


def _walks(journey: MessageTiming, overlay: Overlay, users: Users) -> FetchLaw:
    """The fetch law of a shard's m users whose requests walk at random from neighbour to neighbour. The table (m, m)
    has the probability that a user's walk ended at each user; she submitted the label of the user at the end. The table
    is a power of the matrix of single steps. Every user must forward requests. If the table would be too large, the law
    is unknown.

    Args:
        journey: has the number of steps. overlay: the graph on which requests walk. users: (u,) who submitted a fetched
        label.
    """
    size = journey.shard.size
    weight = 1.0 / np.repeat(np.maximum(overlay.degrees, 1), overlay.degrees)
    step = _table((weight, overlay.indices, overlay.degrees), overlay.num_users)  # each neighbour is equally likely
    rows = scipy.sparse.csr_array((np.ones(users.size), (users, users)), shape=(size, size))
    for _ in range(journey.hops):
        expected = int(np.bincount(rows.indices, minlength=size) @ overlay.degrees)
        if min(expected, users.size * int(np.diff(journey.shard.offsets).max())) > min(LARGEST_TABLE, LARGEST_WALKS):
            return Unknown(f"random walks of {journey.hops} steps among {size:,} users")
        rows = scipy.sparse.csr_array(rows @ step)
    return FetchTable(rows)


FLAGS = ("fetched", "own", "answers", "constant", "member", "probed")


@dataclass(frozen=True)
class NetworkRecord:
    """The network record of one shard of a run. Every array (m,) has one entry for each user.

    fetched: whether she passed on a fetched label. own: whether she passed on her own label because no reply came.
    Submissions after the deadline count too, because the learner has seen these.
    answers: whether she answers requests. constant: whether her answer is a class that is fixed beforehand. member:
    whether she pools what she sees with the learner. probed: whether an adversary who asks all users of the cluster got
    her answer.
    law: the fetch law of the users with `fetched`. draws: the largest number of labels that a user may have got if she
    asked for one label, late labels included. This number does not hold if users ask several peers or follow a protocol
    of their own; `law` is then `Unknown`. times_tell: whether the time of a submission may depend on whose label was
    submitted.
    offsets: (C+1,) cluster c has the entries offsets[c]..offsets[c+1]-1. users: (m,) number of users for whom each
    entry stands; None: each entry stands for one user.
    """

    shard: Shard
    fetched: Bools
    own: Bools
    answers: Bools
    constant: Bools
    member: Bools
    probed: Bools
    law: FetchLaw
    draws: int
    times_tell: bool
    offsets: NDArray[np.int64]
    users: NDArray[np.int64] | None = None

    def count(self, chosen: Bools) -> int:
        """How many users some entries of the record stand for. In a shortened record, an entry may stand for several
        users. chosen: (m,) which entries.
        """
        return int(np.count_nonzero(chosen) if self.users is None else self.users[chosen].sum())

    def summed(self) -> "NetworkRecord":
        """This record with fewer entries. All users of a cluster who are alike have one entry, with their number. Users
        are alike if they agree in all of `FLAGS`. `law` must be `Uniform` or `Unknown`, which treat all users of a
        cluster alike.
        """
        assert isinstance(self.law, Uniform | Unknown)
        clusters = len(self.offsets) - 1
        # an entry's kind: the number of its cluster, followed by a bit for each flag
        kind = np.repeat(np.arange(clusters) << len(FLAGS), np.diff(self.offsets))
        for bit, name in enumerate(FLAGS):
            kind |= getattr(self, name).astype(np.int64) << bit
        counts = np.bincount(kind, minlength=clusters << len(FLAGS))
        kinds = np.flatnonzero(counts)
        flags: dict[str, Any] = {name: (kinds >> bit & 1).astype(np.bool_) for bit, name in enumerate(FLAGS)}
        offsets = np.searchsorted(kinds, np.arange(clusters + 1) << len(FLAGS))
        return replace(self, **flags, offsets=offsets, users=counts[kinds])


def realised(exchange: ExchangeRun, law: FetchLaw | None = None) -> NetworkRecord:
    """The record from which the privacy of one shard's finished run is computed. The record has every user's role, and
    whether her submission arrived. The record also has the fetch law, and who submitted a fetched label.

    Args:
        exchange: the finished run. law: the fetch law; None: the law is computed from the network as it turned out.
    """
    journey, config = exchange.journey, exchange.journey.config
    arrived = np.isfinite(exchange.arrival)
    fetched = arrived & ~exchange.fallback
    law = fetch_law(journey, fetched, arrived & ~exchange.accepts(exchange.arrival)) if law is None else law
    roles, rule = journey.roles, config.on_timeout
    # the time of a submission may depend on the owner of the label: on whether she was online, or how far away she was
    times_tell = not config.batch_submission and (journey.availability is not None or config.distance_s > 0)
    return NetworkRecord(
        shard=journey.shard,
        fetched=fetched,
        own=arrived & exchange.fallback,
        answers=~roles.silent,
        constant=roles.answer >= 0,
        member=roles.member,
        probed=exchange.probed,
        law=law,
        draws=rule.attempts if rule.retry == "redraw" else 1,
        times_tell=times_tell,
        offsets=journey.shard.offsets,
    )
