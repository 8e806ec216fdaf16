"""The data that the script of a film's page reads: users, messages and counts as columns of numbers."""

import math
from typing import Any

import numpy as np

from p2p_sim.base import bound_text
from p2p_sim.exchange import REPLY, SUBMISSION
from p2p_sim.film.film_record import Film, ends
from p2p_sim.film.layout import LEARNER_RADIUS, Floats, Integers
from p2p_sim.film.story import DID_IN_PROTOCOL, Story, peers_of

TICKS = 1_000_000
"""The length of a run in ticks, the unit in which the page counts time."""
NOBODY = "No user is chosen. Click one in the picture, or choose her in the list."


def held_labels(film: Film) -> Integers:
    """Two noisy labels of each of the u users in the picture, (2, u); -1: none.

    Row 0 has the label of the first reply that came to a user in time. Row 1 has the label that the learner accepted
    from her.
    """
    network, users, m = film.network, film.users, film.network.messages
    if network.protocol is None:
        peer = peers_of(network)[users]
        held = np.where(peer < 0, -1, network.labels.noisy[peer])
        return np.stack([held, held])
    # users may reply and submit any label, so labels are read from messages that came; a user's first message is
    # written last, so that it remains
    replies = m.select((m.kind == REPLY) & ~m.late)
    accepted = m.select((m.kind == SUBMISSION) & (m.time_s == network.submitted_s[m.sender]))
    labels = np.full((2, network.num_users), -1)
    labels[0, replies.receiver[::-1]], labels[1, accepted.sender[::-1]] = replies.label[::-1], accepted.label[::-1]
    return labels[:, users]


def script_data(film: Film, story: Story) -> dict[str, Any]:
    """The data that the page's script needs to play a film, by name and ready for JSON: columns of users, of messages,
    of expired requests and of users' periods offline; the counts of the run over time; and texts such as δ and ε₀.
    Times are whole numbers of ticks, which are millionths of the run's length; -1 stands for never. Users are given by
    their index among those in the picture.

    Args:
        film: users, messages and counts. story: the film's opening, whose steps follow one user's label.
    """
    network, users = film.network, film.users
    position_of = {user: position for position, user in enumerate(users.tolist())}
    timeline: dict[str, list[Any]] | None = None if film.timeline is None else {
        "at": _ticks(np.array(film.timeline["at_s"]), film), **{name: film.timeline[name] for name in film.run},
    }  # fmt: skip
    expired = network.trace.expired
    # the script identifies users by their position among those who are shown
    mine = [row for row, user in enumerate(expired.user.tolist()) if user in position_of]
    return {
        "tick_s": film.end_s / TICKS,
        "end": TICKS,
        "story": {**story.stage, "steps": [[step.scene, step.length_ms] for step in story.steps]},
        "digits": _digits(film),
        "delta": f"{network.delta:g}",
        "epsilon_local": bound_text(network.epsilon_local, up=True),
        "nobody": NOBODY,
        "protocol": list(DID_IN_PROTOCOL.values()) if network.protocol is not None else None,
        "coalition": bool(network.member.any()),
        "learner": film.places.learner,
        "learner_radius": LEARNER_RADIUS,
        "radius": round(film.places.radius, 1),
        "users": _user_data(film),
        "messages": _message_data(film),
        "expired": {
            "user": [position_of[user] for user in expired.user[mine].tolist()],
            "at": _ticks(expired.begin_s[mine], film),
        },
        "ends": {} if timeline else {name: _ticks(np.sort(times), film) for name, times in ends(film).items()},
        "offline": _offline(film),
        "timeline": timeline,
        "run": film.run,
    }


def _user_data(film: Film) -> dict[str, list[Any]]:
    """Columns with an entry for each user in the picture: her number (id) and cluster; her certified ε; whether she is
    in the coalition (member); her noisy label, the label that she got and the one that the learner took from her
    (noisy, got, gave; -1: none); and who saw her noisy label. Four more columns give the ticks (millionths of the run;
    -1: never) at which she first asked, failed to get a label, got one, and had her submission taken.
    """
    network, users, fates = film.network, film.users, film.fates
    received, submitted = held_labels(film).tolist()
    return {
        "id": users.tolist(),
        "cluster": [network.cluster(user) for user in users.tolist()],
        "epsilon": [bound_text(value, up=True) for value in network.epsilon[users].tolist()],
        "member": network.member[users].astype(int).tolist(),
        "noisy": network.labels.noisy[users].tolist(),
        "got": received,
        "gave": submitted,
        **_who_saw(film),
        "asked": _ticks(fates.first_s[users], film),
        "failed": _ticks(fates.failed_s[users], film),
        "answered": _ticks(network.answered_s[users], film),
        "submitted": _ticks(network.submitted_s[users], film),
    }


def _message_data(film: Film) -> dict[str, list[int]]:
    """Columns of the messages in the film, with one entry for each message in the order in which they were sent.

    kind: 1 request, 2 reply, 3 submission. from, to: position among the users in the picture, -1 the learner, -2
    another user, -3 another user who is in the coalition. sent: ticks (millionths of the run) since the message before
    was sent. end: ticks from the message's sending until it arrived at its receiver; -1: it was lost. how: 0 lost, 1
    its receiver was offline, 2 delivered, 3 delivered and dropped. label: the noisy label that it carries; -1: none or
    unknown. attempt: number of the request among those for the same question, from 0; -1: sent unasked. forwarded: 1 if
    a user passed the request on. copy: 1 if the network made this copy. Each of the last three columns is an empty list
    if all its entries are 0.
    """
    m = film.messages
    sent, end = (np.array(_ticks(times, film), dtype=np.int64) for times in (m.sent_s, m.arrives_s))
    columns: dict[str, Any] = {
        "kind": m.kind,
        "from": m.sender,
        "to": m.receiver,
        "sent": np.diff(sent, prepend=0),
        "end": np.where(end < 0, -1, end - sent),
        "how": m.how,
        "label": m.label,
    }
    flags = {"attempt": m.attempt, "forwarded": m.forwarded.astype(int), "copy": m.duplicate.astype(int)}
    return {
        **{name: column.tolist() for name, column in columns.items()},
        **{name: flag.tolist() if flag.any() else [] for name, flag in flags.items()},
    }


def _who_saw(film: Film) -> dict[str, list[Any]]:
    """Who could see the noisy label of each user in the picture. Users are given by their numbers in the whole run.

    submits: the user whose label she submitted; -1: none. carried: users whose submissions brought her label to the
    learner. dropped: those of `carried` whose submissions came too late. received: users who got her label from her.
    held: 1 if a member of the coalition is among `received`.
    """
    network, users = film.network, film.users.tolist()
    m, late = network.messages, ~np.isfinite(network.submitted_s)
    carried = [np.flatnonzero(network.reached & (network.source == user)) for user in users]
    got = m.select((m.kind == REPLY) & (m.sender != m.receiver))
    received = [np.unique(got.receiver[got.sender == user]) for user in users]
    return {
        "submits": network.source[users].tolist(),
        "carried": [carriers.tolist() for carriers in carried],
        "dropped": [carriers[late[carriers]].tolist() for carriers in carried],
        "received": [others.tolist() for others in received],
        "held": [int(network.member[others].any()) for others in received],
    }


def _offline(film: Film) -> dict[str, list[int]]:
    """The periods of the run in which users in the picture are offline, user by user, in three columns.

    user: position among the users in the picture. from, to: ticks (millionths of the run) at which the period begins
    and ends.
    """
    spans = film.network.trace.online
    periods: dict[str, list[int]] = {"user": [], "from": [], "to": []}
    if spans is None:
        return periods
    for position, user in enumerate(film.users.tolist()):
        rows = (spans.user == user) & (spans.begin_s < film.end_s)
        edges = np.concatenate([[0.0], np.column_stack([spans.begin_s[rows], spans.end_s[rows]]).ravel(), [film.end_s]])
        ticks = _ticks(np.minimum(edges, film.end_s), film)
        within = [(begin, end) for begin, end in zip(ticks[::2], ticks[1::2], strict=True) if begin < end]
        periods["user"] += [position] * len(within)
        periods["from"] += [begin for begin, _ in within]
        periods["to"] += [end for _, end in within]
    return periods


def _ticks(times: Floats, film: Film) -> list[int]:
    """Times in seconds as ticks, millionths of the run, rounded; -1 for a time that is not finite."""
    ticks: list[int] = np.where(np.isfinite(times), np.round(times / film.end_s * TICKS), -1).astype(np.int64).tolist()
    return ticks


def _digits(film: Film) -> int:
    """The number of decimal places with which a time in seconds shows a thousandth of the run's length."""
    return max(0, 3 - math.floor(math.log10(film.end_s)))


def seconds(value: float, film: Film) -> str:
    """A time in seconds as text, to a thousandth of the run."""
    return f"{value:.{_digits(film)}f}"
