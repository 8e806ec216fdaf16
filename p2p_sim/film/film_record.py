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

    asked_s, failed_s: when each user of the run first asked, and when it was certain that she gets no label (n,).
    unanswered_s: when it was certain that a question gets no label (q,); in the label exchange each user has one.
    expired_s: when requests expired (e,). retried_s: the same of those after which their user asked again.
    """

    asked_s: Floats
    failed_s: Floats
    unanswered_s: Floats
    expired_s: Floats
    retried_s: Floats


@dataclass(frozen=True, eq=False)
class Film:
    """What a film shows.

    found: the run. users: who is shown, ascending (u,). places: where. messages: theirs. fates: of all requests.
    end_s: length of the run, seconds. timeline: counts of the whole run at moments, if users are left out;
    `at_s` and the names of the counts. run: the counts of the whole run.
    """

    found: ObservedNetwork
    users: Integers
    places: FilmLayout
    messages: Shown
    fates: Fates
    end_s: float
    timeline: dict[str, list[float]] | None
    run: dict[str, int]


def film_of(found: ObservedNetwork) -> Film:
    """Choose the users whom a film shows, and collect their messages.

    Args:
        found: a run, from `observed_network.observe`. Of more than 300 users, or of users with more than 3,000
            messages, only some are shown.

    Raises:
        RuntimeError: the messages do not add up to the run's own counts, which is a fault of the simulator.
    """
    users = _chosen(found, MOST_USERS)
    messages = _messages(found, users)
    while messages.kind.size > MOST_MESSAGES and users.size > 1:
        users = _chosen(found, users.size // 2)
        messages = _messages(found, users)
    fates = _fates(found) if found.protocol is None else _fates_of_requests(found)
    run = {name: int(found.counts[column]) for name, column in COUNTS.items()}
    run["submitted"] = int(np.count_nonzero(np.isfinite(found.submitted_s)))
    run["unanswered"] = int(found.counts["fetches"] - found.counts["retries"] - found.counts["answered"])
    moments = [0.0, float(found.counts["completion_time_s"])]
    times = (found.submitted_s, messages.end_s, fates.expired_s, fates.retried_s, fates.unanswered_s)
    moments += [_last(each) for each in times]
    end_s = max(moments) or 1.0
    film = Film(found, users, places_of(found, users), messages, fates, end_s, None, run)
    if users.size < found.num_users:
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
    times = (film.found.submitted_s, fates.expired_s, fates.retried_s, fates.unanswered_s)
    names = ("submitted", "expired", "retries", "unanswered")
    return {name: each[np.isfinite(each)] for name, each in zip(names, times, strict=True)}


def _last(times: Floats) -> float:
    """The last moment that is not never; 0 if there is none."""
    return float(times[np.isfinite(times)].max(initial=0.0))


def _fates(found: ObservedNetwork) -> Fates:
    """What became of each user's requests, from how messages were sent."""
    sent, expired, n = found.trace.sent, found.trace.expired, found.num_users
    own, reply = (sent.kind == REQUEST) & ~sent.forwarded, (sent.kind == REPLY) & (sent.receiver >= 0)
    asked, heard, lapsed = np.full(n, np.inf), np.full(n, -np.inf), np.full(n, -np.inf)
    np.minimum.at(asked, sent.sender[own], sent.sent_s[own])
    np.maximum.at(lapsed, expired.user, expired.begin_s)
    # the last that was heard of her requests: when they or their replies came, or were lost
    at = np.where(np.isfinite(sent.arrives_s), sent.arrives_s, sent.sent_s)
    np.maximum.at(heard, sent.sender[own], at[own])
    np.maximum.at(heard, sent.receiver[reply], at[reply])
    if sent.forwarded.any():  # on a walk it is not known whose request somebody passed on
        heard = np.where(np.isfinite(asked), _last(at), -np.inf)
    # of users who never asked: who has no neighbour and came online has failed
    waiting, never = ~np.isfinite(found.answered_s), ~np.isfinite(asked) & np.isinf(lapsed)
    absent = books(n, found.counts)["users_absent"]
    online = np.zeros(n)
    if found.trace.online is not None:
        online -= np.inf
        np.maximum.at(online, found.trace.online.user, found.trace.online.end_s)
    lonely = np.flatnonzero(never)[np.argsort(online[never], kind="stable")][int(absent) :]
    failed = np.where(np.isfinite(lapsed), lapsed, heard)
    failed[lonely] = 0.0
    failed = np.where(waiting & np.isfinite(failed), failed, np.inf)
    # a request that expired is followed by another unless it was the last of a user who got nothing
    again = (expired.begin_s < lapsed[expired.user]) | ~waiting[expired.user]
    return Fates(asked, failed, failed, expired.begin_s, expired.begin_s[again])


def _fates_of_requests(found: ObservedNetwork) -> Fates:
    """What became of the requests of a protocol, whose users have any number of questions, each with its attempts."""
    requests, n = found.trace.requests, found.num_users
    assert requests is not None
    asked, failed = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(asked, requests.user, requests.begin_s)
    # a question is answered if one of its attempts is, and in vain when the last has expired; or else at the end
    questions, row = np.unique(np.column_stack([requests.user, requests.question]), axis=0, return_inverse=True)
    answered, over = np.full(len(questions), np.inf), np.zeros(len(questions))
    np.minimum.at(answered, row.ravel(), requests.answered_s)
    np.maximum.at(over, row.ravel(), requests.deadline_s)
    over[np.isinf(over)] = max(float(found.counts["completion_time_s"]), _last(requests.begin_s))
    # a user has failed when all her questions were in vain
    np.maximum.at(failed, questions[:, 0], np.where(np.isinf(answered), over, np.inf))
    failed[np.isinf(asked)] = np.inf
    again = requests.begin_s[requests.attempt > 0]
    return Fates(asked, failed, over[np.isinf(answered)], found.trace.expired.begin_s, again)


def _chosen(found: ObservedNetwork, most: int) -> Integers:
    """Whole clusters if they fit, that of the worst placed user first, the others in their order.

    If the first does not fit, users of it who exchanged messages with each other.
    """
    if found.num_users <= most:
        return np.arange(found.num_users)
    sizes, first = found.cluster_sizes, found.cluster(found.worst)
    if sizes[first] > most:
        return _company(found, found.worst, most)
    fit: list[Integers] = []
    left = most
    for cluster in [first, *(other for other in range(sizes.size) if other != first)]:
        if sizes[cluster] <= left:
            fit.append(np.arange(*found.cluster_offsets[cluster : cluster + 2]))
            left -= int(sizes[cluster])
    return np.sort(np.concatenate(fit))


def _company(found: ObservedNetwork, begin: int, most: int) -> Integers:
    """Users of one cluster: from one of them on, those with whom messages were exchanged, step by step."""
    cluster = found.cluster(begin)
    first, last = found.cluster_offsets[cluster : cluster + 2].tolist()
    sent = found.trace.sent
    inner = (sent.sender >= first) & (sent.sender < last) & (sent.receiver >= 0)
    near: dict[int, list[int]] = {}
    for one, other in zip(sent.sender[inner].tolist(), sent.receiver[inner].tolist(), strict=True):
        near.setdefault(one, []).append(other)
        near.setdefault(other, []).append(one)
    known: dict[int, None] = {}
    waiting, fresh = [begin], iter(range(first, last))
    while len(known) < most:
        user = waiting.pop(0) if waiting else next(fresh)
        if user not in known:
            known[user] = None
            waiting += near.get(user, [])
    return np.sort(np.fromiter(known, dtype=np.int64))


def _messages(found: ObservedNetwork, users: Integers) -> Shown:
    """The messages that some users sent or received, and what became of them by the transcript."""
    place = np.full(found.num_users + 1, NOT_SHOWN)
    place[:-1][found.member] = HIDDEN_MEMBER
    place[users] = np.arange(users.size)
    place[LEARNER] = LEARNER  # the last entry
    sent = _select(found.trace.sent, (place[found.trace.sent.sender] >= 0) | (place[found.trace.sent.receiver] >= 0))
    m = found.messages
    mine = m.select((place[m.sender] >= 0) | (place[m.receiver] >= 0))
    rows = (mine.time_s.tolist(), mine.kind.tolist(), mine.sender.tolist(), mine.receiver.tolist())
    keys = list(zip(*rows, strict=True))
    delivered: dict[tuple[float, int, int, int], list[int]] = {}  # the labels of those that are alike
    for key, carried in zip(keys, mine.label.tolist(), strict=True):
        delivered.setdefault(key, []).append(carried)
    dropped = set(mine.select(mine.late).time_s.tolist())
    how, label = np.full(sent.kind.size, LOST), found.labels.noisy[sent.whose]
    label[(sent.whose < 0) | (found.protocol is not None)] = -1
    columns = (sent.arrives_s.tolist(), sent.kind.tolist(), sent.sender.tolist(), sent.receiver.tolist())
    for row, key in enumerate(zip(*columns, strict=True)):
        if labels := delivered.get(key):
            carried = labels.pop(0)  # a liar's, or changed on its way
            label[row] = carried if sent.whose[row] >= 0 else -1
            taken_s = found.submitted_s[key[2]] if key[3] == LEARNER else key[0]
            # the learner did not take it: hers came too late, or, in a protocol, another one came first
            missed = np.isinf(taken_s) or (found.protocol is not None and key[0] > taken_s)
            how[row] = LATE if key[0] in dropped or missed else DELIVERED
        elif np.isfinite(key[0]):
            how[row] = OFFLINE
    if unsent := sum(map(len, delivered.values())):
        raise RuntimeError(f"{unsent} messages were delivered and never sent")
    return Shown(
        sent.kind.astype(np.int64), place[sent.sender], place[sent.receiver], sent.sent_s, sent.arrives_s, how,
        sent.attempt.astype(np.int64), sent.forwarded, sent.duplicate, label,
    )  # fmt: skip


def _select(sent: Sent, rows: NDArray[np.bool_]) -> Sent:
    """Some messages, in the order in which they were sent."""
    chosen = np.flatnonzero(rows)
    chosen = chosen[np.argsort(sent.sent_s[chosen], kind="stable")]
    return Sent(*(column[chosen] for column in vars(sent).values()))


def _timeline(film: Film) -> dict[str, list[float]]:
    """The counts of a whole run at STEPS + 1 moments from 0 to its end."""
    found = film.found
    sent, at = found.trace.sent, np.linspace(0.0, film.end_s, STEPS + 1)
    coming = np.isfinite(sent.arrives_s)
    delivered = _until(found.messages.time_s, at)
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
    """What each user of a film did until a moment (u,), the keys of `story.DID`."""
    found, fates, users = film.found, film.fates, film.users
    state = np.where(fates.asked_s[users] <= at_s, 1, 0)
    state[fates.failed_s[users] <= at_s] = 4
    state[found.answered_s[users] <= at_s] = 2
    state[found.submitted_s[users] <= at_s] = 3
    return state


def flying(film: Film, at_s: float) -> list[Flight]:
    """The messages on their way at a moment; those that failed remain as crosses for a 50th of the run."""
    m, linger = film.messages, film.end_s / 50.0
    known = (m.sender >= LEARNER) & (m.receiver >= LEARNER) & (m.sent_s <= at_s)
    failed = m.how <= OFFLINE
    end = np.where(m.how == LOST, m.sent_s + linger, m.end_s)
    rows = np.flatnonzero(known & (at_s < end + np.where(failed, linger, 0.0)))
    where = np.vstack([film.places.user, film.places.learner])  # the last one is the learner's
    assert LEARNER == -1
    begin, goal = where[m.sender[rows]], where[m.receiver[rows]]
    share = np.minimum((at_s - m.sent_s[rows]) / np.maximum(end[rows] - m.sent_s[rows], 1e-300), 1.0)
    kind = np.where(failed[rows] & (share == 1.0), 0, m.kind[rows])
    share = np.where(m.how[rows] == LOST, 0.5 * share, share)
    here = begin + (goal - begin) * share[:, None]
    return [(int(k), *a, *b) for k, a, b in zip(kind, begin.tolist(), here.tolist(), strict=True)]


def busiest(film: Film) -> float:
    """A moment in the first half of a run at which most messages are on their way, seconds."""
    m = film.messages
    on = np.isfinite(m.end_s) & (m.sender >= LEARNER) & (m.receiver >= LEARNER)
    if not on.any():
        return 0.0
    moments = np.linspace(0.0, film.end_s, 201)[1:101]
    begun, ended = np.sort(m.sent_s[on]), np.sort(m.end_s[on])
    number = np.searchsorted(begun, moments, side="right") - np.searchsorted(ended, moments, side="right")
    number = np.where(number >= 0.8 * number.max(), np.arange(moments.size), -1)  # late in the thick of it
    return float(moments[int(np.argmax(number))])
