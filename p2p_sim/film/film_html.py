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
from p2p_sim.exchange.transcript import LEARNER
from p2p_sim.film.film_record import Film, doing, film_of, flying
from p2p_sim.film.layout import LEARNER_RADIUS
from p2p_sim.film.script_data import NOBODY, held_labels, script_data, seconds
from p2p_sim.film.story import DID, DID_IN_PROTOCOL, LABELS, SHAPES, USER, at_most, mark_of, story_of
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.replicate.observed_network import ObservedNetwork

FILES = Path(__file__).parent / "page_files"
SCRIPTS = ("stage.js", "panel.js", "story.js", "film.js")
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


def film_html(network: ObservedNetwork) -> str:
    """The film of a run as a whole HTML page: it needs no other file and no network, and reads without JavaScript too.

    Args:
        network: what happened in a run, from `observed_network.observe`. Of more than 300 users the film shows a
            sample, and says so.

    Raises:
        RuntimeError: the film's counts are not the run's own, which is a fault of the simulator.
    """
    return _page(film_of(network))


def _page(film: Film) -> str:
    """The page of a film: its template `film.html`, filled with the picture, the texts and the script's data."""
    network, still_s, story = film.network, _busiest(film), story_of(film)
    script = "".join((FILES / name).read_text(encoding="utf-8") for name in SCRIPTS)
    statement, layout = network.statement, film.places
    described = f"{count(film.users.size, 'user')} in {count(layout.cluster.size, 'cluster')}, and the learner"
    content = {
        "name": network.name,
        "subtitle": _subtitle(film),
        "sample": _sample(film),
        "described": f"The exchange: {described}, with the messages on their way.",
        **_labels(film),
        "story": story,
        "beliefs": [("before", (0.5, 0.5)), ("now", story.stage["beliefs"])] if story.stage["beliefs"] else [],
        "name_of_user": USER,
        "still_at": seconds(still_s, film),
        "discs": _discs(film),
        "edges": _lines(film),
        "still": _still(film, still_s),
        "users": _users(film, still_s),
        "radius": round(layout.radius, 1),
        "scale": round(layout.radius / 10.0, 2),
        "learner": layout.learner,
        "learner_radius": LEARNER_RADIUS,
        "clusters": f"{len(network.cluster_sizes):,}",
        "members": bool(network.member.any()),
        "drawn": _drawn(film),
        "counts_text": COUNTS_TEXT if network.protocol is None else (*COUNTS_TEXT[:-1], ("unanswered", UNANSWERED)),
        "protocol": network.protocol,
        "run": film.run,
        "nobody": NOBODY,
        "epsilon": at_most(statement.epsilon_upper),
        "worst": _worst(film),
        "epsilon_local": at_most(network.epsilon_local),
        "delta": f"{network.delta:g}",
        "protects": _protects(statement),
        "conditions": statement.conditions if math.isfinite(statement.epsilon_upper) else (),
        # the data stand in a script element, which the text "</script>" in a name would end: "<" is written as \u003c
        "data": Markup(json.dumps(script_data(film, story), separators=(",", ":")).replace("<", "\\u003c")),
        "style": Markup((FILES / "film.css").read_text(encoding="utf-8")),
        "script": Markup(script),
        # the page's own policy allows no script but the one with this hash
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }
    environment = Environment(
        loader=FileSystemLoader(FILES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("film.html").render(content)


def _protects(statement: PrivacyBound) -> str:
    """A phrase that says whom the statement protects and from whom; its conditions follow on the page."""
    if math.isinf(statement.epsilon_upper):
        return f"Nothing here protects a label from the learner, because no finite ε is known ({statement.basis})."
    condition = f", given {statement.conditional_on}" if statement.conditional_on else ""
    return (
        f"It protects one user's label, for every data set{condition}, from a learner who sees the set of submissions."
    )


def _subtitle(film: Film) -> str:
    network = film.network
    users, clusters = network.num_users, len(network.cluster_sizes)
    people, long = f"{count(users, 'user')} in {count(clusters, 'cluster')}", f"for {seconds(film.end_s, film)} s"
    if network.protocol is not None:
        return f"{people} follow a protocol, {network.protocol}, {long}: replicate {network.replicate}."
    return f"{people} exchange noisy labels {long}: replicate {network.replicate}, θ = {network.sampling_rate:g}."


def _sample(film: Film) -> str | None:
    """A sentence on which users the film leaves out; None if it shows all."""
    if film.timeline is None:
        return None
    clusters, every, users = film.places.cluster, len(film.network.cluster_sizes), film.users.size
    which = f"{clusters.size:,} of {every:,} clusters" if every > 1 else "of its one cluster"
    if clusters.size == 1 < every:
        which += f", cluster {clusters[0]}, where the worst placed user is"
    return (
        f"the picture shows {users:,} of {film.network.num_users:,} users ({which}), and the messages among them and "
        "to the learner. The counts are those of all users."
    )


def _worst(film: Film) -> dict[str, Any]:
    """The worst placed user: her number, cluster and place in the list; how many others have the same ε."""
    network = film.network
    user, alike = network.worst, np.isclose(network.epsilon, network.epsilon[network.worst], rtol=1e-9)
    position = int(np.flatnonzero(film.users == user)[0])
    return {"user": user, "cluster": network.cluster(user), "place": position, "others": int(alike.sum()) - 1}


def _drawn(film: Film) -> str:
    """A sentence on what the lines of the picture are."""
    if film.network.overlay is None:
        return "Every user may ask every user of her cluster, drawn as a disc."
    if len(film.places.edges):
        return "Thin lines join users who may ask each other. A disc is a cluster."
    return "A disc is a cluster. The overlay has too many edges to be drawn, or none."


def _symbol(state: int, label: int) -> str:
    """The name of the symbol for a user, by what she did (`state`) and the label that she holds, below 0: none."""
    return f"k{state}" if state not in (2, 3) else "lx" if label < 0 else f"l{label % LABELS}"


def _labels(film: Film) -> dict[str, Any]:
    """How labels look, and what users who hold one look like."""
    did = DID if film.network.protocol is None else DID_IN_PROTOCOL
    first, classes = min(int(film.network.labels.noisy[0]), 0), film.network.labels.num_classes
    return {
        "labels": [(k, SHAPES[k % len(SHAPES)]) for k in range(min(classes, LABELS))],
        "marks": [mark_of(k) for k in range(min(classes, len(SHAPES)))],
        "carried": _symbol(2, first),
        "key": [{"state": k, "symbol": _symbol(k, first), "text": text} for k, text in did.items()],
    }


def _discs(film: Film) -> list[dict[str, Any]]:
    """Each cluster's disc: centre and radius, and the height at which its number stands: below it, on the stage."""
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
    """The overlay's edges as one path of SVG."""
    where = film.places.user.round().astype(int)
    return "".join(f"M{x} {y}l{u - x}{v - y:+}" for (x, y), (u, v) in where[film.places.edges].tolist())


def _still(film: Film, at_s: float) -> list[dict[str, Any]]:
    """The messages on their way at a moment, each as a line from its sender to the place that it has reached."""
    return [
        {"kind": kind, **{name: round(value, 1) for name, value in zip(("x0", "y0", "x", "y"), line, strict=True)}}
        for kind, *line in flying(film, at_s)
    ]


def _users(film: Film, at_s: float) -> list[dict[str, Any]]:
    """Each user's marker at a moment: where it stands, and the number and symbol of what she did so far."""
    states, where, held = doing(film, at_s), film.places.user.round(1), held_labels(film)
    labels = np.where(states == 3, held.submitted, held.received)
    return [
        {"x": x, "y": y, "state": state, "symbol": _symbol(state, label)}
        for (x, y), state, label in zip(where.tolist(), states.tolist(), labels.tolist(), strict=True)
    ]


def _busiest(film: Film) -> float:
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
