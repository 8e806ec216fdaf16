"""docs/how-private.md: how private is my exchange?"""

from collections.abc import Iterator

from analysis.privacy import local_epsilon
from analysis.privacy.setting import EXHAUSTIVE
from docs.numbers.page import Page, Source, published, short


def one_cluster() -> Iterator[str]:
    """How far the two sides of a bound lie apart, and what ε is about."""
    found = published("privacy", "brackets.csv")
    yield f"Up to {EXHAUSTIVE:,} users they differ by rounding and a few parts in a thousand"
    widths = 100 * found[found["n"] > EXHAUSTIVE]["width"]
    yield f"beyond, by {widths.min():.1f} to {widths.max():.1f}%"
    factors = found[found["n"] >= 1000]["factor"]
    yield f"times a factor of some {factors.min():.0f} to {factors.max():.0f} at δ = 1e-6"
    yield f"The noise on each label alone would give ε = {local_epsilon(0.1):.1f}"


def lemma9() -> Iterator[str]:
    """Where the paper's bound begins to apply."""
    first = published("privacy", "paper.csv").iloc[0]
    yield f"(Lemma 9) applies from {first['n']:.0f} users on for α = {first['flip_prob']:g}"
    yield f"some {first['epsilon_lemma9'] / first['epsilon_exact']:.0f} times the exact ε and more"


def rounds() -> Iterator[str]:
    """What composing rounds that repeat noise would claim."""
    [[n, _, composed, true]] = published("privacy", "rounds.csv").to_numpy()
    yield f"for {n:.0f} users it can claim δ = {short(composed)} where the truth is {short(true)}"


def overlay() -> Iterator[str]:
    """What the bound for any fetch distribution costs."""
    found = published("privacy", "complete.csv")
    costs = found["epsilon_upper"] / found["epsilon_exact"]
    yield f"It costs a factor of {costs.min():.1f} to {costs.max():.1f} where everyone can be asked"


STUDY = ("python -m studies.privacy", "test_published_privacy.py::test_the_privacy_study")
PAGE = Page(
    "docs/how-private.md",
    (Source(*STUDY, one_cluster), Source(*STUDY, lemma9), Source(*STUDY, rounds), Source(*STUDY, overlay)),
    given=("200 users with similar features",),
)
