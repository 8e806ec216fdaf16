"""docs/theorem.md: a flip probability that suffices."""

import math
from collections.abc import Iterator

from docs.numbers.page import Page, Source, published, table

REGIMES = ("ε < .7 θ", "ε > 1.5 θ", "between")
SMALL = "n < 100"


def factors() -> Iterator[str]:
    """The table of factors, and what the text says of it."""
    found = published("closed-form")
    cells = found.groupby(["regime", "delta"])["factor"]
    deltas = (1e-12, 1e-9, 1e-6, 1e-3)
    rows = [
        [regime, *(f"{of.median():.1f}, {of.max():.1f}" for of in (cells.get_group((regime, d)) for d in deltas))]
        for regime in REGIMES
    ]
    yield table(("regime (n >= 100)", *(f"δ = {d:g}" if d == deltas[0] else f"{d:g}" for d in deltas)), rows)
    yield f"on {cells.size().unique().item()} random targets for each regime and δ"
    outside = found[found["regime"].isin(REGIMES[:2])]
    yield f"the factor is at most {math.ceil(outside[outside['delta'] <= 1e-9]['factor'].max())} for δ <= 1e-9"
    large = outside[outside["delta"] == 0.1]["factor"]
    yield f"grows with δ (at δ = .1 its median is {large.median():.0f})"
    small = found[(found["regime"] == SMALL) & (found["delta"] <= 1e-3)]
    failed = small[small["local"]]
    yield f"On {len(failed)} of {len(small)} targets with n < 100 and δ <= 1e-3 the conditions fail"
    yield f"the local value is up to {failed['factor'].max():.0f} times too large"


PAGE = Page(
    "docs/theorem.md",
    (Source("python -m docs.published.closed_form", "test_published_privacy.py::test_the_closed_form_study", factors),),
    given=(r"n from 30 to 100,000, θ from \.01 to 1, ε from \.01 to 3", r"ε/θ outside \[\.7, 1\.5\]"),
)
