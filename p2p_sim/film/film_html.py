"""The film of a run as one HTML page that loads no other file."""

import base64
import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from p2p_sim.base import bound_text, count
from p2p_sim.exchange import LEARNER
from p2p_sim.film.film_record import Film, doing, film_of, flying
from p2p_sim.film.layout import LEARNER_RADIUS
from p2p_sim.film.script_data import NOBODY, held_labels, script_data, seconds
from p2p_sim.film.story import DID, DID_IN_PROTOCOL, LABELS, SHAPES, USER, mark_of, story_of
from p2p_sim.replicate import ObservedNetwork

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
"""The text beside the last count if the scenario has a protocol of its own, in which users ask any number of
questions."""


def film_html(network: ObservedNetwork) -> str:
    """The film of a run as an HTML page, which needs no other file and no network. The text on the page can be read
    without JavaScript.

    Args:
        network: what happened in a run, from `observed_network.observe`. If there are more than 300 users or 3,000
        messages, the film shows a sample of the users, and says so.

    Raises:
        RuntimeError: the film's counts differ from those of the run itself, which is a fault of the simulator.
    """
    film = film_of(network)
    still_s, story, layout = _busiest(film), story_of(film), film.places
    script = "".join((FILES / name).read_text(encoding="utf-8") for name in SCRIPTS)
    people = f"{count(network.num_users, 'user')} in {count(len(network.cluster_sizes), 'cluster')}"
    long = f"for {seconds(film.end_s, film)} s: replicate {network.replicate}"
    if network.protocol is None:
        subtitle = f"{people} exchange noisy labels {long}, θ = {network.sampling_rate:g}."
    else:
        subtitle = f"{people} follow a protocol, {network.protocol}, {long}."
    content = {
        "name": network.name,
        "subtitle": subtitle,
        "sample": _sample(film),
        "described": f"The exchange: {count(film.users.size, 'user')} in {count(layout.cluster.size, 'cluster')}, and "
        "the learner, with the messages on their way.",
        **_labels(film),
        "story": story,
        "beliefs": [("before", (0.5, 0.5)), ("now", story.stage["beliefs"])] if story.stage["beliefs"] else [],
        "name_of_user": USER,
        "still_at": seconds(still_s, film),
        "discs": _discs(film),
        "edges": _lines(film),
        # the messages on their way at `still_at`, each as a line from its sender to the point that it has reached
        "still": [
            {"kind": kind, **{name: round(end, 1) for name, end in zip(("x0", "y0", "x", "y"), line, strict=True)}}
            for kind, *line in flying(film, still_s)
        ],
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
        **_privacy(film),
        # "<" is written as \u003c: otherwise the text "</script>" in a name would end the script element with the data
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


def _privacy(film: Film) -> dict[str, Any]:
    """What a film's page states about privacy, as texts and numbers by name. All comes from the run's privacy statement
    against a learner who sees the set of submissions. The user whom the page names has the largest certified ε.

    Returns:
        epsilon, delta: the bound. epsilon_local: ε₀ of a noisy label alone. protects: a sentence on what is protected
        from whom. conditions: the conditions under which the bound holds; empty if no finite ε is known. worst: four
        numbers on the user whom the page names: user (her number), cluster, place (her index among the users in the
        picture), and others (how many other users have the same ε).
    """
    network, statement = film.network, film.network.statement
    condition = f", given {statement.conditional_on}" if statement.conditional_on else ""
    protects = (
        f"It protects one user's label, for every data set{condition}, from a learner who sees the set of submissions."
    )
    if math.isinf(statement.epsilon_upper):
        protects = f"Nothing here protects a label from the learner, because no finite ε is known ({statement.basis})."
    alike = np.isclose(network.epsilon, network.epsilon[network.worst], rtol=1e-9)
    return {
        "epsilon": bound_text(statement.epsilon_upper, up=True),
        "worst": {
            "user": network.worst,
            "cluster": network.cluster(network.worst),
            "place": int(np.flatnonzero(film.users == network.worst)[0]),
            "others": int(alike.sum()) - 1,
        },
        "epsilon_local": bound_text(network.epsilon_local, up=True),
        "delta": f"{network.delta:g}",
        "protects": protects,
        "conditions": statement.conditions if math.isfinite(statement.epsilon_upper) else (),
    }


def _sample(film: Film) -> str | None:
    """A sentence on how many users the picture shows; None if it shows all users."""
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


def _drawn(film: Film) -> str:
    """A sentence for the page on the lines between users in the picture: it says who may ask whom, that lines show this
    if they are drawn, and that a disc is a cluster.
    """
    if film.network.overlay is None:
        return "Every user may ask every user of her cluster, drawn as a disc."
    if len(film.places.edges):
        return "Thin lines join users who may ask each other. A disc is a cluster."
    return "A disc is a cluster. The overlay has too many edges to be drawn, or none."


def _symbol(state: int, label: int) -> str:
    """The name of the SVG symbol that marks a user: "l" and a number for a label, "lx" for a message that carries more
    than one label, and "k" and the state for a user who has no label to show.

    Args:
        state: 0 not begun, 1 waits for a label, 2 has got a label, 3 has submitted, 4 has failed. label: the label that
        she got or submitted. A number below 0 means no label, or a message that carries more than one label.
    """
    return f"k{state}" if state not in (2, 3) else "lx" if label < 0 else f"l{label % LABELS}"


def _labels(film: Film) -> dict[str, Any]:
    """What the page's legend needs, by name. labels: pairs of a label's number and its shape. marks: HTML of labels in
    a text. carried: the name of the symbol of a user who has got a label. key: for each state of a user, its number,
    the name of its symbol, and its meaning in words.
    """
    first, classes = min(int(film.network.labels.noisy[0]), 0), film.network.labels.num_classes
    return {
        "labels": [(k, SHAPES[k % len(SHAPES)]) for k in range(min(classes, LABELS))],
        "marks": [mark_of(k) for k in range(min(classes, len(SHAPES)))],
        "carried": _symbol(2, first),
        "key": [
            {"state": k, "symbol": _symbol(k, first), "text": text}
            for k, text in (DID if film.network.protocol is None else DID_IN_PROTOCOL).items()
        ],
    }


def _discs(film: Film) -> list[dict[str, Any]]:
    """Each cluster's disc: its number, centre (x, y) and radius r, and the height label_y at which its number is
    written. All are in the units of the picture, which is 1000 wide and 640 high, with (0, 0) at the top left.
    """
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
    """The lines between users who may ask each other (the edges of the network's graph), as the text of one SVG path,
    in the units of the picture (1000 by 640). It is empty if every user may ask everybody in her cluster, or if there
    are more than 6,000 edges.
    """
    where = film.places.user.round().astype(int)
    return "".join(f"M{x} {y}l{u - x}{v - y:+}" for (x, y), (u, v) in where[film.places.edges].tolist())


def _users(film: Film, at_s: float) -> list[dict[str, Any]]:
    """The marker of each user in the picture at a moment, as a dictionary. x, y: her place, in the units of the picture
    (1000 by 640). state: what she last did (0 nothing, 1 asked, 2 got a label, 3 submitted, 4 failed). symbol: the name
    of the SVG symbol.

    Args:
        film: the users and what they did. at_s: the moment, in seconds.
    """
    states, where = doing(film, at_s), film.places.user.round(1)
    received, submitted = held_labels(film)
    labels = np.where(states == 3, submitted, received)
    return [
        {"x": x, "y": y, "state": state, "symbol": _symbol(state, label)}
        for (x, y), state, label in zip(where.tolist(), states.tolist(), labels.tolist(), strict=True)
    ]


def _busiest(film: Film) -> float:
    """The last moment in the first half of a run, in seconds, at which nearly as many messages are on their way as at
    any moment of this half. The still picture shows the exchange at this moment.
    """
    m = film.messages
    on = np.isfinite(m.arrives_s) & (m.sender >= LEARNER) & (m.receiver >= LEARNER)
    if not on.any():
        return 0.0
    moments = np.linspace(0.0, film.end_s, 201)[1:101]
    begun, ended = np.sort(m.sent_s[on]), np.sort(m.arrives_s[on])
    number = np.searchsorted(begun, moments, side="right") - np.searchsorted(ended, moments, side="right")
    # the last moment that has at least 80% of the largest number
    return float(moments[np.flatnonzero(number >= 0.8 * number.max())[-1]])
