"""docs/consistency.md: histograms that are consistent for every law."""

from collections.abc import Iterator

import pandas as pd

from docs.numbers.page import Page, Source, interval, published, short, table

LAWS = [f"{name}, d = {d}" for d in (1, 2) for name in ("smooth", "oscillating", "hard")]
HISTOGRAM = "histogram, not private"
PCL, EXCHANGE = "PCL, (1, 0)", "label exchange in cells, (1, n^-2)"
PCDE, DIVIDED = "PCDE, (1, n^-2), normalised", "PCDE, (1, n^-2), divided by n"


def _points(study: str) -> pd.DataFrame:
    whole = published("consistency")
    return whole[whole["study"] == study].set_index(["law", "n", "method"]).sort_index()


def _ends(point: pd.Series) -> str:
    return interval(point["value"], point["value_low"], point["value_high"], 4)


def excess_error() -> Iterator[str]:
    """The table at n = 100,000, and what the text says of it."""
    points = _points("excess error")
    rows = []
    for law in LAWS:
        of = points.loc[law, 100_000]
        cells = [_ends(of.loc[method]) for method in (HISTOGRAM, PCL, EXCHANGE)]
        rows.append([law, *cells, short(of.loc[EXCHANGE, "flip_prob"], 4)])
    yield table(("law, n = 100,000", "histogram", "PCL, ε = 1", "exchange, ε <= 1", "α"), rows)
    counts = points["replicates"]
    large = counts.index.get_level_values("n") > 100_000
    yield f"{counts[~large].unique().item()} replicates a point, {counts[large].unique().item()} above n = 100,000"
    few, many = (points.loc["smooth, d = 1", n] for n in (1000, 100_000))
    yield f"it still shows: {short(few.loc[PCL, 'value'], 4)} against {short(few.loc[HISTOGRAM, 'value'], 4)} on the"
    times = many.loc[EXCHANGE, "value"] / many.loc[PCL, "value"]
    yield f"{times:.2f} times PCL's on the smooth law (d = 1), for which 2/(1-2α)² = "
    yield f"2/(1-2α)² = {2 / (1 - 2 * many.loc[EXCHANGE, 'flip_prob']) ** 2:.2f}"


def thresholds() -> Iterator[str]:
    """What is learned from few labels."""
    point = _points("threshold").iloc[0]
    yield f"mean error is {_ends(point)} ({point['replicates']} replicates"


def densities() -> Iterator[str]:
    """The table of half-L1 distances."""
    points = _points("half-L1")
    names = {"histogram": HISTOGRAM, "PCDE": PCDE, "PCDE divided by n": DIVIDED}
    rows = [
        [f"{law}, {name}", *(_ends(points.loc[law, n, method]) for n in (10_000, 100_000, 1_000_000))]
        for law in ("normal", "Cauchy", "spikes")
        for name, method in names.items()
    ]
    yield table(("half-L1, ε = 1, δ = n⁻²", "n = 10,000", "n = 100,000", "n = 1,000,000"), rows)
    normal = points.loc["normal", 10_000]["value"]
    yield f"half-L1 {short(normal[PCDE], 2)} instead of {short(normal[DIVIDED], 2)}"


STUDY = ("python -m studies.consistency", "test_published.py::test_the_consistency_study")
PAGE = Page(
    "docs/consistency.md",
    (Source(*STUDY, excess_error), Source(*STUDY, densities), Source(*STUDY, thresholds)),
    given=(r"0\.5 \+ 0\.4 g", r"ten of width \.002", r"400 labels", r"100,000 unlabelled"),
)
