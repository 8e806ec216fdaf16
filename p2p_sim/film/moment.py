"""A film at one moment: what each user is doing, and the messages on their way."""

import numpy as np

from p2p_sim.exchange.transcript import LEARNER
from p2p_sim.film.film_record import LOST, OFFLINE, Film
from p2p_sim.film.layout import Integers

DID = {
    0: "has not begun",
    1: "waits for a reply",
    2: "has a noisy label",
    3: "the learner has her submission",
    4: "got no label: it failed",
}
"""What a user did so far, by the number of her marker."""
Flight = tuple[int, float, float, float, float]
"""Kind of a message (0: it failed), where it began (x, y), and where it is (x, y)."""


def doing(film: Film, at_s: float) -> Integers:
    """What each user of a film did until a moment (u,), the keys of DID."""
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
