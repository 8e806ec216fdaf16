"""docs/network.md: a real network."""

from collections.abc import Iterator

from analysis.privacy.fetch import NEAR
from docs.numbers.page import Page, Source, published


def batch() -> Iterator[str]:
    """ε where a batch hides the times."""
    run = published("shipped").set_index("panel").loc["batch"]
    yield f"`batch.toml`: ε = {run['epsilon_times_upper']:.2f} instead of {run['epsilon_local']:.1f}"


def neighbours() -> Iterator[str]:
    """Up to how many neighbours both bounds are tried."""
    yield f"With more than {NEAR} neighbours"


PAGE = Page(
    "docs/network.md",
    (
        Source("python -m studies.shipped", "test_published_shipped.py::test_the_shipped_study", batch),
        Source("p2p-sim network SCENARIO.toml", "test_fetch.py::test_bound_lies_above_enumeration", neighbours),
    ),
)
