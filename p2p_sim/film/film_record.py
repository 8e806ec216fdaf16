"""What a film shows: the record of an exchange, and its state at one moment."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from p2p_sim.exchange.transcript import LEARNER, REPLY, REQUEST, Sent
from p2p_sim.film.layout import FilmLayout, Floats, Integers, places_of
from p2p_sim.replicate.observed_network import ObservedNetwork, books

MOST_USERS, MOST_MESSAGES = 300, 3_000
"""Users whom a film shows, and messages of theirs; of a larger run it shows a sample."""
STEPS = 400
"""Moments at which the counts of a larger run are known."""
NOT_SHOWN, HIDDEN_MEMBER = -2, -3
"""The address of a user who is not in the sample, and of one of the coalition; both are below LEARNER."""
LOST, OFFLINE, DELIVERED, LATE = 0, 1, 2, 3
COUNTS = {
    "sent": "messages_sent",
    "duplicated": "messages_duplicated",
    "lost": "messages_lost",
    "undelivered": "messages_undelivered",
    "delivered": "messages_delivered",
    "expired": "expired",
    "retries": "retries",
}
"""The film's counts, by their column of a row. Besides, submissions that the learner took are counted from the release,
and questions that got no label: in the label exchange each user has one."""


@dataclass(frozen=True, eq=False)
class Shown:
    """The messages of a film in the order in which they were sent; arrays have one entry a message (s,).

    kind: REQUEST, REPLY or SUBMISSION. sender, receiver: position among the film's users, LEARNER,
    NOT_SHOWN or HIDDEN_MEMBER.
    sent_s: seconds. end_s: when it came to its receiver, seconds; infinity: never.
    how: LOST, OFFLINE (its receiver was offline), DELIVERED, or LATE (delivered and dropped). attempt: from 0.
    forwarded: a request that a user passes on, as a step of a walk. duplicate: a copy that the network made.
    label: the noisy label that it carries; -1 in a request, where messages carry more than a class, and of a
    protocol where it did not arrive: it may have carried any.
    """

    kind: Integers
    sender: Integers
    receiver: Integers
    sent_s: Floats
    end_s: Floats
    how: Integers
    attempt: Integers
    forwarded: NDArray[np.bool_]
    duplicate: NDArray[np.bool_]
    label: Integers


@dataclass(frozen=True, eq=False)
class Fates:
    """What became of requests, seconds; infinity: never.

    first_s, failed_s: when each user of the run first asked, and when it was certain that she gets no label (n,).
    unanswered_s: when it was certain that a question gets no label (q,); in the label exchange each user has one.
    expired_s: when requests expired (e,). retried_s: when those expired after which the user asked again.
    """

    first_s: Floats
    failed_s: Floats
    unanswered_s: Floats
    expired_s: Floats
    retried_s: Floats


@dataclass(frozen=True, eq=False)
class Film:
    """What a film shows.

    network: what happened in the run. users: who is shown, ascending (u,). places: of users and clusters
    on the stage. messages: those that users who are shown sent or got. fates: of the requests of all users.
    end_s: length of the run, seconds. timeline: counts of the whole run at moments, if users are left out;
    `at_s` and the names of the counts. run: the counts of the whole run.
    """

    network: ObservedNetwork
    users: Integers
    places: FilmLayout
    messages: Shown
    fates: Fates
    end_s: float
    timeline: dict[str, list[float]] | None
    run: dict[str, int]


def film_of(network: ObservedNetwork) -> Film:
    """Choose the users whom a film shows, and collect their messages.

    Args:
        network: what happened in a run, from `observed_network.observe`. Of more than 300 users, or of users with more
            than 3,000 messages, only some are shown.

    Raises:
        RuntimeError: the messages do not add up to the run's own counts, which is a fault of the simulator.
    """
    # half as many users as long as they have too many messages
    users = _chosen(network, MOST_USERS)
    messages = _messages(network, users)
    while messages.kind.size > MOST_MESSAGES and users.size > 1:
        users = _chosen(network, users.size // 2)
        messages = _messages(network, users)
    fates = _fates(network) if network.protocol is None else _fates_of_requests(network)
    run = {name: int(network.counts[column]) for name, column in COUNTS.items()}
    run["submitted"] = int(np.count_nonzero(np.isfinite(network.submitted_s)))
    run["unanswered"] = int(network.counts["fetches"] - network.counts["retries"] - network.counts["answered"])
    moments = [0.0, float(network.counts["completion_time_s"])]
    times = (network.submitted_s, messages.end_s, fates.expired_s, fates.retried_s, fates.unanswered_s)
    moments += [_last(each) for each in times]
    end_s = max(moments) or 1.0
    film = Film(
        network, users, places_of(network, users), messages=messages, fates=fates, end_s=end_s, timeline=None, run=run
    )
    if users.size < network.num_users:
        film = replace(film, timeline=_timeline(film))
    if (counted := counts_at(film, end_s)) != run:
        raise RuntimeError(f"the film counts {counted}, the run {run}")
    return film


def counts_at(film: Film, at_s: float) -> dict[str, int]:
    """The counts of the whole run at a moment."""
    if film.timeline is not None:
        step = int(np.searchsorted(film.timeline["at_s"], at_s, side="right")) - 1
        return {name: int(film.timeline[name][step]) for name in film.run}
    m, sent = film.messages, film.messages.sent_s <= at_s
    come = (m.end_s <= at_s) & (m.how != LOST)
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
    """The times of what is counted besides messages in the whole run, by the name of its count; infinity: never."""
    fates = film.fates
    times = (film.network.submitted_s, fates.expired_s, fates.retried_s, fates.unanswered_s)
    names = ("submitted", "expired", "retries", "unanswered")
    return {name: each[np.isfinite(each)] for name, each in zip(names, times, strict=True)}


def _last(times: Floats) -> float:
    """The largest finite time; 0 if there is none."""
    return float(times[np.isfinite(times)].max(initial=0.0))


def _fates(network: ObservedNetwork) -> Fates:
    """What became of each user's requests, from how messages were sent."""
    sent, expired, n = network.trace.sent, network.trace.expired, network.num_users
    own, reply = (sent.kind == REQUEST) & ~sent.forwarded, (sent.kind == REPLY) & (sent.receiver >= 0)
    first_s, heard, lapsed = np.full(n, np.inf), np.full(n, -np.inf), np.full(n, -np.inf)
    np.minimum.at(first_s, sent.sender[own], sent.sent_s[own])
    np.maximum.at(lapsed, expired.user, expired.begin_s)
    # the last that was heard of her requests: when they or their replies came, or were lost
    at = np.where(np.isfinite(sent.arrives_s), sent.arrives_s, sent.sent_s)
    np.maximum.at(heard, sent.sender[own], at[own])
    np.maximum.at(heard, sent.receiver[reply], at[reply])
    if sent.forwarded.any():  # on a walk it is not known whose request somebody passed on
        heard = np.where(np.isfinite(first_s), _last(at), -np.inf)
    # of users who never asked: who has no neighbour and came online has failed
    waiting, never = ~np.isfinite(network.answered_s), ~np.isfinite(first_s) & np.isinf(lapsed)
    absent = books(n, network.counts)["users_absent"]
    online = np.zeros(n)
    if network.trace.online is not None:
        online -= np.inf
        np.maximum.at(online, network.trace.online.user, network.trace.online.end_s)
    lonely = np.flatnonzero(never)[np.argsort(online[never], kind="stable")][int(absent) :]
    failed_s = np.where(np.isfinite(lapsed), lapsed, heard)
    failed_s[lonely] = 0.0
    failed_s = np.where(waiting & np.isfinite(failed_s), failed_s, np.inf)
    # a request that expired is followed by another unless it was the last of a user who got nothing
    again = (expired.begin_s < lapsed[expired.user]) | ~waiting[expired.user]
    return Fates(first_s, failed_s, failed_s, expired.begin_s, expired.begin_s[again])


def _fates_of_requests(network: ObservedNetwork) -> Fates:
    """What became of the requests of a protocol, whose users have any number of questions, each with its attempts."""
    requests, n = network.trace.requests, network.num_users
    if requests is None:
        raise RuntimeError("a protocol's transcript has no requests")
    first_s, failed_s = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(first_s, requests.user, requests.begin_s)
    # a question is answered if one of its attempts is, and in vain when the last has expired; or else at the end
    questions, row = np.unique(np.column_stack([requests.user, requests.question]), axis=0, return_inverse=True)
    answered, over = np.full(len(questions), np.inf), np.zeros(len(questions))
    np.minimum.at(answered, row.ravel(), requests.answered_s)
    np.maximum.at(over, row.ravel(), requests.deadline_s)
    over[np.isinf(over)] = max(float(network.counts["completion_time_s"]), _last(requests.begin_s))
    # a user has failed when all her questions were in vain
    np.maximum.at(failed_s, questions[:, 0], np.where(np.isinf(answered), over, np.inf))
    failed_s[np.isinf(first_s)] = np.inf
    again = requests.begin_s[requests.attempt > 0]
    return Fates(first_s, failed_s, over[np.isinf(answered)], network.trace.expired.begin_s, again)


def _chosen(network: ObservedNetwork, most: int) -> Integers:
    """Whole clusters if they fit, that of the worst placed user first, the others in their order.

    If the first does not fit, users of it who exchanged messages with each other.
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
    """Users of one cluster, at most `most`: `begin`, those who exchanged messages with her, then those who did with
    these, and so on.
    """
    cluster = network.cluster(begin)
    first, last = network.cluster_offsets[cluster : cluster + 2].tolist()
    sent = network.trace.sent
    inner = (sent.sender >= first) & (sent.sender < last) & (sent.receiver >= 0)
    # with whom each user of the cluster exchanged messages, in the order in which they were sent
    near: dict[int, list[int]] = {}
    for sender, receiver in zip(sent.sender[inner].tolist(), sent.receiver[inner].tolist(), strict=True):
        near.setdefault(sender, []).append(receiver)
        near.setdefault(receiver, []).append(sender)
    company: dict[int, None] = {}
    # breadth first from `begin`; where nobody is left to be reached, from the cluster's next user
    waiting, fresh = [begin], iter(range(first, last))
    while len(company) < most:
        user = waiting.pop(0) if waiting else next(fresh)
        if user not in company:
            company[user] = None
            waiting += near.get(user, [])
    return np.sort(np.fromiter(company, dtype=np.int64))


def _messages(network: ObservedNetwork, users: Integers) -> Shown:
    """The messages that some users sent or received, and what became of them by the transcript."""
    address = np.full(network.num_users + 1, NOT_SHOWN)
    address[:-1][network.member] = HIDDEN_MEMBER
    address[users] = np.arange(users.size)
    address[LEARNER] = LEARNER  # the last entry
    sent = _select(
        network.trace.sent, (address[network.trace.sent.sender] >= 0) | (address[network.trace.sent.receiver] >= 0)
    )
    m = network.messages
    mine = m.select((address[m.sender] >= 0) | (address[m.receiver] >= 0))
    rows = (mine.time_s.tolist(), mine.kind.tolist(), mine.sender.tolist(), mine.receiver.tolist())
    keys = list(zip(*rows, strict=True))
    delivered: dict[tuple[float, int, int, int], list[int]] = {}  # the labels of those that are alike
    for key, carried in zip(keys, mine.label.tolist(), strict=True):
        delivered.setdefault(key, []).append(carried)
    dropped = set(mine.select(mine.late).time_s.tolist())
    how, label = np.full(sent.kind.size, LOST), network.labels.noisy[sent.whose]
    label[(sent.whose < 0) | (network.protocol is not None)] = -1
    columns = (sent.arrives_s.tolist(), sent.kind.tolist(), sent.sender.tolist(), sent.receiver.tolist())
    for row, key in enumerate(zip(*columns, strict=True)):
        if labels := delivered.get(key):
            carried = labels.pop(0)  # a liar's, or changed on its way
            label[row] = carried if sent.whose[row] >= 0 else -1
            taken_s = network.submitted_s[key[2]] if key[3] == LEARNER else key[0]
            # the learner did not take it: hers came too late, or, in a protocol, another one came first
            missed = np.isinf(taken_s) or (network.protocol is not None and key[0] > taken_s)
            how[row] = LATE if key[0] in dropped or missed else DELIVERED
        elif np.isfinite(key[0]):
            how[row] = OFFLINE
    if unsent := sum(map(len, delivered.values())):
        raise RuntimeError(f"{unsent} messages were delivered and never sent")
    return Shown(
        kind=sent.kind.astype(np.int64), sender=address[sent.sender], receiver=address[sent.receiver],
        sent_s=sent.sent_s, end_s=sent.arrives_s, how=how, attempt=sent.attempt.astype(np.int64),
        forwarded=sent.forwarded, duplicate=sent.duplicate, label=label,
    )  # fmt: skip


def _select(sent: Sent, rows: NDArray[np.bool_]) -> Sent:
    """The messages of the rows that are True, in the order in which they were sent."""
    chosen = np.flatnonzero(rows)
    chosen = chosen[np.argsort(sent.sent_s[chosen], kind="stable")]
    return Sent(*(column[chosen] for column in vars(sent).values()))


def _timeline(film: Film) -> dict[str, list[float]]:
    """The counts of a whole run at STEPS + 1 moments from 0 to its end."""
    network = film.network
    sent, at = network.trace.sent, np.linspace(0.0, film.end_s, STEPS + 1)
    coming = np.isfinite(sent.arrives_s)
    delivered = _until(network.messages.time_s, at)
    counts = {
        "sent": _until(sent.sent_s[~sent.duplicate], at),
        "duplicated": _until(sent.sent_s[sent.duplicate], at),
        "lost": _until(sent.sent_s[~coming], at),
        "undelivered": _until(sent.arrives_s[coming], at) - delivered,
        "delivered": delivered,
        **{name: _until(times, at) for name, times in ends(film).items()},
    }
    return {"at_s": at.tolist(), **{name: numbers.tolist() for name, numbers in counts.items()}}


def _until(times: Floats, at: Floats) -> Integers:
    """How many times lie at or before each moment."""
    return np.searchsorted(np.sort(times), at, side="right")


Flight = tuple[int, float, float, float, float]
"""Kind of a message (0: it failed), where it began (x, y), and where it is (x, y)."""


def doing(film: Film, at_s: float) -> Integers:
    """For each user of a film, what she had last done by a moment (u,): a key of `story.DID`."""
    network, fates, users = film.network, film.fates, film.users
    state = np.where(fates.first_s[users] <= at_s, 1, 0)
    state[fates.failed_s[users] <= at_s] = 4
    state[network.answered_s[users] <= at_s] = 2
    state[network.submitted_s[users] <= at_s] = 3
    return state


def flying(film: Film, at_s: float) -> list[Flight]:
    """The messages on their way at a moment; those that failed remain as crosses for a 50th of the run."""
    m, linger = film.messages, film.end_s / 50.0
    drawn = (m.sender >= LEARNER) & (m.receiver >= LEARNER) & (m.sent_s <= at_s)
    failed = m.how <= OFFLINE
    end = np.where(m.how == LOST, m.sent_s + linger, m.end_s)
    rows = np.flatnonzero(drawn & (at_s < end + np.where(failed, linger, 0.0)))
    where = np.vstack([film.places.user, film.places.learner])  # the last one is the learner's, as LEARNER is -1
    begin, goal = where[m.sender[rows]], where[m.receiver[rows]]
    share = np.minimum((at_s - m.sent_s[rows]) / np.maximum(end[rows] - m.sent_s[rows], 1e-300), 1.0)
    kind = np.where(failed[rows] & (share == 1.0), 0, m.kind[rows])
    share = np.where(m.how[rows] == LOST, 0.5 * share, share)
    here = begin + (goal - begin) * share[:, None]
    return [(int(k), *a, *b) for k, a, b in zip(kind, begin.tolist(), here.tolist(), strict=True)]
