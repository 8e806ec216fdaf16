"""The film as one HTML page that loads nothing."""

import base64
import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from p2p_sim.base.notebook_view import count
from p2p_sim.exchange.transcript import REPLY, SUBMISSION
from p2p_sim.film.film_record import Film, busiest, doing, ends, film_of, flying
from p2p_sim.film.layout import LEARNER_RADIUS, Floats, Integers
from p2p_sim.film.story import DID, DID_IN_PROTOCOL, LABELS, SHAPES, USER, Story, at_most, mark_of, peers_of, story_of
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.replicate.observed_network import ObservedNetwork

FILES = Path(__file__).parent / "page_files"
SCRIPTS = ("stage.js", "panel.js", "story.js", "film.js")
TICKS = 1_000_000
"""Parts of a run's length in which the page counts time."""
COUNTS_TEXT = (
    ("sent", "sent by users"),
    ("duplicated", "duplicated by the network"),
    ("lost", "lost on the way"),
    ("undelivered", "undelivered: receiver offline"),
    ("delivered", "delivered"),
    ("submitted", "submissions that the learner took"),
    ("expired", "requests that expired"),
    ("retries", "of these, asked again (retries)"),
    ("unanswered", "users who got no label"),
)
UNANSWERED = "questions that got no label"
"""The last of them in a protocol of its own, whose users have any number of questions."""
NOBODY = "No user is chosen. Click one in the picture, or choose her in the list."


def film_html(found: ObservedNetwork) -> str:
    """The film of a run as a whole HTML page: it needs no other file and no network, and reads without JavaScript too.

    Args:
        found: a run, from `observed_network.observe`. Of more than 300 users the film shows a sample, and says so.

    Raises:
        RuntimeError: the film's counts are not the run's own, which is a fault of the simulator.
    """
    return _page(film_of(found))


def _page(film: Film) -> str:
    found, still_s, story = film.found, busiest(film), story_of(film)
    script = "".join((FILES / name).read_text(encoding="utf-8") for name in SCRIPTS)
    statement, places = found.statement, film.places
    described = f"{count(film.users.size, 'user')} in {count(places.cluster.size, 'cluster')}, and the learner"
    content = {
        "name": found.name,
        "subtitle": _subtitle(film),
        "sample": _sample(film),
        "described": f"The exchange: {described}, with the messages on their way.",
        **_labels(film),
        "story": story,
        "beliefs": [("before", (0.5, 0.5)), ("now", story.stage["beliefs"])] if story.stage["beliefs"] else [],
        "name_of_user": USER,
        "still_at": _seconds(still_s, film),
        "discs": _discs(film),
        "edges": _lines(film),
        "still": _still(film, still_s),
        "users": _users(film, still_s),
        "radius": round(places.radius, 1),
        "scale": round(places.radius / 10.0, 2),
        "learner": places.learner,
        "learner_radius": LEARNER_RADIUS,
        "clusters": f"{len(found.cluster_sizes):,}",
        "members": bool(found.member.any()),
        "drawn": _drawn(film),
        "counts_text": COUNTS_TEXT if found.protocol is None else (*COUNTS_TEXT[:-1], ("unanswered", UNANSWERED)),
        "protocol": found.protocol,
        "run": film.run,
        "nobody": NOBODY,
        "epsilon": at_most(statement.epsilon_upper),
        "worst": _worst(film),
        "epsilon_local": at_most(found.epsilon_local),
        "delta": f"{found.delta:g}",
        "protects": _protects(statement),
        "conditions": statement.conditions if math.isfinite(statement.epsilon_upper) else (),
        "data": Markup(json.dumps(_data(film, story), separators=(",", ":")).replace("<", "\\u003c")),
        "style": Markup((FILES / "film.css").read_text(encoding="utf-8")),
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }
    environment = Environment(
        loader=FileSystemLoader(FILES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("film.html").render(content)


def _protects(statement: PrivacyBound) -> str:
    """Whom the statement protects, and from whom; its conditions follow."""
    if math.isinf(statement.epsilon_upper):
        return f"Nothing here protects a label from the learner, because no finite ε is known ({statement.basis})."
    given = f", given {statement.conditional_on}" if statement.conditional_on else ""
    return f"It protects one user's label, for every data set{given}, from a learner who sees the set of submissions."


def _subtitle(film: Film) -> str:
    found = film.found
    users, clusters = found.num_users, len(found.cluster_sizes)
    people, long = f"{count(users, 'user')} in {count(clusters, 'cluster')}", f"for {_seconds(film.end_s, film)} s"
    if found.protocol is not None:
        return f"{people} follow a protocol, {found.protocol}, {long}: replicate {found.replicate}."
    return f"{people} exchange noisy labels {long}: replicate {found.replicate}, θ = {found.sampling_rate:g}."


def _sample(film: Film) -> str | None:
    """What is left out, or None."""
    if film.timeline is None:
        return None
    clusters, every, users = film.places.cluster, len(film.found.cluster_sizes), film.users.size
    which = f"{clusters.size:,} of {every:,} clusters" if every > 1 else "of its one cluster"
    if clusters.size == 1 < every:
        which += f", cluster {clusters[0]}, where the worst placed user is"
    return (
        f"the picture shows {users:,} of {film.found.num_users:,} users ({which}), and the messages among them and to "
        "the learner. The counts are those of all users."
    )


def _worst(film: Film) -> dict[str, Any]:
    """The worst placed user: her number, cluster and place in the list; how many others have the same ε."""
    found = film.found
    user, alike = found.worst, np.isclose(found.epsilon, found.epsilon[found.worst], rtol=1e-9)
    place = int(np.flatnonzero(film.users == user)[0])
    return {"user": user, "cluster": found.cluster(user), "place": place, "others": int(alike.sum()) - 1}


def _drawn(film: Film) -> str:
    """What the lines of the picture are."""
    if film.found.overlay is None:
        return "Every user may ask every user of her cluster, drawn as a disc."
    if len(film.places.edges):
        return "Thin lines join users who may ask each other. A disc is a cluster."
    return "A disc is a cluster. The overlay has too many edges to be drawn, or none."


def _symbol(state: int, label: int) -> str:
    """The symbol of a user who did this and may hold a label."""
    return f"k{state}" if state not in (2, 3) else "lx" if label < 0 else f"l{label % LABELS}"


def _labels(film: Film) -> dict[str, Any]:
    """How labels look, and what users who hold one look like."""
    did = DID if film.found.protocol is None else DID_IN_PROTOCOL
    first, classes = min(int(film.found.labels.noisy[0]), 0), film.found.labels.num_classes
    return {
        "labels": [(k, SHAPES[k % len(SHAPES)]) for k in range(min(classes, LABELS))],
        "marks": [mark_of(k) for k in range(min(classes, len(SHAPES)))],
        "carried": _symbol(2, first),
        "key": [{"state": k, "symbol": _symbol(k, first), "text": text} for k, text in did.items()],
    }


def _held(film: Film) -> tuple[Integers, Integers]:
    """The labels that each user who is shown got first, and that the learner took from her (u,); -1: none."""
    found, users, m = film.found, film.users, film.found.messages
    if found.protocol is None:
        peer = peers_of(found)[users]
        held = np.where(peer < 0, -1, found.labels.noisy[peer])
        return held, held
    # users may reply and submit any label, so that it is read from the messages that came; the first is written last
    replies = m.select((m.kind == REPLY) & ~m.late)
    taken = m.select((m.kind == SUBMISSION) & (m.time_s == found.submitted_s[m.sender]))
    got, gave = np.full((2, found.num_users), -1)
    got[replies.receiver[::-1]], gave[taken.sender[::-1]] = replies.label[::-1], taken.label[::-1]
    return got[users], gave[users]


def _discs(film: Film) -> list[dict[str, Any]]:
    return [
        {
            "number": number,
            "x": round(x, 1),
            "y": round(y, 1),
            "r": round(r, 1),
            "label_y": round(min(y + r + 1, 634), 1),
        }
        for number, (x, y, r) in zip(film.places.cluster.tolist(), film.places.disc.tolist(), strict=True)
    ]


def _lines(film: Film) -> str:
    """The overlay's edges as one path."""
    where = film.places.user.round().astype(int)
    return "".join(f"M{x} {y}l{u - x}{v - y:+}" for (x, y), (u, v) in where[film.places.edges].tolist())


def _still(film: Film, at_s: float) -> list[dict[str, Any]]:
    """The messages on their way at a moment: from where to where they have come."""
    return [
        {"kind": kind, **{name: round(value, 1) for name, value in zip(("x0", "y0", "x", "y"), line, strict=True)}}
        for kind, *line in flying(film, at_s)
    ]


def _users(film: Film, at_s: float) -> list[dict[str, Any]]:
    states, where, (got, gave) = doing(film, at_s), film.places.user.round(1), _held(film)
    labels = np.where(states == 3, gave, got)
    return [
        {"x": x, "y": y, "state": state, "symbol": _symbol(state, label)}
        for (x, y), state, label in zip(where.tolist(), states.tolist(), labels.tolist(), strict=True)
    ]


def _data(film: Film, story: Story) -> dict[str, Any]:
    """All that the script needs; times in ticks, of which a run has a million, -1: never."""
    found, users = film.found, film.users
    place = {user: position for position, user in enumerate(users.tolist())}
    timeline: dict[str, list[Any]] = {}
    if film.timeline is not None:
        at = _ticks(np.array(film.timeline["at_s"]), film)
        timeline = {"at": list(at), **{name: film.timeline[name] for name in film.run}}
    expired, online = found.trace.expired, _offline(film)
    mine = [row for row, user in enumerate(expired.user.tolist()) if user in place]
    return {
        "tick_s": film.end_s / TICKS,
        "end": TICKS,
        "story": {**story.stage, "steps": [[step.scene, step.length_ms] for step in story.steps]},
        "digits": _digits(film),
        "delta": f"{found.delta:g}",
        "epsilon_local": at_most(found.epsilon_local),
        "nobody": NOBODY,
        "protocol": list(DID_IN_PROTOCOL.values()) if found.protocol is not None else None,
        "coalition": bool(found.member.any()),
        "learner": film.places.learner,
        "learner_radius": LEARNER_RADIUS,
        "radius": round(film.places.radius, 1),
        "users": _user_data(film),
        "messages": _message_data(film),
        "expired": {
            "user": [place[user] for user in expired.user[mine].tolist()],
            "at": _ticks(expired.begin_s[mine], film),
        },
        "ends": {} if timeline else {name: _ticks(np.sort(times), film) for name, times in ends(film).items()},
        "offline": {name: [period[k] for period in online] for k, name in enumerate(("user", "from", "to"))},
        "timeline": timeline or None,
        "run": film.run,
    }


def _user_data(film: Film) -> dict[str, list[Any]]:
    """Columns of the users who are shown."""
    found, users, fates, (got, gave) = film.found, film.users, film.fates, _held(film)
    times = {"asked": fates.asked_s, "failed": fates.failed_s, "answered": found.answered_s}
    return {
        "id": users.tolist(),
        "cluster": [found.cluster(user) for user in users.tolist()],
        "epsilon": [at_most(value) for value in found.epsilon[users].tolist()],
        "member": found.member[users].astype(int).tolist(),
        "noisy": found.labels.noisy[users].tolist(),
        "got": got.tolist(),
        "gave": gave.tolist(),
        **_who_saw(film),
        **{name: _ticks(each[users], film) for name, each in {**times, "submitted": found.submitted_s}.items()},
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
    left = {name: flag.tolist() if flag.any() else [] for name, flag in flags.items()}
    return {**{name: column.tolist() for name, column in columns.items()}, **left}


def _who_saw(film: Film) -> dict[str, list[Any]]:
    """Who could see the noisy label of each user who is shown, by numbers of users of the whole run.

    submits: whose label she submitted, -1: none. carried: in whose submissions her label came to the learner; dropped:
    in whose of these too late. received: who got it from her. held: a member of the coalition did.
    """
    found, users = film.found, film.users.tolist()
    m, late = found.messages, ~np.isfinite(found.submitted_s)
    carried = [np.flatnonzero(found.reached & (found.source == user)) for user in users]
    got = m.select((m.kind == REPLY) & (m.sender != m.receiver))
    received = [np.unique(got.receiver[got.sender == user]) for user in users]
    return {
        "submits": found.source[users].tolist(),
        "carried": [carriers.tolist() for carriers in carried],
        "dropped": [carriers[late[carriers]].tolist() for carriers in carried],
        "received": [others.tolist() for others in received],
        "held": [int(found.member[others].any()) for others in received],
    }


def _offline(film: Film) -> list[tuple[int, int, int]]:
    """Periods in which users who are shown are offline: position among them, first and last tick."""
    spans = film.found.trace.online
    if spans is None:
        return []
    found = []
    for position, user in enumerate(film.users.tolist()):
        rows = (spans.user == user) & (spans.begin_s < film.end_s)
        edges = np.concatenate([[0.0], np.column_stack([spans.begin_s[rows], spans.end_s[rows]]).ravel(), [film.end_s]])
        ticks = _ticks(np.minimum(edges, film.end_s), film)
        found += [(position, a, b) for a, b in zip(ticks[::2], ticks[1::2], strict=True) if a < b]
    return found


def _ticks(times: Floats, film: Film) -> list[int]:
    ticks = np.where(np.isfinite(times), np.round(times / film.end_s * TICKS), -1)
    return [int(tick) for tick in ticks.tolist()]


def _digits(film: Film) -> int:
    """Decimal places of a time: a thousandth of the run can be told."""
    return max(0, 3 - math.floor(math.log10(film.end_s)))


def _seconds(value: float, film: Film) -> str:
    return f"{value:.{_digits(film)}f}"
