"""docs/coalitions.md: what a coalition costs."""

from collections.abc import Iterator

from analysis.privacy import local_epsilon
from docs.numbers.page import Page, Source


def local() -> Iterator[str]:
    """What is left to a user whom a member asked, at the α of the page's example."""
    yield f"At ε = 2, when ε₀ is {local_epsilon(0.1):.1f}, it is still there"


COMMAND = "p2p-sim privacy --cluster-size 200 --flip-prob 0.1 --sampling-rate 0.5 --epsilon 0.5 --observer coalition"
PAGE = Page("docs/coalitions.md", (Source(COMMAND, "test_cli.py::test_privacy_of_every_observer", local),))
