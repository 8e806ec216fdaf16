"""The texts of answers to privacy questions, for a terminal and for a browser."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

from p2p_sim.base import bound_text
from p2p_sim.privacy.bound import RATED, PrivacyBound

if TYPE_CHECKING:
    from p2p_sim.privacy.questions import Answer, Question
    from p2p_sim.privacy.target_questions import Calibration, EnoughNeighbours, PeersComparison

Line = tuple[str, str]
PROTECTED = {
    "label": "It protects one user's label",
    "example": "It protects one user's whole example, features and label",
}
"""The sentence that says what a statement protects, by adjacency."""
EACH_NETWORK = "Each replicate's network has its own ε. The largest is shown; these ε must not be averaged."
ADDS_NOTHING = (
    "The noise on a label alone needs this α, rounded up. The exchange adds nothing here: even with the exchange, no "
    "smaller α of three digits is certified."
)


def answer_lines(question: "Question", answer: "Answer") -> list[Line]:
    """The lines that show an answer to a privacy question. Each is a name and a value.

    The lines have the cluster, the observer, and the bounds of ε at δ or of δ at ε. Then come ε₀ of a noisy label alone
    and the basis (how the bounds were computed). For the learner's ε, another line has the bound of Lemma 9 of the
    clustering paper. Upper bounds are rounded up, lower bounds down.

    Args:
        question: the cluster, α, θ and the observer. answer: the answer to the question.
    """
    bound = answer.bound
    rate = f", θ = {question.sampling_rate:g}" if bound.observer in RATED else ""
    size = "any size" if question.cluster_size is None else f"{question.cluster_size:,} users"
    if question.peers != 1:
        size += f", each of whom asks {question.peers} peers"
    if question.degree is not None:
        size += f", each with {question.degree:,} neighbour{'s' * (question.degree != 1)}"
    # the cluster and the observer, then the bounds of δ or ε, then the values for comparison
    lines = [("cluster", f"{size}, α = {question.flip_prob:g}{rate}"), ("observer", _who(bound, question.members))]
    if answer.delta_upper is not None and answer.delta_lower is not None:
        lines.append((f"δ at ε = {bound.epsilon_upper:g}, at most", bound_text(answer.delta_upper, True)))
        lines.append(("  no smaller δ holds than", bound_text(answer.delta_lower, False)))
    else:
        lines.append((f"ε at δ = {bound.delta:g}, at most", bound_text(bound.epsilon_upper, True)))
        lines.append(("  no smaller ε holds than", bound_text(bound.epsilon_lower, False)))
        lines += [("  the paper's Lemma 9", str(answer.lemma9))] * (bound.observer == "learner")
    return [*lines, ("noisy label alone, ε₀", bound_text(answer.local, True)), ("basis", bound.basis)]


def gain(question: "Question", advantage: float) -> str:
    """A sentence on how many of 100 labels the observer guesses right, if all labels are equally likely.

    If the observer is a peer, a second sentence is about the labels of the users whom peers asked.

    Args:
        question: the observer, the number of classes and α. advantage: upper bound of the gain in the observer's share
        of right guesses from seeing what users sent.
    """
    who = SEES[question.observer]
    if question.members is not None:
        who = f"a coalition of {question.members:,} with the learner"
    sentence = guessed(who, 1.0 / question.num_classes, advantage, equally_likely(question.num_classes))
    if question.observer == "peer":  # a noisy label is right with probability 1 - α
        sentence += f" Of 100 users whom they asked, peers guess about {100.0 * (1.0 - question.flip_prob):.3g} right."
    return sentence


def exposed(observer: str, cluster_size: int | None, delta: float | None, requests: int = 1) -> str:
    """A warning that δ is too large for the ε at δ to say much; empty if no warning is needed.

    In a cluster of n users, the observer receives the target's noisy label, and knows whose it is, with probability 1 -
    (1 - 1/n)^requests. If δ is at least a tenth of this probability, there is a warning: δ covers much of the event in
    which the target is exposed. Only peers and coalitions need a warning.

    Args:
        observer: the observer's name. cluster_size: n; None: no warning. delta: δ of the statement; None: no warning.
        requests: how many requests the observer makes, each to a uniform one of n users.
    """
    if cluster_size is None or delta is None or observer not in ("peer", "coalition"):
        return ""
    chance = -math.expm1(requests * math.log1p(-1.0 / cluster_size))
    if delta < 0.1 * chance:
        return ""
    return (
        f"δ = {delta:g} is large: with probability {chance:.2g} the {observer} receives a user's noisy label and knows "
        f"whose it is. The ε at this δ says little about that user. Choose δ far below {chance:.2g}."
    )


def calibration_lines(calibration: "Calibration") -> list[Line]:
    """The lines that show a calibration: α for all clusters together and for each size, and the certified ε."""
    bound, alone = calibration.bound, calibration.each if len(calibration.each) > 1 else {}
    return [
        ("flip probability α, all clusters", f"{calibration.flip_prob}"),
        *((f"  clusters of {size:,} alone", f"{alpha}") for size, alpha in alone.items()),
        ("sampling rate θ", "any" if calibration.sampling_rate is None else f"{calibration.sampling_rate:g}"),
        (
            f"certified ε at δ = {bound.delta:g}",
            f"{bound_text(bound.epsilon_upper, True)} (target {calibration.epsilon:g})",
        ),
        ("  noisy label alone, ε₀", bound_text(calibration.local, True)),
        ("observer", _who(bound, calibration.members)),
        ("basis", bound.basis),
    ]


def peers_lines(comparison: "PeersComparison") -> list[Line]:
    """The lines that show a comparison: the best number of peers, then α and the error for each number of peers."""
    each = (
        (f"  asking {k}", f"α = {calibration.flip_prob}, majority missed with probability {comparison.errors[k]:.2g}")
        for k, calibration in comparison.calibrations.items()
    )
    return [(f"peers to ask, {comparison.majority:.3g} of a cluster alike", f"{comparison.best}"), *each]


def neighbour_lines(neighbours: "EnoughNeighbours") -> list[Line]:
    """The lines that show the smallest number of neighbours that meets a target, and the values for comparison."""
    bound, everybody = neighbours.bound, neighbours.everybody
    number = neighbours.most if neighbours.degree is None else neighbours.degree
    none = f"none: {number:,} neighbours are not enough"
    return [
        ("smallest degree of the overlay", none if neighbours.degree is None else f"{number:,} neighbours"),
        (
            f"  ε with {number:,}, at δ = {bound.delta:g}",
            f"{bound_text(bound.epsilon_upper, True)} (target {neighbours.target:g})",
        ),
        ("  ε if users may ask everybody", bound_text(everybody.epsilon_upper, True)),
        ("  noisy label alone, ε₀", bound_text(neighbours.local, True)),
        ("observer", bound.observer),
        ("basis", bound.basis),
    ]


def protects(bound: PrivacyBound) -> str:
    """A phrase that says what a statement protects and from whom; after its last word, "if", the conditions follow.

    If a statement promises nothing (no finite ε, or δ at least 1/2), the result is a whole sentence that says why.
    """
    if not promises(bound):
        label = PROTECTED[bound.adjacency].removeprefix("It protects ")
        why = f"no finite ε is known at δ = {bound.delta:g} ({bound.basis})"
        if math.isfinite(bound.epsilon_upper):
            why = f"δ is {bound_text(bound.delta, True)}: with this probability the observer may see all"
        return f"Nothing here protects {label} from the {bound.observer}, because {why}."
    network = f", given {bound.conditional_on}" if bound.conditional_on else ""
    who = "learner who also sees when submissions arrive" if bound.observer == "learner-times" else bound.observer
    return f"{PROTECTED[bound.adjacency]}, for every data set{network}, from the {who}, if"


def promises(bound: PrivacyBound) -> bool:
    """Whether a statement promises anything: its ε is finite and its δ is below 1/2."""
    return math.isfinite(bound.epsilon_upper) and bound.delta < 0.5


def _who(bound: PrivacyBound, members: int | None) -> str:
    """The observer's name; if `members` is not None, also this number of members of the coalition."""
    return bound.observer if members is None else f"{bound.observer} of {members:,} with the learner"


SEES = {
    "learner": "somebody who sees all submissions",
    "learner-times": "somebody who sees all submissions and when they came",
    "peer": "a peer who asked one user",
    "coalition": "a coalition with the learner",
    "eavesdropper": "somebody who reads every message",
}
"""For each observer, words for a sentence about how well the observer guesses labels."""
_ROUNDING = Decimal("1e-9")
"""A share at most this far from a printable number becomes the number: the difference is a rounding error."""


def of_hundred(share: float, up: bool) -> str:
    """A share in percent with one decimal, rounded up or down.

    >>> of_hundred(0.54211, True), of_hundred(0.5, False), of_hundred(1 / 3, False)
    ('54.3', '50', '33.3')
    """
    most = Decimal(share) + (-_ROUNDING if up else _ROUNDING)
    rounded = (100 * most).quantize(Decimal("0.1"), ROUND_CEILING if up else ROUND_FLOOR)
    return f"{rounded:f}".removesuffix(".0")


def guessed(who: str, without: float, advantage: float, knowledge: str, them: str = "them") -> str:
    """A sentence on how many of 100 labels an observer guesses right, with and without what users sent.

    The number with what users sent is rounded up, the number without it down.

    >>> guessed("A", 0.5, 0.0412, equally_likely(2))
    'Of 100 labels, A guesses at most 54.2 right on average; without them 50 (if both labels are equally likely).'

    Args:
        who: the words for the observer. without: share of right guesses without what users sent.
        advantage: upper bound of the gain in this share. knowledge: words for what the observer knows anyway.
        them: a pronoun for what users sent.
    """
    most, less = of_hundred(min(1.0, without + advantage), True), of_hundred(without, False)
    return f"Of 100 labels, {who} guesses at most {most} right on average; without {them} {less} ({knowledge})."


def equally_likely(num_classes: int) -> str:
    """The words for a uniform prior over the labels.

    >>> equally_likely(2), equally_likely(10)
    ('if both labels are equally likely', 'if all 10 labels are equally likely')
    """
    return f"if {'both' if num_classes == 2 else f'all {num_classes}'} labels are equally likely"
