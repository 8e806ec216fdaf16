"""What the script of a film's page reads: users, messages and counts as columns of numbers."""

import math
from typing import Any, NamedTuple

import numpy as np

from p2p_sim.exchange.transcript import REPLY, SUBMISSION
from p2p_sim.film.film_record import Film, ends
from p2p_sim.film.layout import LEARNER_RADIUS, Floats, Integers
from p2p_sim.film.story import DID_IN_PROTOCOL, Story, at_most, peers_of

TICKS = 1_000_000
"""Parts of a run's length in which the page counts time."""
NOBODY = "No user is chosen. Click one in the picture, or choose her in the list."


class HeldLabels(NamedTuple):
    """Noisy labels of the users who are shown, (u,) each; -1: none.

    received: the label of the first reply that came to a user in time.
    submitted: the label that the learner accepted from her.
    """

    received: Integers
    submitted: Integers


def held_labels(film: Film) -> HeldLabels:
    """The label that each user in the picture received, and the one that the learner accepted from her."""
    network, users, m = film.network, film.users, film.network.messages
    if network.protocol is None:
        peer = peers_of(network)[users]
        held = np.where(peer < 0, -1, network.labels.noisy[peer])
        return HeldLabels(held, held)
    # users may reply and submit any label, so that it is read from the messages that came; the first is written last
    replies = m.select((m.kind == REPLY) & ~m.late)
    accepted = m.select((m.kind == SUBMISSION) & (m.time_s == network.submitted_s[m.sender]))
    got, gave = np.full((2, network.num_users), -1)
    got[replies.receiver[::-1]], gave[accepted.sender[::-1]] = replies.label[::-1], accepted.label[::-1]
    return HeldLabels(got[users], gave[users])


def script_data(film: Film, story: Story) -> dict[str, Any]:
    """All that the script needs; times in ticks, of which a run has a million, -1: never."""
    network, users = film.network, film.users
    position_of = {user: position for position, user in enumerate(users.tolist())}
    timeline: dict[str, list[Any]] = {}
    if film.timeline is not None:
        at = _ticks(np.array(film.timeline["at_s"]), film)
        timeline = {"at": list(at), **{name: film.timeline[name] for name in film.run}}
    expired, offline = network.trace.expired, _offline(film)
    # the script knows users by their position among those who are shown
    mine = [row for row, user in enumerate(expired.user.tolist()) if user in position_of]
    return {
        "tick_s": film.end_s / TICKS,
        "end": TICKS,
        "story": {**story.stage, "steps": [[step.scene, step.length_ms] for step in story.steps]},
        "digits": _digits(film),
        "delta": f"{network.delta:g}",
        "epsilon_local": at_most(network.epsilon_local),
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
        "offline": {
            "user": [period.position for period in offline],
            "from": [period.first for period in offline],
            "to": [period.last for period in offline],
        },
        "timeline": timeline or None,
        "run": film.run,
    }


def _user_data(film: Film) -> dict[str, list[Any]]:
    """Columns of the users who are shown."""
    network, users, fates, held = film.network, film.users, film.fates, held_labels(film)
    times = {"asked": fates.first_s, "failed": fates.failed_s, "answered": network.answered_s}
    return {
        "id": users.tolist(),
        "cluster": [network.cluster(user) for user in users.tolist()],
        "epsilon": [at_most(value) for value in network.epsilon[users].tolist()],
        "member": network.member[users].astype(int).tolist(),
        "noisy": network.labels.noisy[users].tolist(),
        "got": held.received.tolist(),
        "gave": held.submitted.tolist(),
        **_who_saw(film),
        **{name: _ticks(each[users], film) for name, each in {**times, "submitted": network.submitted_s}.items()},
    }


def _message_data(film: Film) -> dict[str, list[int]]:
    """Columns of their messages; `sent` as differences, `end` from `sent` on. Flags that no message has are empty."""
    m = film.messages
    sent, end = (np.array(_ticks(times, film), dtype=np.int64) for times in (m.sent_s, m.end_s))
    columns = {
        "kind": m.kind,
        "from": m.sender,
        "to": m.receiver,
        "sent": np.diff(sent, prepend=0),
        "end": np.where(end < 0, -1, end - sent),
        "how": m.how,
        "label": m.label,
    }
    flags = {"attempt": m.attempt, "forwarded": m.forwarded.astype(int), "copy": m.duplicate.astype(int)}
    flag_columns = {name: flag.tolist() if flag.any() else [] for name, flag in flags.items()}
    return {**{name: column.tolist() for name, column in columns.items()}, **flag_columns}


def _who_saw(film: Film) -> dict[str, list[Any]]:
    """Who could see the noisy label of each user who is shown, by numbers of users of the whole run.

    submits: whose label she submitted, -1: none. carried: in whose submissions her label came to the learner; dropped:
    in whose of these too late. received: who got it from her. held: a member of the coalition did.
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


class OfflinePeriod(NamedTuple):
    """A period in which a user is offline.

    position: of the user among those who are shown. first, last: ticks at which the period begins and ends.
    """

    position: int
    first: int
    last: int


def _offline(film: Film) -> list[OfflinePeriod]:
    """The periods within the run in which users in the picture are offline, user by user."""
    spans = film.network.trace.online
    if spans is None:
        return []
    periods = []
    for position, user in enumerate(film.users.tolist()):
        rows = (spans.user == user) & (spans.begin_s < film.end_s)
        edges = np.concatenate([[0.0], np.column_stack([spans.begin_s[rows], spans.end_s[rows]]).ravel(), [film.end_s]])
        ticks = _ticks(np.minimum(edges, film.end_s), film)
        periods += [OfflinePeriod(position, a, b) for a, b in zip(ticks[::2], ticks[1::2], strict=True) if a < b]
    return periods


def _ticks(times: Floats, film: Film) -> list[int]:
    """Times in seconds as ticks, of which the run has a million, rounded; -1: never."""
    ticks = np.where(np.isfinite(times), np.round(times / film.end_s * TICKS), -1)
    return [int(tick) for tick in ticks.tolist()]


def _digits(film: Film) -> int:
    """The number of decimal places with which a thousandth of the run's length can be seen."""
    return max(0, 3 - math.floor(math.log10(film.end_s)))


def seconds(value: float, film: Film) -> str:
    """A time in seconds as text, to a thousandth of the run."""
    return f"{value:.{_digits(film)}f}"
