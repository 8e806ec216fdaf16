"""docs/sweeps.md: what the shipped sweeps show."""

import math
from collections.abc import Iterator

from docs.numbers.page import Page, Source, published


def heterogeneity() -> Iterator[str]:
    """Excess risk against φ."""
    points = published("shipped").query("panel == 'heterogeneity'")
    distance = (points["excess_risk"] - points["excess_risk_floor"]).abs().max()
    users, alpha = points["num_users"].unique().item(), points["flip_prob"].unique().item()
    near = f"{math.ceil(1000 * distance) / 1000:g} nats"
    yield f"With α = {alpha:g}, θ = 0.5 and {users:,.0f} users the measured excess risk stays within {near}"
    fits = published("shipped", "fits.csv").set_index(["form", "of"])
    squares, bound = fits.loc["squares", "φ²"], fits.loc["Theorem 4's form", "φ"]
    yield f"({squares['value']:.2f} φ², off by at most {100 * squares['misfit']:.0f}%)"
    yield f"the φ of Theorem 4's bound (off by {100 * bound['misfit']:.0f}%)"


def users() -> Iterator[str]:
    """Distance from the floor against n."""
    points = published("shipped").query("panel == 'users'")
    fits = published("shipped", "fits.csv").set_index("sweep").loc["users"]
    yield f"a slope of {fits['value']:.2f} [{fits['low']:.2f}, {fits['high']:.2f}]"
    ends = f"from {points['num_users'].min():.0f} to {points['num_users'].max():,.0f} users"
    alpha, replicates = points["flip_prob"].unique().item(), points["replicates"].unique().item()
    yield f"{ends} (α = {alpha:g}, {replicates} replicates, 95%)"


STUDY = ("python -m studies.shipped", "test_published_shipped.py::test_the_shipped_study")
PAGE = Page("docs/sweeps.md", (Source(*STUDY, heterogeneity), Source(*STUDY, users)))
