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
    deltas = {"δ = 1e-12": 1e-12, "1e-9": 1e-9, "1e-6": 1e-6, "1e-3": 1e-3}
    rows = [
        [
            regime,
            *(f"{of.median():.1f}, {of.max():.1f}" for of in (cells.get_group((regime, d)) for d in deltas.values())),
        ]
        for regime in REGIMES
    ]
    yield table(("regime (n >= 100)", *deltas), rows)
    yield f"on {cells.size().unique().item()} random targets for each regime and δ"
    outside = found[found["regime"].isin(REGIMES[:2]) & (found["delta"] <= 1e-9)]["factor"]
    yield f"on these targets the factor is at most {math.ceil(10 * outside.max()) / 10:g} for δ <= 1e-9"
    yield f"({(outside <= 3.0).sum()} of {len(outside)} times at most 3)"
    large = found[found["regime"].isin(REGIMES) & (found["delta"] == 0.1)]["factor"]
    yield f"grows with δ (at δ = .1 its median is {large.median():.0f}, its largest value {large.max():,.0f})"
    small = found[(found["regime"] == SMALL) & (found["delta"] <= 1e-3)]
    failed = small[small["local"]]
    yield f"On {len(failed)} of {len(small)} targets with n < 100 and δ <= 1e-3 the conditions fail"
    yield f"the local value is up to {failed['factor'].max():.1f} times too large"


PAGE = Page(
    "docs/theorem.md",
    (Source("python -m studies.closed_form", "test_published_privacy.py::test_the_closed_form_study", factors),),
    given=(r"n from 30 to 100,000, θ from \.01 to 1, ε from \.01 to 3", r"ε/θ outside \[\.7, 1\.5\]"),
)
