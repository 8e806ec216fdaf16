"""The opening of a film: what happens to one user's label, step by step, and what the learner learned of it."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from p2p_sim.analysis.privacy.statement.shown import four_digits
from p2p_sim.outputs.film.learned import learned_of
from p2p_sim.outputs.film.record import Film, Integers
from p2p_sim.outputs.network_record import ObservedNetwork
from p2p_sim.protocol.transcript import REPLY, REQUEST

USER, PEER = "Ada", "Ben"
"""What the user of the opening is called, and the user whose label she gets."""
SHAPES = ("square", "triangle", "diamond", "star", "plus", "hexagon")
COLOURS, LABELS = 8, 24
"""Colours of labels, and labels that differ in shape or colour; further ones look like the first ones again."""


@dataclass(frozen=True)
class Step:
    """A part of the opening: what the stage shows, its length in ms, and its caption."""

    scene: str
    length_ms: int
    caption: Markup


@dataclass(frozen=True)
class Story:
    """The opening. user: her number. steps: in order. stage: what the script draws. learned: paragraphs of the end."""

    user: int
    steps: tuple[Step, ...]
    stage: dict[str, Any]
    learned: tuple[Markup, ...]


def mark_of(label: int) -> Markup:
    """A label in a text: its shape and the shape's name."""
    if label < 0:
        return Markup("<b>a noisy message</b>")
    drawn = label % LABELS
    icon = '<svg viewBox="-11 -11 22 22" aria-hidden="true"><use href="#l{0}" x="-10" y="-10" width="20" height="20"/></svg>'
    return Markup('<b class="mark"><span class="c-l{0}">' + icon + "</span>{1}</b>").format(
        drawn, SHAPES[label % len(SHAPES)]
    )


def at_most(value: float) -> str:
    """An upper bound in four digits, never below what it bounds."""
    return "∞" if math.isinf(value) else f"{four_digits(value, up=True):.4g}"


def peers_of(found: ObservedNetwork) -> Integers:
    """From whom each user of a run got a noisy label in time (n,); -1: from nobody."""
    m = found.messages
    replies = m.select((m.kind == REPLY) & ~m.late)
    peer = np.full(found.num_users, -1)
    peer[replies.receiver[::-1]] = replies.sender[::-1]  # the first counts
    peer[found.source >= 0] = found.source[found.source >= 0]
    return peer


def protagonist(film: Film) -> int:
    """The user whose story says most: answered at once by somebody else, passed on, taken, flipped, passed on by others."""
    found, n = film.found, film.found.num_users
    labels, peer, sent = found.labels, peers_of(found), film.found.trace.sent
    m = found.messages
    replies = m.select((m.kind == REPLY) & (m.label >= 0))
    lies = np.isin(np.arange(n), replies.sender[replies.label != labels.noisy[replies.sender]])
    requests = np.bincount(sent.sender[(sent.kind == REQUEST) & ~sent.forwarded & ~sent.duplicate], minlength=n)
    taken = np.isfinite(found.submitted_s)
    other = peer != np.arange(n)
    carried = np.isin(np.arange(n), found.source[taken & other])
    points = [
        ~lies & ~found.member,
        taken,
        (peer >= 0) & other & ~found.own,
        requests == 1,
        labels.noisy != labels.true,
        carried,
        labels.noisy[peer] != labels.noisy,
    ]
    score = sum(2 ** (len(points) - place) * point[film.users] for place, point in enumerate(points))
    return int(film.users[np.argmax(score)])


def story_of(film: Film) -> Story:
    """The story of a film's protagonist."""
    found, user = film.found, protagonist(film)
    peer = int(peers_of(found)[user])
    got = int(found.labels.noisy[user if found.own[user] or peer < 0 else peer])
    carriers = np.flatnonzero((found.source == user) & np.isfinite(found.submitted_s))
    others = carriers[(carriers != user) & (carriers != peer)].tolist()
    theta, alpha = f"{found.sampling_rate:g}", found.labels.flip_prob
    stage = {
        "place": int(np.flatnonzero(film.users == user)[0]),
        "true": int(found.labels.true[user]) % LABELS,
        "noisy": int(found.labels.noisy[user]) % LABELS if found.labels.noisy[user] >= 0 else -1,
        "got": got % LABELS if got >= 0 else -1,
        "alpha": "noise" if alpha is None else f"α = {alpha:.3g}",
        "theta": f"θ = {theta}",
        "peer": "herself" if peer == user else PEER,
        "answered": peer >= 0,
        "passes": bool(found.source[user] >= 0),
        "taken": bool(np.isfinite(found.submitted_s[user])),
        "owner": f"{PEER}’s" if peer not in (-1, user) else "passes on",
        "other": f"user {others[0]}" if others else "",
    }
    first = [*_noise(found, user), *_exchange(film, user, peer, got)]
    if others:
        text = Markup("Others ask {} too: user {} passes on <b>her</b> noisy label, {}.")
        first.append(Step("hers", 3600, text.format(USER, others[0], mark_of(int(found.labels.noisy[user])))))
    sample = f"; {film.users.size:,} of them are shown" if film.timeline is not None else ""
    crowd = Step("crowd", 2000, Markup("All {:,} users do what {} did{}.").format(found.num_users, USER, sample))
    brief, paragraphs, beliefs = _learned(found, user)
    last = Step("learned", 6000, brief)
    return Story(user, (*first, crowd, last), {**stage, "beliefs": beliefs}, paragraphs)


def _noise(found: ObservedNetwork, user: int) -> list[Step]:
    """Her true label, and the coin α."""
    true, noisy = int(found.labels.true[user]), int(found.labels.noisy[user])
    begin = Markup("<b>{}</b> has a secret label: {}. It never leaves her computer.").format(USER, mark_of(true))
    alpha = found.labels.flip_prob
    if noisy < 0 or alpha is None:
        coin = Markup("Her computer adds noise to it, once. Only the noisy message is given away.")
    else:
        coin = Markup("Coin <b>α</b>: with probability {:.3g} her computer flips the label. {} Her <b>noisy label</b> is {}.")
        coin = coin.format(alpha, "It does." if noisy != true else "It does not.", mark_of(noisy))
    return [Step("label", 3000, begin), Step("alpha", 4600, coin)]


def _exchange(film: Film, user: int, peer: int, got: int) -> list[Step]:
    """Her request, the reply, the coin θ, and what the learner got from her."""
    found = film.found
    whom = "user of her cluster" if found.overlay is None else "neighbour"
    name = "herself, by chance" if peer == user else PEER
    if math.isinf(film.fates.asked_s[user]):
        return [Step("asks", 3400, Markup("{} asks nobody: she has no neighbour, or is never online.").format(USER))]
    if peer < 0:
        lost = Markup("She asks one random {}, but no reply comes. {} has no label to pass on.").format(whom, USER)
        return [Step("asks", 3400, lost)]
    if found.own[user]:
        steps = [Step("asks", 3400, Markup("She asks one random {}, but no reply comes: she takes her own.").format(whom))]
        owner = "her own noisy label"
    else:
        asks = Markup("She asks one random {} for a label: <b>{}</b>.").format(whom, name)
        reply = Markup("{} has tossed such a coin too. He sends <b>his noisy label</b>, {}.").format(PEER, mark_of(got))
        steps = [Step("asks", 3400, asks), Step("reply", 3000, reply)]
        owner = f"{PEER}’s label"
        if peer == user:
            steps, owner = steps[:1], "her own noisy label"
    passes, taken = bool(found.source[user] >= 0), bool(np.isfinite(found.submitted_s[user]))
    coin = Markup("Coin <b>θ</b>: with probability {:g} she passes {} on to the learner. {}.")
    coin = coin.format(found.sampling_rate, owner, "She does" if passes else "She does not: the learner gets nothing")
    steps.append(Step("theta", 4000, coin))
    if taken:
        text = Markup("The <b>learner</b> gets {} from {}. It is not told whose label it is.").format(mark_of(got), USER)
        steps.append(Step("submits", 3600, text))
    elif passes:
        text = "too late: the learner does not take it." if found.reached[user] else "lost on the way to the learner."
        steps.append(Step("submits", 3600, Markup("Her message is {}").format(text)))
    return steps


def _learned(found: ObservedNetwork, user: int) -> tuple[Markup, tuple[Markup, ...], list[float]]:
    """What the learner learned of her: a caption, paragraphs, and the probabilities of her two labels, if known."""
    learned, statement = learned_of(found, user), found.statement
    if learned is None:
        change = f"e^ε = {at_most(math.exp(statement.epsilon_upper))}" if statement.epsilon_upper < 700 else "e^ε"
        text = Markup("Up to a probability δ = {:g}, her odds change by at most {}.").format(found.delta, change)
        more = Markup(
            "Here ε = {} is this run’s, of the worst placed user, for a learner who sees the set of submissions. Her exact "
            "odds are shown only for two labels and an exchange without faults, overlay or adversaries."
        ).format(at_most(statement.epsilon_upper))
        if math.isinf(statement.epsilon_upper):
            text = Markup("No finite ε is known here: the learner may know her label.")
            return text, (text,), []
        return Markup("What did the learner learn of {}? {}").format(USER, text), (text, more), []
    true = int(found.labels.true[user])
    beliefs = [1.0 - learned.posterior, learned.posterior]
    now, mark = f"{100 * beliefs[true]:.1f} %", mark_of(true)
    seen = Markup("{} {} and {} {}").format(
        learned.submissions - learned.ones, mark_of(0), learned.ones, mark_of(1)
    )
    brief = Markup("Can the learner tell {}’s label? Before, it gave {} 50 %; after all that it got, <b>{}</b>.")
    return (
        brief.format(USER, mark, now),
        (
            Markup(
                "A learner that holds both labels equally likely, and knows the true labels of all others, sees what her "
                "cluster of {:,} users submitted: {}. It now holds {}, her true label, with probability <b>{}</b>."
            ).format(learned.users, seen, mark, now),
            Markup(
                "Its mean distance from 50 % over all that it might have seen is at most <b>{}</b> percentage points: its "
                "advantage for these labels of the others. For any labels of the others it is at most {}."
            ).format(at_most(100 * learned.advantage), at_most(100 * learned.printed)),
            Markup("Before its label is read, each submission carries hers with probability 1/{:,}.").format(learned.users),
        ),
        beliefs,
    )
