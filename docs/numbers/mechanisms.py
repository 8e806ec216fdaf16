"""docs/mechanisms.md, and the figure at the top of the README: every mechanism at equal ε."""

from collections.abc import Iterator

import pandas as pd

from docs.numbers.page import Page, Source, published, short, table
from studies.comparison import EPSILON, PANELS, TRUST

LOCAL = [name for name in TRUST["trust nobody"] if name != "label exchange"]
STUDY = (
    "python -m studies.comparison --data-dir DIR",
    "test_published.py::test_the_comparison_of_all_mechanisms",
)


def relative() -> pd.DataFrame:
    """Mean relative accuracy, a row for each panel and ε, a column for each mechanism."""
    return published("comparison").pivot(index=["panel", EPSILON], columns="mechanism", values="relative_accuracy")


def both_tables() -> Iterator[str]:
    """A table for ε = 0.2 and one for ε = 1."""
    means = relative()
    for epsilon in (0.2, 1.0):
        rows = []
        for heading, names in TRUST.items():
            for name in names:
                values = [means[name].get((panel, epsilon)) for panel in PANELS]
                cells = ["" if pd.isna(value) else short(value) for value in values]
                rows.append([name, heading.removeprefix("trust "), *cells])
        header = (f"ε = {epsilon:g}", "whom to trust", "digits", "MNIST", "even/odd", "Adult", "known law")
        yield table(header, rows)


def without_trust() -> Iterator[str]:
    """The exchange beside the best mechanism that trusts nobody."""
    means = relative()
    best = means[LOCAL].max(axis=1)
    for panel, text in (("mnist", "on MNIST"), ("digits", "on digits")):
        exchange, local = means["label exchange"][panel, 0.2], best[panel, 0.2]
        yield f"{short(exchange)} against {short(local)} {text}"
    behind = (best > means["label exchange"]).groupby("panel").apply(lambda ahead: ahead[ahead].index[0][1])
    yield f"from ε = {behind['mnist']:g} on MNIST, {behind['digits']:g} on digits"
    yield f"{behind['even-odd']:g} for even and odd, {behind['adult']:g} on Adult"
    yield f"{behind['synthetic']:g} on the known law"
    gap = (means["randomised response, shuffled"] - means["label exchange"]).abs().groupby("panel").max()
    rest = short(gap[["mnist", "even-odd", "adult", "synthetic"]].max())
    yield f"differs from it by at most {rest} (on digits by {short(gap['digits'])})"
    ends = means["label exchange"].xs(4.0, level=EPSILON)
    yield f"at ε = 4 it ends at {short(ends['digits'])}, {short(ends['mnist'])}, {short(ends['even-odd'])}, "
    yield f"{short(ends['adult'])} and {short(ends['synthetic'])}"


def curators() -> Iterator[str]:
    """What a curator gains, and which."""
    means = relative()
    model, labels = means["DP-SGD"], means["ClusterRR"]
    yield f"DP-SGD has {short(model['mnist', 0.2])} on MNIST at ε = 0.2, ClusterRR {short(labels['mnist', 0.2])}"
    users = published("comparison/digits", "rows.parquet")["num_users"].iloc[0]
    small = (short(part["digits", 0.2]) for part in (labels, model))
    yield "on the {:,} users of digits ClusterRR has {}, DP-SGD {}".format(users, *small)
    yield f"falls to {short(model['synthetic', 4.0])} at ε = 4"


def beside_peers() -> Iterator[str]:
    """ε₀ of the exchange at ε = 1: the worst over replicates."""
    parts = {}
    for panel in ("digits", "mnist"):
        rows = published(f"comparison/{panel}", "rows.parquet")
        exchange = (rows["mechanism_kind"] == "label_exchange") & (rows[EPSILON] == 1.0)
        parts[panel] = rows[exchange]["epsilon_local"].max()
    yield f"ε₀ = {parts['digits']:.2f} on digits and {parts['mnist']:.2f} on MNIST"


PAGE = Page(
    "docs/mechanisms.md",
    [Source(*STUDY, what) for what in (both_tables, without_trust, curators, beside_peers)],
    given=(r"\(100 by k-means",),
)
