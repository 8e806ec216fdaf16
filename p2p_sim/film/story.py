"""The opening of a film: the way of one user's label, step by step, and what the learner learns of the label.

The user is the target. Her cluster has n users, and noise flips each label with probability α. The learner considers
both labels equally likely for her. The learner knows the true labels of the other n-1 users of her cluster; `ones` of
these labels are 1. The cluster submits t labels, and k of the t labels are 1. The learner sees only t and k: they are
the learner's view. Which users submit does not depend on labels. Each submission is the noisy label of a uniformly
random member of the cluster. Let X be the number of the others' noisy labels that are 1, and z the target's noisy
label. Given X and z, the number k follows Bin(t, (X + z)/n). Let L_z be the mean of this binomial probability over the
law of X, which is ones - Bin(ones, α) + Bin(n-1-ones, α). Let y be the target's true label. Then

    Pr[view | label y] ∝ (1-α) L_y + α L_{1-y},   Pr[y = 1 | view] = ((1-α) L_1 + α L_0) / (L_0 + L_1).

The learner's advantage for these labels of the others is the mean of |Pr[y = 1 | view] - 1/2| over views. The advantage
is δ(0)/2. That is half the total variation distance between the laws of the view for y = 0 and y = 1. The accountant's
advantage is the largest advantage over all labels of the others.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from p2p_sim.base import bound_text
from p2p_sim.exchange import REPLY, REQUEST
from p2p_sim.film.film_record import Film
from p2p_sim.film.layout import Integers
from p2p_sim.privacy import advantage
from p2p_sim.privacy.exchange import DeltaEvaluator, LabelExchange, likelihoods
from p2p_sim.replicate import ObservedNetwork

LARGEST = 2_000
"""Largest number of users of a cluster for which the posterior is computed. At this size the computation takes a
second."""
_LOG_TAIL = -36.0
"""Logarithm of a probability. Sums over the learner's views may omit views of this total probability; upper bounds add
the probability."""


@dataclass(frozen=True)
class Posterior:
    """What the learner learned of one user's label.

    users: number of users in her cluster. submissions, ones: how many labels the cluster submitted, and how many of
    these are 1. posterior: the probability that her label is 1. advantage: the mean distance of the posterior from 1/2
    over all that the learner might have seen, rounded up. printed: the largest advantage over all labels of the others,
    rounded up.
    """

    users: int
    submissions: int
    ones: int
    posterior: float
    advantage: float
    printed: float


def learned_of(network: ObservedNetwork, user: int) -> Posterior | None:
    """What the learner learned of a user's label in a run. The result is None unless the law of what the learner sees
    is known exactly and the cluster has 2 to 2,000 users. The field `posterior` is the probability that her label is 1.
    The learner is assumed to know how many of the other users have the label 1.

    Args:
        network: what happened in the run. user: her number.
    """
    labels, cluster = network.labels, network.cluster(user)
    first, last = network.cluster_offsets[cluster : cluster + 2].tolist()
    n = last - first
    alpha, theta = labels.flip_prob, network.sampling_rate
    if not labels.exact or alpha is None or theta is None or not 2 <= n <= LARGEST:
        return None
    # the noisy labels that the users of her cluster submitted and the learner took
    submitted = labels.noisy[network.source[first:last][np.isfinite(network.submitted_s[first:last])]]
    ones = int(labels.true[first:last].sum() - labels.true[user])
    model = LabelExchange(n, alpha, theta)
    # δ(0) for these labels of the others; swapping the labels 0 and 1 does not change δ(0)
    here = DeltaEvaluator(model.setting, _LOG_TAIL).at(min(ones, n - 1 - ones), 0.0)
    return Posterior(
        n, submitted.size, int(submitted.sum()),
        posterior=posterior_of(model, ones, submitted.size, int(submitted.sum())),
        advantage=here.upper / 2.0, printed=advantage(model).upper,
    )  # fmt: skip


def posterior_of(model: LabelExchange, ones: int, submissions: int, submitted_ones: int) -> float:
    """The probability that a user's label is 1, given what her cluster submitted. Both labels were equally likely
    before.

    Args:
        model: the exchange in her cluster, with the cluster's size, α and θ. ones: how many other users have the true
        label 1. submissions: how many labels were submitted. submitted_ones: how many of these are 1.
    """
    [(given_zero, given_one)] = likelihoods([model.setting.world(ones)], [submissions])
    a, b = float(given_zero[submitted_ones, 0]), float(given_one[submitted_ones, 0])
    return ((1.0 - model.flip_prob) * b + model.flip_prob * a) / (a + b)


USER, PEER = "Ada", "Ben"
"""The names of the user whom the opening follows and of the user whose label she gets."""
SHAPES = ("square", "triangle", "diamond", "star", "plus", "hexagon")
LABELS = 24
"""The number of labels with different symbols (shape and colour). Label 24 has the symbol of label 0 again."""
DID = {
    0: "has not begun",
    1: "waits for a reply",
    2: "has a noisy label",
    3: "the learner has her submission",
    4: "got no label: her request failed",
}
"""What a user did so far, in words, by the number of her state."""
DID_IN_PROTOCOL = {
    0: "has not asked",
    1: "asked, and waits for a label",
    2: "got a label",
    3: "the learner has a label from her",
    4: "asked, and got no label",
}
"""What a user did so far, in words, under another protocol than the label exchange. There users may ask, answer and
submit any number of times."""


@dataclass(frozen=True)
class StoryStep:
    """A step of the opening: the scene's name, the length in milliseconds, and the caption.

    A caption may have a part in an HTML element of class `then`. This part is hidden until the picture shows the event
    that it describes.
    """

    scene: str
    length_ms: int
    caption: Markup


@dataclass(frozen=True)
class Story:
    """The opening of a film.

    steps: the steps in order. stage: the facts from which the page's script draws the steps. learned: paragraphs after
    the steps, on what the learner learned.
    """

    steps: tuple[StoryStep, ...]
    stage: dict[str, Any]
    learned: tuple[Markup, ...]


def mark_of(label: int) -> Markup:
    """HTML for a label in a text: the symbol and the symbol's name. The label -1 stands for a message that is not a
    single class (for example a vector); its HTML is a few words.
    """
    if label < 0:
        return Markup("<b>a noisy message</b>")
    icon = '<svg class="c-l{0}" viewBox="-11 -11 22 22" aria-hidden="true"><use href="#l{0}"/></svg>'
    return Markup('<b class="mark">' + icon + "{1}</b>").format(label % LABELS, SHAPES[label % len(SHAPES)])


def peers_of(network: ObservedNetwork) -> Integers:
    """For each user of a run, the user whose noisy label she holds, (n,); -1: nobody.

    She holds the label that she submitted, which may be her own. If she submitted none, or if the run has another
    protocol than the label exchange, she holds the label in the first reply that came in time.
    """
    m = network.messages
    replies = m.select((m.kind == REPLY) & ~m.late)
    peer = np.full(network.num_users, -1)
    peer[replies.receiver[::-1]] = replies.sender[::-1]  # the first reply is written last, and remains
    return np.where(network.source >= 0, network.source, peer)


def protagonist(film: Film) -> int:
    """The number of the user whose label the opening follows. She is in the picture, but need not meet every criterion.

    She is chosen by seven criteria, the most important first; a tie goes to the smallest number. She is honest and not
    in the coalition. The learner took her submission. She holds another user's label. She asked exactly once. Noise
    flipped her label. The learner took another user's submission with her label. The label that she got differs from
    her true label.
    """
    network, everybody = film.network, np.arange(film.network.num_users)
    labels, peer, sent, m = network.labels, peers_of(network), network.trace.sent, network.messages
    replies = m.select(m.kind == REPLY)
    lying = np.isin(everybody, replies.sender[replies.label != labels.noisy[replies.sender]]) & (labels.noisy >= 0)
    first = (sent.kind == REQUEST) & ~sent.forwarded & ~sent.duplicate
    accepted = np.isfinite(network.submitted_s)
    points = [
        ~lying & ~network.member,
        accepted,
        (peer >= 0) & (peer != everybody),
        np.bincount(sent.sender[first], minlength=len(everybody)) == 1,
        labels.noisy != labels.true,
        np.isin(everybody, network.source[accepted & (network.source != everybody)]),
        labels.noisy[peer] != labels.true,  # if both were equal, her true label would seem to go out
    ]
    score = sum(2 ** (len(points) - rank) * point[film.users] for rank, point in enumerate(points))
    return int(film.users[np.argmax(score)])


def story_of(film: Film) -> Story:
    """The opening of a film, which follows one user's label and ends with what the learner learned of this label."""
    network, user = film.network, protagonist(film)
    labels, peer = network.labels, int(peers_of(network)[user])
    accepted = np.isfinite(network.submitted_s)
    # other users than these two whose accepted submissions brought her noisy label to the learner
    carriers = np.flatnonzero(accepted & (network.source == user))
    carriers = carriers[(carriers != user) & (carriers != peer)]
    steps = _noise(network, user)
    if network.protocol is None:
        steps += _exchange(film, user, peer)
    if carriers.size:
        text = Markup("Others ask {} in turn: user {} passes on <b>{}’s</b> noisy label, {}.")
        steps.append(StoryStep("hers", 3600, text.format(USER, carriers[0], USER, mark_of(int(labels.noisy[user])))))
    sample = f"; {film.users.size:,} of them are shown" if film.timeline is not None else ""
    everybody = "All {:,} users do what {} did{}."
    if network.protocol is not None:
        everybody = "All {:,} users have such labels, as {} has{}. What they do with them is up to their protocol."
    steps.append(StoryStep("crowd", 2000, Markup(everybody).format(network.num_users, USER, sample)))
    learned, true = learned_of(network, user), int(labels.true[user])
    ending = _bounded(network) if learned is None else _certain(learned, true)
    steps.append(StoryStep("learned", 0, ending[0]))
    stage = {
        "name": USER,
        "place": int(np.flatnonzero(film.users == user)[0]),
        "true": true % LABELS,
        "noisy": _drawn(int(labels.noisy[user])),
        "got": -1 if peer < 0 else _drawn(int(labels.noisy[peer])),
        "alpha": "noise" if labels.flip_prob is None else f"α = {labels.flip_prob:.3g}",
        "theta": "" if network.sampling_rate is None else f"θ = {network.sampling_rate:.3g}",
        "peer": "self" if peer == user else PEER,
        "owner": "her own" if peer == user else f"{PEER}’s",
        "answered": peer >= 0 and not network.own[user],
        "passes": bool(network.source[user] >= 0),
        "taken": bool(accepted[user]),
        "other": f"user {carriers[0]}" if carriers.size else "",
        "beliefs": [] if learned is None else [1.0 - learned.posterior, learned.posterior],
    }
    return Story(tuple(steps), stage, ending[1:])


def _drawn(label: int) -> int:
    """The number of the symbol that shows a label, from 0 to 23. Labels that differ by 24 have the same symbol. The
    number is -1 for a message that is not a single class.
    """
    return label % LABELS if label >= 0 else -1


def _noise(network: ObservedNetwork, user: int) -> list[StoryStep]:
    """Two steps of the opening: a user's true label, and the coin that flips the label with probability α."""
    true, noisy, alpha = int(network.labels.true[user]), int(network.labels.noisy[user]), network.labels.flip_prob
    begin = Markup(
        "<b>{}</b> (user {}) has a secret label, such as a diagnosis: {}. It never leaves her computer."
    ).format(USER, user, mark_of(true))
    coin = Markup("Her computer adds noise to it, once. Only the noisy message is given away.")
    if noisy >= 0 and alpha is not None:
        coin = Markup(
            "Coin <b>α</b>: with probability {:.3g} her computer flips the label. "
            '<span class="then">{} Her <b>noisy label</b> is {}.</span>'
        ).format(alpha, "It does." if noisy != true else "It does not.", mark_of(noisy))
    return [StoryStep("label", 3000, begin), StoryStep("alpha", 4600, coin)]


def _exchange(film: Film, user: int, peer: int) -> list[StoryStep]:
    """The steps of the opening about a user's request, the reply, the coin θ, and her submission. The coin θ decides
    whether she submits. `peer` is the user whose noisy label she holds; -1: nobody.
    """
    network, fallback = film.network, bool(film.network.own[user])
    whom = "user of her cluster" if network.overlay is None else "neighbour"
    if math.isinf(film.fates.first_s[user]):
        return [StoryStep("asks", 3400, Markup("{} asks nobody: she has no neighbour, or is offline.").format(USER))]
    # there are three cases: nobody answers, she drew herself as the peer, or another user replies
    if peer < 0 or fallback:
        rest = "she takes her own noisy label" if fallback else "she has nothing to pass on"
        asks = Markup("She asks one random {}, but no reply comes: {}.").format(whom, rest)
    else:
        name = "herself, by chance" if peer == user else f"{PEER} (user {peer})"
        asks = Markup('She asks one random {} for a label: <b class="then">{}.</b>').format(whom, name)
    steps = [StoryStep("asks", 3400, asks)]
    if peer < 0:
        return steps
    owner, mark = "her own noisy label", mark_of(int(network.labels.noisy[peer]))
    if peer != user:
        owner = f"{PEER}’s label"
        reply = Markup("{} has tossed such a coin too. He sends <b>his noisy label</b>, {}.").format(PEER, mark)
        steps.append(StoryStep("reply", 3400, reply))
    # the coin θ decides whether she submits; the network decides whether the submission comes in time
    passes = bool(network.source[user] >= 0)
    coin = Markup(
        'Coin <b>θ</b>: with probability {:.3g} she passes {} on to the learner. <span class="then">{}.</span>'
    )
    outcome = "She does; else she sends nothing" if passes else "She does not: the learner gets nothing"
    steps.append(StoryStep("theta", 4000, coin.format(network.sampling_rate, owner, outcome)))
    if np.isfinite(network.submitted_s[user]):
        text = Markup("The <b>learner</b> gets {} from {}. It is not told whose label it is.").format(mark, USER)
        steps.append(StoryStep("submits", 3600, text))
    elif passes:
        why = "comes too late: the learner does not take it" if network.reached[user] else "is lost"
        steps.append(StoryStep("submits", 3600, Markup("Her message to the learner {}.").format(why)))
    return steps


def _certain(learned: Posterior, true: int) -> tuple[Markup, ...]:
    """The last scene's caption and three paragraphs below the opening, if the posterior of the user's label can be
    computed exactly. `true` is her true label, 0 or 1.
    """
    # the probability of her true label; the posterior is the probability of label 1
    share = learned.posterior if true else 1.0 - learned.posterior
    mark, now = mark_of(true), f"{100.0 * share:.1f} %"
    return (
        Markup(
            "Can a learner that knows all others’ labels tell {}’s? Before, it gave {} 50 %; afterwards, <b>{}</b>."
        ).format(USER, mark, now),
        Markup(
            "A learner holds both labels equally likely, and knows the true labels of all others. It sees what her "
            "cluster of {:,} users submitted: {} {} and {} {}. Her true label is {}. The learner now gives this label "
            "a probability of <b>{}</b>."
        ).format(learned.users, learned.submissions - learned.ones, mark_of(0), learned.ones, mark_of(1), mark, now),
        Markup(
            "Averaged over all that the learner might have seen, the probability differs from 50 % by at most "
            "<b>{}</b> percentage points. This is the learner’s advantage for these labels of the others. For any "
            "labels of the others, the advantage is at most {}."
        ).format(bound_text(100.0 * learned.advantage, up=True), bound_text(100.0 * learned.printed, up=True)),
        Markup("Before a submission is read, it is her noisy label with probability 1/{:,}.").format(learned.users),
    )


def _bounded(network: ObservedNetwork) -> tuple[Markup, ...]:
    """The last scene's caption and one paragraph below the opening, if the posterior of the user's label cannot be
    computed exactly. By the run's privacy statement, both bound how much the odds of her label can change, or say that
    no finite ε is known.
    """
    statement = network.statement
    if math.isinf(statement.epsilon_upper):
        text = Markup("What did the learner learn of {}? Possibly her label itself: no finite ε is known.").format(USER)
        return text, text
    # e^ε, unless it overflows a double (ε near 709)
    value = f" = {bound_text(math.exp(statement.epsilon_upper), up=True)}" if statement.epsilon_upper < 700.0 else ""
    odds = Markup("up to an additive δ = {:g} in probabilities, her odds change by at most e<sup>ε</sup>{}.").format(
        statement.delta, value
    )
    epsilon = bound_text(statement.epsilon_upper, up=True)
    if network.protocol is None:
        more = Markup(
            "Whatever the labels are, {} Here ε = {} is this run’s, for the worst placed user and a learner who sees "
            "the set of submissions, under the conditions of “How private?”. Exact odds are worked out for two "
            "labels, clusters of 2 to {:,} users, and an exchange without faults, overlay or adversaries."
        ).format(odds, epsilon, LARGEST)
    elif statement.epsilon_upper < network.epsilon_local:
        more = Markup(
            "Whatever the labels are, {} Here ε = {} is the worst cluster’s, for a learner who sees the set of "
            "submissions, under the conditions of “How private?”. Against whoever sees other messages, only "
            "ε₀ = {} of a noisy label holds. No exact odds are worked out for this protocol."
        ).format(odds, epsilon, bound_text(network.epsilon_local, up=True))
    else:
        odds = Markup("her odds change by at most e<sup>ε₀</sup>{}.").format(value)
        more = Markup(
            "Whatever the labels are, and whatever users do with noisy labels, {} Here ε₀ = {} belongs to a noisy "
            "label, under the conditions of “How private?”. The bound holds against everybody who sees messages. No "
            "exact odds are worked out for this protocol."
        ).format(odds, epsilon)
    return Markup("What did the learner learn of {}? Only this: {}").format(USER, odds), more
