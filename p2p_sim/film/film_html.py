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
"""The text beside the last count if users follow another protocol than the label exchange."""


def film_html(network: ObservedNetwork) -> str:
    """The film of a run as one HTML page. The page needs no other file and no network. Its text can be read without
    JavaScript.

    Args:
        network: what happened in a run, from `observed_network.observe`. The film of a run with more than 300 users or
        3,000 messages shows a sample of the users, and says so.

    Raises:
        RuntimeError: the film and the run's records do not agree, which is a fault of the simulator.
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
        # messages on their way at `still_at`; each is a line from the sender to the message's present place
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
        # "<" is written as \u003c, because "</script>" in a name would end the script element
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
    """What a film's page says about privacy. The source is the run's privacy statement against a learner who sees the
    set of submissions. The page names the user with the largest certified ε.

    Returns:
        epsilon, delta: the bound, as texts; ε is "∞" if no finite ε is known. epsilon_local: ε₀ of a noisy label alone,
        as text. protects: a sentence on what is protected, and from whom. conditions: the conditions under which the
        bound holds; empty if no finite ε is known. worst: the number of the user whom the page names, her cluster, her
        place (index in the picture), and the number of others with the same ε.
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
        "to the learner. The counts include all users."
    )


def _drawn(film: Film) -> str:
    """Sentences for the page on who may ask whom, and on what the picture's lines and discs mean."""
    if film.network.overlay is None:
        return "Every user may ask every user of her cluster, drawn as a disc."
    if len(film.places.edges):
        return "Thin lines join users who may ask each other. A disc is a cluster."
    return "A disc is a cluster. The overlay has too many edges to be drawn, or none."


def _symbol(state: int, label: int) -> str:
    """The name of the SVG symbol that marks a user. In the states 2 and 3 it is "l" and the number of her label's
    symbol, or "lx" if her message is not a single class (for example a vector). Otherwise it is "k" and her state.

    Args:
        state: as in `doing`, from 0 to 4. label: the label that she got (state 2) or submitted (state 3); below 0:
        none, or a message that is not a single class.
    """
    return f"k{state}" if state not in (2, 3) else "lx" if label < 0 else f"l{label % LABELS}"


def _labels(film: Film) -> dict[str, Any]:
    """What the page's legend needs, by name. labels: pairs of a label's number and the label's shape. marks: HTML of
    labels in a text. carried: the symbol's name for a user who has got a label. key: for each state of a user, the
    state's number, symbol and meaning.
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
    """For each cluster: the number, the centre (x, y) and radius r of the disc, and the height label_y of the written
    number. Lengths are in the picture's units, 1000 by 640, with (0, 0) at the top left.
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
    """One SVG path of lines between users who may ask each other, in the picture's units (1000 by 640). The path is
    empty if there are more than 6,000 lines, or if everybody may ask everybody in her cluster.
    """
    where = film.places.user.round().astype(int)
    return "".join(f"M{x} {y}l{u - x}{v - y:+}" for (x, y), (u, v) in where[film.places.edges].tolist())


def _users(film: Film, at_s: float) -> list[dict[str, Any]]:
    """The marker of each user in the picture at the moment `at_s` (in seconds), as a dictionary. x, y: her place, in
    the picture's units (1000 by 640). state: what she last did, as in `doing`, from 0 to 4. symbol: the name of the
    SVG symbol.
    """
    states, where = doing(film, at_s), film.places.user.round(1)
    received, submitted = held_labels(film)
    labels = np.where(states == 3, submitted, received)
    return [
        {"x": x, "y": y, "state": state, "symbol": _symbol(state, label)}
        for (x, y), state, label in zip(where.tolist(), states.tolist(), labels.tolist(), strict=True)
    ]


def _busiest(film: Film) -> float:
    """A moment, in seconds, for the still picture. It is the last moment in the first half of the run with many
    messages on their way. "Many" means at least 80% of the largest number in this half. The moment is 0 if the
    picture shows no message that arrives.
    """
    m = film.messages
    on = np.isfinite(m.arrives_s) & (m.sender >= LEARNER) & (m.receiver >= LEARNER)
    if not on.any():
        return 0.0
    moments = np.linspace(0.0, film.end_s, 201)[1:101]
    begun, ended = np.sort(m.sent_s[on]), np.sort(m.arrives_s[on])
    number = np.searchsorted(begun, moments, side="right") - np.searchsorted(ended, moments, side="right")
    return float(moments[np.flatnonzero(number >= 0.8 * number.max())[-1]])
