"""What a film shows: users with their places, their messages in order of time, and counts."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_sim.outputs.film.places import Places, places_of
from p2p_sim.outputs.network_record import ObservedNetwork
from p2p_sim.protocol.trace import Sent
from p2p_sim.protocol.transcript import LEARNER

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
MOST_USERS, MOST_MESSAGES = 300, 12_000
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
}
"""The film's counts, by their column of a row; the number of submissions is counted from the release."""


@dataclass(frozen=True, eq=False)
class Shown:
    """The messages of a film in the order in which they were sent; arrays have one entry a message (s,).

    kind: REQUEST, REPLY or SUBMISSION. sender, receiver: position among the film's users, LEARNER,
    NOT_SHOWN or HIDDEN_MEMBER.
    sent_s: seconds. end_s: when it came to its receiver, seconds; infinity: never.
    how: LOST, OFFLINE (its receiver was offline), DELIVERED, or LATE (delivered and dropped). attempt: from 0.
    forwarded: a request that a user passes on, as a step of a walk. duplicate: a copy that the network made.
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


@dataclass(frozen=True, eq=False)
class Film:
    """What a film shows.

    found: the run. users: who is shown, ascending (u,). places: where. messages: theirs.
    end_s: length of the run, seconds. timeline: counts of the whole run at moments, if users are left out;
    `at_s` and the names of the counts. run: the counts of the whole run.
    """

    found: ObservedNetwork
    users: Integers
    places: Places
    messages: Shown
    end_s: float
    timeline: dict[str, list[float]] | None
    run: dict[str, int]


def film_of(found: ObservedNetwork, most: int = MOST_USERS) -> Film:
    """Choose the users whom a film shows, and collect their messages.

    Args:
        found: a run, from `network_record.observe`.
        most: users at most; fewer are shown if they have more than 12,000 messages.

    Raises:
        RuntimeError: the messages do not add up to the run's own counts, which is a fault of the simulator.
    """
    users = _chosen(found, most)
    messages = _messages(found, users)
    while messages.kind.size > MOST_MESSAGES and users.size > 1:
        users = _chosen(found, users.size // 2)
        messages = _messages(found, users)
    run = {name: int(found.counts[column]) for name, column in COUNTS.items()}
    run["submitted"] = int(np.count_nonzero(np.isfinite(found.submitted_s)))
    moments = [0.0, float(found.counts["completion_time_s"])]
    moments += [float(times[np.isfinite(times)].max(initial=0.0)) for times in (found.submitted_s, messages.end_s)]
    end_s = max(moments) or 1.0
    whole = users.size == found.num_users
    timeline = None if whole else _timeline(found, end_s)
    counted = _counts(messages, found.submitted_s, end_s) if timeline is None else {k: timeline[k][-1] for k in run}
    if counted != run:
        raise RuntimeError(f"the film counts {counted}, the run {run}")
    return Film(found, users, places_of(found, users), messages, end_s, timeline, run)


def counts_at(film: Film, at_s: float) -> dict[str, int]:
    """The counts of the whole run at a moment."""
    if film.timeline is None:
        return _counts(film.messages, film.found.submitted_s, at_s)
    step = int(np.searchsorted(film.timeline["at_s"], at_s, side="right")) - 1
    return {name: int(film.timeline[name][step]) for name in film.run}


def _counts(messages: Shown, submitted_s: Floats, at_s: float) -> dict[str, int]:
    """The counts at a moment, from the messages themselves."""
    m, sent = messages, messages.sent_s <= at_s
    come = (m.end_s <= at_s) & (m.how != LOST)
    numbers = {
        "sent": sent & ~m.duplicate,
        "duplicated": sent & m.duplicate,
        "lost": sent & (m.how == LOST),
        "undelivered": come & (m.how == OFFLINE),
        "delivered": come & (m.how > OFFLINE),
        "submitted": submitted_s <= at_s,
    }
    return {name: int(np.count_nonzero(rows)) for name, rows in numbers.items()}


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
    keys = zip(mine.time_s.tolist(), mine.kind.tolist(), mine.sender.tolist(), mine.receiver.tolist(), strict=True)
    delivered = Counter(keys)
    dropped = set(mine.select(mine.late).time_s.tolist())
    how = np.full(sent.kind.size, LOST)
    columns = (sent.arrives_s.tolist(), sent.kind.tolist(), sent.sender.tolist(), sent.receiver.tolist())
    for row, key in enumerate(zip(*columns, strict=True)):
        if delivered[key]:
            delivered[key] -= 1
            how[row] = LATE if key[0] in dropped or _too_late(found, key) else DELIVERED
        elif np.isfinite(key[0]):
            how[row] = OFFLINE
    if delivered.total():
        raise RuntimeError(f"{delivered.total()} messages were delivered and never sent")
    return Shown(
        sent.kind.astype(np.int64), place[sent.sender], place[sent.receiver], sent.sent_s, sent.arrives_s, how,
        sent.attempt.astype(np.int64), sent.forwarded, sent.duplicate,
    )  # fmt: skip


def _too_late(found: ObservedNetwork, key: tuple[float, int, int, int]) -> bool:
    """Whether a submission came and the learner did not take it."""
    return key[3] == LEARNER and not np.isfinite(found.submitted_s[key[2]])


def _select(sent: Sent, rows: NDArray[np.bool_]) -> Sent:
    """Some messages, in the order in which they were sent."""
    chosen = np.flatnonzero(rows)
    chosen = chosen[np.argsort(sent.sent_s[chosen], kind="stable")]
    return Sent(*(column[chosen] for column in vars(sent).values()))


def _timeline(found: ObservedNetwork, end_s: float) -> dict[str, list[float]]:
    """The counts of a whole run at STEPS + 1 moments from 0 to its end."""
    sent, at = found.trace.sent, np.linspace(0.0, end_s, STEPS + 1)
    coming = np.isfinite(sent.arrives_s)
    delivered = _until(found.messages.time_s, at)
    counts = {
        "sent": _until(sent.sent_s[~sent.duplicate], at),
        "duplicated": _until(sent.sent_s[sent.duplicate], at),
        "lost": _until(sent.sent_s[~coming], at),
        "undelivered": _until(sent.arrives_s[coming], at) - delivered,
        "delivered": delivered,
        "submitted": _until(found.submitted_s[np.isfinite(found.submitted_s)], at),
    }
    return {"at_s": at.tolist(), **{name: numbers.tolist() for name, numbers in counts.items()}}


def _until(times: Floats, at: Floats) -> Integers:
    """How many times lie at or before each moment."""
    return np.searchsorted(np.sort(times), at, side="right")
