"""The record of an exchange that a film shows, and the state of the exchange at one moment."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from p2p_sim.exchange import LEARNER, REPLY, REQUEST, Sent
from p2p_sim.film.layout import FilmLayout, Floats, Integers, places_of
from p2p_sim.replicate import ObservedNetwork, books

MOST_USERS, MOST_MESSAGES = 300, 3_000
"""Largest numbers of users and of messages of a run whose film shows all users; the film of a larger run shows a
sample of the users."""
STEPS = 400
"""Number of equal time steps of a film that shows a sample of the users. At the end of each step, the film has the
counts of the whole run."""
NOT_SHOWN, HIDDEN_MEMBER = -2, -3
"""Numbers below LEARNER that stand for users outside the sample: NOT_SHOWN, or HIDDEN_MEMBER for members of the
coalition.
"""
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
"""The film's counts, each with the column of a result row that contains it. The film computes two more: the submissions
that the learner took, and the questions that got no label. In the label exchange each user has one question."""


@dataclass(frozen=True, eq=False)
class Shown(Sent):
    """The messages of a film in the order in which they were sent; arrays have one entry for each message (s,).

    sender, receiver: position among the film's users, LEARNER, NOT_SHOWN or HIDDEN_MEMBER. how: LOST, OFFLINE (the
    receiver was offline), DELIVERED, or LATE (delivered and dropped). label: the noisy label in the message. It is -1
    in a request, and in all messages if they carry more than a class. In a scenario's own protocol it is also -1 in a
    message that did not arrive, because its label is unknown.
    """

    types = (*Sent.types, np.int64, np.int64)  # type: ignore[assignment]
    how: Integers
    label: Integers


@dataclass(frozen=True, eq=False)
class Fates:
    """The moments at which requests were made, expired and failed, in seconds; infinity: never.

    first_s: (n,) for each user of the run, when she first asked. failed_s: (n,) for each user, when it was certain that
    she gets no label. unanswered_s: (q,) for each question that got no label, when this was certain; in the label
    exchange each user has a single question, and the time is infinity if she got a label. expired_s: (e,) when requests
    expired. retried_s: when users asked again after a request had expired.
    """

    first_s: Floats
    failed_s: Floats
    unanswered_s: Floats
    expired_s: Floats
    retried_s: Floats


@dataclass(frozen=True, eq=False)
class Film:
    """The users whom a film shows, their messages, and the counts of the whole run.

    network: what happened in the run. users: numbers of the users in the picture, ascending (u,). places: the places of
    these users and of their clusters in the picture. messages: the messages that these users sent or received. fates:
    what became of the requests of all users. end_s: length of the run, seconds. run: the counts at the end of the run,
    by name.
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
        """The counts of the whole run as they grow over time: for each name, 401 numbers, at equally spaced moments
        from the beginning to the end; "at_s" has these moments in seconds. None if the film shows all users, because
        the counts then follow from their messages.

        The names are sent, duplicated, lost, undelivered (the receiver was offline) and delivered messages; submitted
        (submissions that the learner took); expired requests; retries (requests asked again); and unanswered (questions
        that got no label).
        """
        if self.users.size == self.network.num_users:
            return None
        sent, at = self.network.trace.sent, np.linspace(0.0, self.end_s, STEPS + 1)
        coming = np.isfinite(sent.arrives_s)
        times = {
            "sent": sent.sent_s[~sent.duplicate],
            "duplicated": sent.sent_s[sent.duplicate],
            "lost": sent.sent_s[~coming],
            "undelivered": sent.arrives_s[coming],  # the delivered ones are subtracted below
            "delivered": self.network.messages.time_s,
            **ends(self),
        }
        counts = {name: np.searchsorted(np.sort(each), at, side="right") for name, each in times.items()}
        counts["undelivered"] -= counts["delivered"]
        return {"at_s": at.tolist(), **{name: numbers.tolist() for name, numbers in counts.items()}}


def film_of(network: ObservedNetwork) -> Film:
    """Choose the users whom a film shows, and collect their messages.

    Args:
        network: what happened in a run, from `observed_network.observe`. The film shows only some of its users if there
        are more than 300 users, or more than 3,000 messages.

    Raises:
        RuntimeError: the messages do not add up to the counts of the run itself, which is a fault of the simulator.
    """
    # the number of users is halved until they have few enough messages
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
    """The counts of the whole run up to a moment, by name: messages that were sent, duplicated, lost, undelivered (the
    receiver was offline) or delivered; submissions that the learner took (submitted); requests that expired; retries;
    and questions that got no label (unanswered).

    Args:
        film: the film of the run. at_s: the moment, seconds. If the film shows only some users, the counts are known at
        401 moments; then the counts at the last of these moments that is not after `at_s` are returned.
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
    """The moments in seconds, never infinite, at which: the learner took a submission ("submitted"), a request expired
    ("expired"), a user asked again ("retries"), and it was certain that a question gets no label ("unanswered").
    """
    times = {
        "submitted": film.network.submitted_s,
        "expired": film.fates.expired_s,
        "retries": film.fates.retried_s,
        "unanswered": film.fates.unanswered_s,
    }
    return {name: each[np.isfinite(each)] for name, each in times.items()}


def _last(times: Floats) -> float:
    """The largest finite one of some times in seconds; 0 if none is finite (infinity means never)."""
    return float(times[np.isfinite(times)].max(initial=0.0))


def _fates(network: ObservedNetwork) -> Fates:
    """What became of users' requests in a label exchange. For each user: when she first asked, and when it was certain
    that she gets no label. For requests: when they expired, and when users asked again. All are in seconds, infinity
    for never. Because each user has a single question, these times follow from the messages that were sent and from the
    requests that expired.
    """
    sent, expired, n = network.trace.sent, network.trace.expired, network.num_users
    own, reply = (sent.kind == REQUEST) & ~sent.forwarded, (sent.kind == REPLY) & (sent.receiver >= 0)
    first_s, heard, lapsed = np.full(n, np.inf), np.full(n, -np.inf), np.full(n, -np.inf)
    np.minimum.at(first_s, sent.sender[own], sent.sent_s[own])
    np.maximum.at(lapsed, expired.user, expired.begin_s)
    # `heard`: when the last message among her requests and the replies to her came or was lost
    at = np.where(np.isfinite(sent.arrives_s), sent.arrives_s, sent.sent_s)
    np.maximum.at(heard, sent.sender[own], at[own])
    np.maximum.at(heard, sent.receiver[reply], at[reply])
    if sent.forwarded.any():  # the transcript does not tell whose request a user passed on
        heard = np.where(np.isfinite(first_s), _last(at), -np.inf)
    # a user who never asked has failed if she came online, since she has no neighbour
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
    # a request that expired is followed by another unless it was the last of a user who got nothing
    again = (expired.begin_s < lapsed[expired.user]) | ~waiting[expired.user]
    return Fates(first_s, failed_s, failed_s, expired.begin_s, expired.begin_s[again])


def _fates_of_requests(network: ObservedNetwork) -> Fates:
    """What became of users' requests in a run of a protocol other than the label exchange. There a user may ask any
    number of questions, and each of them several times. For each user: when she first asked, and when all her questions
    had failed. For each question without an answer: when it failed. For requests: when they expired, and when users
    asked again. All are in seconds, infinity for never.

    Raises:
        RuntimeError: the run recorded no requests.
    """
    requests, n = network.trace.requests, network.num_users
    if requests is None:
        raise RuntimeError("a protocol's transcript has no requests")
    first_s, failed_s = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(first_s, requests.user, requests.begin_s)
    # the first reply to any attempt answers a question; without a reply it fails when its last attempt expires or, if
    # attempts never expire, at the end of the run
    questions, row = np.unique(np.column_stack([requests.user, requests.question]), axis=0, return_inverse=True)
    answered, over = np.full(len(questions), np.inf), np.zeros(len(questions))
    np.minimum.at(answered, row.ravel(), requests.answered_s)
    np.maximum.at(over, row.ravel(), requests.deadline_s)
    over[np.isinf(over)] = max(float(network.counts["completion_time_s"]), _last(requests.begin_s))
    # a user has failed when all her questions were in vain
    np.maximum.at(failed_s, questions[:, 0], np.where(np.isinf(answered), over, np.inf))
    failed_s[np.isinf(first_s)] = np.inf
    return Fates(
        first_s, failed_s, unanswered_s=over[np.isinf(answered)], expired_s=network.trace.expired.begin_s,
        retried_s=requests.begin_s[requests.attempt > 0],
    )  # fmt: skip


def _chosen(network: ObservedNetwork, most: int) -> Integers:
    """The numbers of the users whom a film shows, ascending, at most `most`; all users if the run has no more.

    They are the users of whole clusters that fit: first the cluster of the user with the largest certified ε, then the
    others in their order. If her cluster alone does not fit, they are some of its users, found by following messages
    from her to others, from these to others, and so on.
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
    """Some users (most,) of the cluster of the user `begin`, ascending, by a breadth-first search along messages."""
    cluster = network.cluster(begin)
    first, last = network.cluster_offsets[cluster : cluster + 2].tolist()
    sent = network.trace.sent
    inner = (sent.sender >= first) & (sent.sender < last) & (sent.receiver >= 0)
    # `near`: for each user, those with whom she exchanged messages, in the order of the messages
    near: dict[int, list[int]] = {}
    for sender, receiver in zip(sent.sender[inner].tolist(), sent.receiver[inner].tolist(), strict=True):
        near.setdefault(sender, []).append(receiver)
        near.setdefault(receiver, []).append(sender)
    company: set[int] = set()
    # if the search reaches nobody else, it goes on from the cluster's next user
    waiting, fresh = [begin], iter(range(first, last))
    while len(company) < most:
        user = waiting.pop(0) if waiting else next(fresh)
        if user not in company:
            company.add(user)
            waiting += near.get(user, [])
    return np.array(sorted(company), dtype=np.int64)


def _messages(network: ObservedNetwork, users: Integers) -> Shown:
    """The messages that some users sent or received, in the order in which they were sent, each with its kind, sender,
    receiver, times, the noisy label that it carries (-1: none or unknown), and what became of it: lost, not delivered
    because the receiver was offline, delivered, or delivered and dropped because it was too late. A sender or receiver
    is given by the position in `users`, or by -1 for the learner, -2 for any other user, and -3 for any other user who
    is in the coalition (she tells the learner what she sees).

    Args:
        network: what happened in the run. users: (u,) numbers of the users, ascending.

    Raises:
        RuntimeError: a message was delivered that nobody sent, which is a fault of the simulator.
    """
    address = np.full(network.num_users + 1, NOT_SHOWN)
    address[:-1][network.member] = HIDDEN_MEMBER
    address[users] = np.arange(users.size)
    address[LEARNER] = LEARNER  # the last entry
    # messages that these users sent or received, in the order in which they were sent
    every = network.trace.sent
    chosen = np.flatnonzero((address[every.sender] >= 0) | (address[every.receiver] >= 0))
    chosen = chosen[np.argsort(every.sent_s[chosen], kind="stable")]
    sent = Sent(*(column[chosen] for column in vars(every).values()))
    m = network.messages
    mine = m.select((address[m.sender] >= 0) | (address[m.receiver] >= 0))
    delivered: dict[tuple[float, ...], list[int]] = {}  # the labels of delivered messages, by time, kind and users
    rows = (mine.time_s, mine.kind, mine.sender, mine.receiver, mine.label)
    for *key, carried in zip(*(column.tolist() for column in rows), strict=True):
        delivered.setdefault(tuple(key), []).append(carried)
    dropped = set(mine.select(mine.late).time_s.tolist())
    how, label = np.full(sent.kind.size, LOST), network.labels.noisy[sent.whose]
    label[(sent.whose < 0) | (network.protocol is not None)] = -1
    columns = (sent.arrives_s.tolist(), sent.kind.tolist(), sent.sender.tolist(), sent.receiver.tolist())
    for row, (came_s, kind, sender, receiver) in enumerate(zip(*columns, strict=True)):
        if labels := delivered.get((came_s, kind, sender, receiver)):
            carried = labels.pop(0)  # not always the owner's noisy label: users may lie, messages may be changed
            label[row] = carried if sent.whose[row] >= 0 else -1
            taken_s = network.submitted_s[sender] if receiver == LEARNER else came_s
            # the learner takes no submission that is too late or, in a scenario's own protocol, not the user's first
            missed = np.isinf(taken_s) or (network.protocol is not None and came_s > taken_s)
            how[row] = LATE if came_s in dropped or missed else DELIVERED
        elif np.isfinite(came_s):
            how[row] = OFFLINE
    if unsent := sum(map(len, delivered.values())):
        raise RuntimeError(f"{unsent} messages were delivered and never sent")
    positions = {"sender": address[sent.sender], "receiver": address[sent.receiver]}
    return Shown(**(vars(sent) | positions), how=how, label=label)


def doing(film: Film, at_s: float) -> Integers:
    """For each user of a film, a number that says what she had last done by the moment `at_s`, in seconds, (u,).

    0: nothing, 1: asked for a label, 2: got one, 3: submitted one that the learner took, 4: failed to get one.
    """
    network, fates, users = film.network, film.fates, film.users
    state = np.where(fates.first_s[users] <= at_s, 1, 0)
    state[fates.failed_s[users] <= at_s] = 4
    state[network.answered_s[users] <= at_s] = 2
    state[network.submitted_s[users] <= at_s] = 3
    return state


def flying(film: Film, at_s: float) -> list[tuple[int, float, float, float, float]]:
    """The messages on their way at a moment: for each its kind, the point (x, y) where it began, and the point where it
    is now, in the units of the picture (1000 by 640, with (0, 0) at the top left).

    The kind is 1 for a request, 2 for a reply, 3 for a submission, or 0 for a failed message. A failed message remains
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
