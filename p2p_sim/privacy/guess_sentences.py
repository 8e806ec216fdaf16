"""Figures as sentences: how many labels somebody guesses right."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

SEES = {
    "learner": "somebody who sees all submissions",
    "learner-times": "somebody who sees all submissions and when they came",
    "peer": "a peer who asked one user",
    "coalition": "a coalition with the learner",
    "eavesdropper": "somebody who reads every message",
}
"""Who guesses, by observer."""
_ROUNDING = Decimal("1e-9")
"""By so much a figure may lie beyond a decimal and still be rounded to it: it is the rounding of a computation."""


def of_hundred(share: float, up: bool) -> str:
    """A share of 100 users in one decimal, rounded up or down.

    >>> of_hundred(0.54211, True), of_hundred(0.5, False), of_hundred(1 / 3, False)
    ('54.3', '50', '33.3')
    """
    most = Decimal(share) + (-_ROUNDING if up else _ROUNDING)
    rounded = (100 * most).quantize(Decimal("0.1"), ROUND_CEILING if up else ROUND_FLOOR)
    return f"{rounded:f}".removesuffix(".0")


def guessed(who: str, without: float, advantage: float, given: str, them: str = "them") -> str:
    """What an advantage comes to, on the safe side: the guesses with it are rounded up, those without it down.

    >>> guessed("A", 0.5, 0.0412, equally_likely(2))
    'Of 100 labels, A guesses at most 54.2 right on average; without them 50 (if both labels are equally likely).'

    Args:
        who: guesses. without: share of right guesses without what users sent. advantage: how much more, at most.
        given: what is known without that. them: what users sent.
    """
    most, less = of_hundred(min(1.0, without + advantage), True), of_hundred(without, False)
    return f"Of 100 labels, {who} guesses at most {most} right on average; without {them} {less} ({given})."


def equally_likely(num_classes: int) -> str:
    """What somebody knows who knows nothing.

    >>> equally_likely(2), equally_likely(10)
    ('if both labels are equally likely', 'if all 10 labels are equally likely')
    """
    return f"if {'both' if num_classes == 2 else f'all {num_classes}'} labels are equally likely"
