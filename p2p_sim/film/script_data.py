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
"""The length of a run in ticks. The page measures time in ticks."""
NOBODY = "No user is chosen. Click one in the picture, or choose her in the list."


def held_labels(film: Film) -> Integers:
    """Two noisy labels of each of the u users in the picture, (2, u); -1: none.

    In the label exchange both rows have the noisy label that she holds (see `peers_of`), even if she submitted none. In
    another protocol, row 0 has the label in the first reply that came to her in time, and row 1 the label that the
    learner took from her.
    """
    network, users, m = film.network, film.users, film.network.messages
    if network.protocol is None:
        peer = peers_of(network)[users]
        held = np.where(peer < 0, -1, network.labels.noisy[peer])
        return np.stack([held, held])
    # Users may send any label, so labels are read from delivered messages. The first message to or from a user is
    # written last and remains.
    replies = m.select((m.kind == REPLY) & ~m.late)
    accepted = m.select((m.kind == SUBMISSION) & (m.time_s == network.submitted_s[m.sender]))
    labels = np.full((2, network.num_users), -1)
    labels[0, replies.receiver[::-1]], labels[1, accepted.sender[::-1]] = replies.label[::-1], accepted.label[::-1]
    return labels[:, users]


def script_data(film: Film, story: Story) -> dict[str, Any]:
    """The data with which the page's script plays a film, by name and ready for JSON. Columns describe users, messages,
    expired requests and users' offline periods. The data also have the run's counts over time, and texts such as δ and
    ε₀. Times are whole numbers of ticks; a tick is a millionth of the run, and -1 stands for never. A user is given by
    her index in the picture, but in the columns of `_who_saw` by her number in the whole run.

    Args:
        film: users, messages and counts. story: the film's opening, which follows one user's label.
    """
    network, users = film.network, film.users
    position_of = {user: position for position, user in enumerate(users.tolist())}
    timeline: dict[str, list[Any]] | None = None if film.timeline is None else {
        "at": _ticks(np.array(film.timeline["at_s"]), film), **{name: film.timeline[name] for name in film.run},
    }  # fmt: skip
    expired = network.trace.expired
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
    """Columns with one entry for each user in the picture. id, cluster: her number and cluster. epsilon: her certified
    ε. member: whether she is in the coalition. noisy, got, gave: her noisy label, and both labels from `held_labels`;
    -1: none. asked, failed, answered, submitted: when she first asked, failed to get a label, got a label, or had her
    submission taken. These times are in ticks (millionths of the run); -1: never. Further columns, from `_who_saw`, say
    who saw her noisy label.
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
    """Columns with one entry for each message in the film, in the order of sending.

    kind: 1 request, 2 reply, 3 submission. from, to: the user's position in the picture. Another number stands for the
    learner (-1), for a member of the coalition who is not shown (-3), or for any other user (-2). sent: ticks
    (millionths of the run) since the previous message was sent. end: ticks from sending to arrival; -1: lost. how: 0
    lost, 1 receiver offline, 2 delivered, 3 delivered and dropped. label: the noisy label in the message; -1: none or
    unknown. attempt: for a request or a reply, the number of the request, from 0, among a user's requests for the same
    label; for a submission, its number, from 0, among the user's submissions. A protocol of a plug-in may send messages
    without a request; they have -1. forwarded: 1 if a user passed the request on. copy: 1 if the network made this
    copy. Each of the last three columns is an empty list if all its entries are 0.
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
    learner. dropped: users in `carried` whose submissions came too late. received: users who got her label from her.
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
    """The periods in which users in the picture are offline, in three columns.

    user: the user's position in the picture. from, to: ticks (millionths of the run) at which the period begins and
    ends.
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
    """Times in seconds as whole ticks (millionths of the run); -1 for a time that is not finite."""
    ticks: list[int] = np.where(np.isfinite(times), np.round(times / film.end_s * TICKS), -1).astype(np.int64).tolist()
    return ticks


def _digits(film: Film) -> int:
    """The number of decimal places that shows a thousandth of the run, in seconds."""
    return max(0, 3 - math.floor(math.log10(film.end_s)))


def seconds(value: float, film: Film) -> str:
    """A time in seconds as text, to a thousandth of the run."""
    return f"{value:.{_digits(film)}f}"
