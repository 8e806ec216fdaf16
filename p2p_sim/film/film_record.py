"""The record of an exchange that a film shows, and the state of the exchange at one moment."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from p2p_sim.exchange import LEARNER, REPLY, REQUEST, Sent
from p2p_sim.film.layout import FilmLayout, Floats, Integers, places_of
from p2p_sim.replicate import ObservedNetwork, books

MOST_USERS, MOST_MESSAGES = 300, 3_000
"""Largest numbers of users and of messages in a film that shows all users. The film of a larger run shows a sample of
the users."""
STEPS = 400
"""Number of equal time steps in a film that shows a sample. The film has the counts of the whole run after each step.
"""
NOT_SHOWN, HIDDEN_MEMBER = -2, -3
"""Numbers for users outside the sample: HIDDEN_MEMBER for members of the coalition, NOT_SHOWN for all others. Members
of the coalition tell the learner what they see."""
LOST, OFFLINE, DELIVERED, LATE = range(4)
COUNTS = {
    "sent": "messages_sent",
    "duplicated": "messages_duplicated",
    "lost": "messages_lost",
    "undelivered": "messages_undelivered",
    "delivered": "messages_delivered",
    "expired": "expired",
    "retries": "retries",
}
"""The film's counts, each with the column of a result row that contains it. The film computes two more counts:
submissions that the learner took, and questions that got no label. A question is one search for a label. In the label
exchange each user has one question."""


@dataclass(frozen=True, eq=False)
class Shown(Sent):
    """The messages of a film, in the order of sending. Arrays have one entry for each message, (s,).

    sender, receiver: position among the film's users, LEARNER, NOT_SHOWN or HIDDEN_MEMBER. how: what became of the
    message. LOST: it was lost on the way. OFFLINE: the receiver was offline. DELIVERED: it was delivered, and not
    dropped. LATE: it was delivered, and then dropped. label: the noisy label in the message; -1: none or unknown. A
    request has no label. A message that is not a single class (for example a vector) has the label -1. In another
    protocol than the label exchange, the label of a message that did not arrive is unknown.
    """

    types = (*Sent.types, np.int64, np.int64)  # type: ignore[assignment]
    how: Integers
    label: Integers


@dataclass(frozen=True, eq=False)
class Fates:
    """When users asked, when requests expired, and when users failed to get a label, in seconds. Infinity means never.

    first_s: (n,) when each user of the run first asked. failed_s: (n,) when it was certain that the user gets no label.
    unanswered_s: (q,) when it was certain that a question gets no label. In the label exchange each user has one
    question, and the moment is infinity if she got a label. expired_s: (e,) when requests expired. retried_s: when
    users asked again after a request had expired.
    """

    first_s: Floats
    failed_s: Floats
    unanswered_s: Floats
    expired_s: Floats
    retried_s: Floats


@dataclass(frozen=True, eq=False)
class Film:
    """The users whom a film shows, their messages, and the counts of the whole run.

    network: what happened in the run. users: (u,) numbers of the users in the picture, ascending. places: the places of
    these users and of their clusters. messages: the messages that these users sent or received. fates: what became of
    the requests of all users. end_s: length of the run, in seconds. run: the counts at the end of the run, by name.
    """

    network: ObservedNetwork
    users: Integers
    places: FilmLayout
    messages: Shown
    fates: Fates
    end_s: float
    run: dict[str, int]

    @cached_property
    def timeline(self) -> dict[str, list[float]] | None:
        """The counts of the whole run over time, by name. Each name has 401 numbers: the counts up to 401 equally
        spaced moments from the beginning to the end. The entry "at_s" has these moments in seconds. The timeline is
        None if the film shows all users, because the counts then follow from the messages.

        Five names are numbers of messages: sent, duplicated, lost, undelivered (the receiver was offline), and
        delivered. submitted: submissions that the learner took. expired: requests that expired. retries: requests asked
        again. unanswered: questions that got no label.
        """
        if self.users.size == self.network.num_users:
            return None
        sent, at = self.network.trace.sent, np.linspace(0.0, self.end_s, STEPS + 1)
        coming = np.isfinite(sent.arrives_s)
        times = {
            "sent": sent.sent_s[~sent.duplicate],
            "duplicated": sent.sent_s[sent.duplicate],
            "lost": sent.sent_s[~coming],
            "undelivered": sent.arrives_s[coming],  # delivered messages are subtracted below
            "delivered": self.network.messages.time_s,
            **ends(self),
        }
        counts = {name: np.searchsorted(np.sort(each), at, side="right") for name, each in times.items()}
        counts["undelivered"] -= counts["delivered"]
        return {"at_s": at.tolist(), **{name: numbers.tolist() for name, numbers in counts.items()}}


def film_of(network: ObservedNetwork) -> Film:
    """Choose the users whom a film shows, and collect their messages.

    Args:
        network: what happened in a run, from `observed_network.observe`. The film of a run with more than 300 users or
        3,000 messages shows only some users.

    Raises:
        RuntimeError: the film and the run's records do not agree, which is a fault of the simulator.
    """
    # halve the number of users until the film has at most 3,000 messages
    users = _chosen(network, MOST_USERS)
    while (messages := _messages(network, users)).kind.size > MOST_MESSAGES and users.size > 1:
        users = _chosen(network, users.size // 2)
    fates = _fates(network) if network.protocol is None else _fates_of_requests(network)
    run = {
        **{name: int(network.counts[column]) for name, column in COUNTS.items()},
        "submitted": int(np.count_nonzero(np.isfinite(network.submitted_s))),
        "unanswered": int(network.counts["fetches"] - network.counts["retries"] - network.counts["answered"]),
    }
    times = (network.submitted_s, messages.arrives_s, fates.expired_s, fates.retried_s, fates.unanswered_s)
    end_s = max(0.0, float(network.counts["completion_time_s"]), *map(_last, times)) or 1.0
    film = Film(network, users, places_of(network, users), messages=messages, fates=fates, end_s=end_s, run=run)
    if (counted := counts_at(film, end_s)) != run:
        raise RuntimeError(f"the film counts {counted}, the run {run}")
    return film


def counts_at(film: Film, at_s: float) -> dict[str, int]:
    """The counts of the whole run up to the moment `at_s` (in seconds), by name; `Film.timeline` explains the names. A
    film of a sample knows the counts at 401 moments only. Then the last of these moments up to `at_s` is used.
    """
    if film.timeline is not None:
        step = int(np.searchsorted(film.timeline["at_s"], at_s, side="right")) - 1
        return {name: int(film.timeline[name][step]) for name in film.run}
    m, sent = film.messages, film.messages.sent_s <= at_s
    come = (m.arrives_s <= at_s) & (m.how != LOST)
    numbers = {
        "sent": sent & ~m.duplicate,
        "duplicated": sent & m.duplicate,
        "lost": sent & (m.how == LOST),
        "undelivered": come & (m.how == OFFLINE),
        "delivered": come & (m.how > OFFLINE),
        **{name: times <= at_s for name, times in ends(film).items()},
    }
    return {name: int(np.count_nonzero(rows)) for name, rows in numbers.items()}


def ends(film: Film) -> dict[str, Floats]:
    """Moments in seconds, finite and unsorted, by name. submitted: the learner took a submission. expired: a request
    expired. retries: a user asked again. unanswered: a question was certain to get no label.
    """
    times = {
        "submitted": film.network.submitted_s,
        "expired": film.fates.expired_s,
        "retries": film.fates.retried_s,
        "unanswered": film.fates.unanswered_s,
    }
    return {name: each[np.isfinite(each)] for name, each in times.items()}


def _last(times: Floats) -> float:
    """The largest finite value among times in seconds; 0 if no time is finite."""
    return float(times[np.isfinite(times)].max(initial=0.0))


def _fates(network: ObservedNetwork) -> Fates:
    """When users asked, when requests expired, and when users failed to get a label, in a label exchange.

    A request expires at its time-out. The user may then ask again. She fails when it is certain that she gets no label.
    This moment is her last expiry. If none of her requests expired, it is the last moment at which a request of hers or
    a reply to her came or was lost. With random walks, it is the end of the run's last message. It is 0 if she came
    online and had nobody to ask. Each user has one question, which fails with her. All moments follow from the
    messages, the expired requests, and the users' periods online.
    """
    sent, expired, n = network.trace.sent, network.trace.expired, network.num_users
    own, reply = (sent.kind == REQUEST) & ~sent.forwarded, (sent.kind == REPLY) & (sent.receiver >= 0)
    first_s, heard, lapsed = np.full(n, np.inf), np.full(n, -np.inf), np.full(n, -np.inf)
    np.minimum.at(first_s, sent.sender[own], sent.sent_s[own])
    np.maximum.at(lapsed, expired.user, expired.begin_s)
    # `heard`: the last moment at which a request from her or a reply to her came or was lost
    at = np.where(np.isfinite(sent.arrives_s), sent.arrives_s, sent.sent_s)
    np.maximum.at(heard, sent.sender[own], at[own])
    np.maximum.at(heard, sent.receiver[reply], at[reply])
    if sent.forwarded.any():  # the transcript does not tell whose request a user passed on: take the run's last message
        heard = np.where(np.isfinite(first_s), _last(at), -np.inf)
    # a user who came online and never asked has no neighbour: her question has failed
    waiting, never = ~np.isfinite(network.answered_s), ~np.isfinite(first_s) & np.isinf(lapsed)
    online = np.zeros(n)
    if network.trace.online is not None:
        online -= np.inf
        np.maximum.at(online, network.trace.online.user, network.trace.online.end_s)
    lonely = np.flatnonzero(never)[np.argsort(online[never], kind="stable")][
        int(books(n, network.counts)["users_absent"]) :
    ]
    failed_s = np.where(np.isfinite(lapsed), lapsed, heard)
    failed_s[lonely] = 0.0
    failed_s = np.where(waiting & np.isfinite(failed_s), failed_s, np.inf)
    # the user asked again after every expired request, except after the last request of a user who got no label
    again = (expired.begin_s < lapsed[expired.user]) | ~waiting[expired.user]
    return Fates(first_s, failed_s, failed_s, expired.begin_s, expired.begin_s[again])


def _fates_of_requests(network: ObservedNetwork) -> Fates:
    """When users asked, when requests expired, and when users failed to get a label, in another protocol than the label
    exchange. There a user may have any number of questions, and may ask each several times. A question fails if none of
    its requests is answered. A user has failed when all her questions have failed.

    Raises:
        RuntimeError: the run recorded no requests.
    """
    requests, n = network.trace.requests, network.num_users
    if requests is None:
        raise RuntimeError("a protocol's transcript has no requests")
    first_s, failed_s = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(first_s, requests.user, requests.begin_s)
    # The first reply to any attempt answers a question. A question without a reply fails when the last attempt expires.
    # If attempts never expire, the question fails at the end of the run.
    questions, row = np.unique(np.column_stack([requests.user, requests.question]), axis=0, return_inverse=True)
    answered, over = np.full(len(questions), np.inf), np.zeros(len(questions))
    np.minimum.at(answered, row.ravel(), requests.answered_s)
    np.maximum.at(over, row.ravel(), requests.deadline_s)
    over[np.isinf(over)] = max(float(network.counts["completion_time_s"]), _last(requests.begin_s))
    # a user has failed when all her questions have failed
    np.maximum.at(failed_s, questions[:, 0], np.where(np.isinf(answered), over, np.inf))
    failed_s[np.isinf(first_s)] = np.inf
    return Fates(
        first_s, failed_s, unanswered_s=over[np.isinf(answered)], expired_s=network.trace.expired.begin_s,
        retried_s=requests.begin_s[requests.attempt > 0],
    )  # fmt: skip


def _chosen(network: ObservedNetwork, most: int) -> Integers:
    """The numbers of at most `most` users whom a film shows, ascending. A run with at most `most` users is shown
    completely. Otherwise each cluster that still fits is taken whole. The cluster of the user with the largest
    certified ε comes first; the other clusters follow in their order. If her cluster alone has too many users,
    `_company` takes some of them.
    """
    if network.num_users <= most:
        return np.arange(network.num_users)
    sizes, first = network.cluster_sizes, network.cluster(network.worst)
    if sizes[first] > most:
        return _company(network, network.worst, most)
    fit: list[Integers] = []
    room = most
    for cluster in [first, *(number for number in range(sizes.size) if number != first)]:
        if sizes[cluster] <= room:
            fit.append(np.arange(*network.cluster_offsets[cluster : cluster + 2]))
            room -= int(sizes[cluster])
    return np.sort(np.concatenate(fit))


def _company(network: ObservedNetwork, begin: int, most: int) -> Integers:
    """Some users (most,) in the cluster of the user `begin`, including her, ascending. The cluster has at least `most`
    users. Breadth-first search along messages finds the users. A search that ends early goes on from another user.
    """
    cluster = network.cluster(begin)
    first, last = network.cluster_offsets[cluster : cluster + 2].tolist()
    sent = network.trace.sent
    inner = (sent.sender >= first) & (sent.sender < last) & (sent.receiver >= 0)
    # `near`: for each user, the users with whom she exchanged messages, in the order of the messages
    near: dict[int, list[int]] = {}
    for sender, receiver in zip(sent.sender[inner].tolist(), sent.receiver[inner].tolist(), strict=True):
        near.setdefault(sender, []).append(receiver)
        near.setdefault(receiver, []).append(sender)
    company: set[int] = set()
    # if the search reaches no other user, it goes on from the cluster's next user
    waiting, fresh = [begin], iter(range(first, last))
    while len(company) < most:
        user = waiting.pop(0) if waiting else next(fresh)
        if user not in company:
            company.add(user)
            waiting += near.get(user, [])
    return np.array(sorted(company), dtype=np.int64)


def _messages(network: ObservedNetwork, users: Integers) -> Shown:
    """The messages that some users sent or received, in the order of sending, with what became of each. A sender or
    receiver is given by the position in `users`. Another number stands for the learner (-1), for a member of the
    coalition outside `users` (-3), or for any other user (-2).

    Args:
        network: what happened in the run. users: (u,) numbers of the users, ascending.

    Raises:
        RuntimeError: a message was delivered that nobody sent, which is a fault of the simulator.
    """
    address = np.full(network.num_users + 1, NOT_SHOWN)
    address[:-1][network.member] = HIDDEN_MEMBER
    address[users] = np.arange(users.size)
    address[LEARNER] = LEARNER  # the last entry
    every = network.trace.sent
    chosen = np.flatnonzero((address[every.sender] >= 0) | (address[every.receiver] >= 0))
    chosen = chosen[np.argsort(every.sent_s[chosen], kind="stable")]
    sent = Sent(*(column[chosen] for column in vars(every).values()))
    m = network.messages
    mine = m.select((address[m.sender] >= 0) | (address[m.receiver] >= 0))
    delivered: dict[tuple[float, ...], list[int]] = {}  # labels in delivered messages, by time, kind and users
    rows = (mine.time_s, mine.kind, mine.sender, mine.receiver, mine.label)
    for *key, carried in zip(*(column.tolist() for column in rows), strict=True):
        delivered.setdefault(tuple(key), []).append(carried)
    dropped = set(mine.select(mine.late).time_s.tolist())
    how, label = np.full(sent.kind.size, LOST), network.labels.noisy[sent.whose]
    label[(sent.whose < 0) | (network.protocol is not None)] = -1
    columns = (sent.arrives_s.tolist(), sent.kind.tolist(), sent.sender.tolist(), sent.receiver.tolist())
    for row, (came_s, kind, sender, receiver) in enumerate(zip(*columns, strict=True)):
        if labels := delivered.get((came_s, kind, sender, receiver)):
            carried = labels.pop(0)  # may differ from the owner's noisy label: users may lie, messages may be changed
            label[row] = carried if sent.whose[row] >= 0 else -1
            taken_s = network.submitted_s[sender] if receiver == LEARNER else came_s
            # the learner takes no late submission; in another protocol it takes only the user's first submission
            missed = np.isinf(taken_s) or (network.protocol is not None and came_s > taken_s)
            how[row] = LATE if came_s in dropped or missed else DELIVERED
        elif np.isfinite(came_s):
            how[row] = OFFLINE
    if unsent := sum(map(len, delivered.values())):
        raise RuntimeError(f"{unsent} messages were delivered and never sent")
    positions = {"sender": address[sent.sender], "receiver": address[sent.receiver]}
    return Shown(**(vars(sent) | positions), how=how, label=label)


def doing(film: Film, at_s: float) -> Integers:
    """What each user of a film had last done by the moment `at_s` (in seconds), as a number, (u,).

    0: nothing. 1: she asked for a label. 2: she got a label. 3: the learner took her submission. 4: she failed to get a
    label.
    """
    network, fates, users = film.network, film.fates, film.users
    state = np.where(fates.first_s[users] <= at_s, 1, 0)
    state[fates.failed_s[users] <= at_s] = 4
    state[network.answered_s[users] <= at_s] = 2
    state[network.submitted_s[users] <= at_s] = 3
    return state


def flying(film: Film, at_s: float) -> list[tuple[int, float, float, float, float]]:
    """The messages on their way at a moment. Each entry has the message's kind, the point (x, y) where the message
    began, and the point where it is now. Points are in the picture's units, 1000 by 640, with (0, 0) at the top left.

    The kind is 1 for a request, 2 for a reply, 3 for a submission, or 0 for a failed message. A failed message stays
    where it failed for a 50th of the run.

    Args:
        film: the messages and the places of users. at_s: the moment, in seconds.
    """
    m, linger = film.messages, film.end_s / 50.0
    drawn = (m.sender >= LEARNER) & (m.receiver >= LEARNER) & (m.sent_s <= at_s)
    failed = m.how <= OFFLINE
    end = np.where(m.how == LOST, m.sent_s + linger, m.arrives_s)
    rows = np.flatnonzero(drawn & (at_s < end + np.where(failed, linger, 0.0)))
    where = np.vstack([film.places.user, film.places.learner])  # the learner's place is last, because LEARNER is -1
    begin, goal = where[m.sender[rows]], where[m.receiver[rows]]
    share = np.minimum((at_s - m.sent_s[rows]) / np.maximum(end[rows] - m.sent_s[rows], 1e-300), 1.0)
    kind = np.where(failed[rows] & (share == 1.0), 0, m.kind[rows])
    share = np.where(m.how[rows] == LOST, 0.5 * share, share)
    here = begin + (goal - begin) * share[:, None]
    return [(int(k), *a, *b) for k, a, b in zip(kind, begin.tolist(), here.tolist(), strict=True)]
