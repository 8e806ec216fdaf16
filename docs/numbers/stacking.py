"""docs/stacking.md: organisations that exchange models."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import expit

from docs.numbers.page import WORDS, Page, Source, published, short, table
from tests.test_objective_perturbation import ATTAINED
from tests.test_stacking_audit import PROVEN

SPENT = "PST-F(U), Kε spent"
BENCHMARKS = {
    **{name: name for name in ("PLR", "PLR(W)", "PST-S", "PST-F(U)", "PST-F(W)", "PST-F(W), no high level")},
    SPENT: "PST-F(U) with all of ε for each group: costs 5ε",
}
TRANSFER = {
    "PLR (target)": "PLR (target)",
    "PLR (source)": "PLR (source), as it is",
    **{name: name for name in ("PPHTL", "PLR-HTL", "PLR-HTL(W)", "PST-H(U)", "PST-H(W)", "PST-H(W), no high level")},
}


def _means(study: str) -> pd.DataFrame:
    whole = published("stacking")
    return whole[whole["study"] == study]


def _difference(first: str, second: str, epsilon: float = 1.0, data: str = "NEWS20") -> str:
    """First minus second with its interval, as the page prints it; the table may have it the other way round."""
    found = _differences("epsilon", first, second).set_index(["data", "epsilon"]).loc[(data, epsilon)]
    return f"{_signed(found['difference'])} [{_ends(found['low'], found['high'])}]"


def _differences(study: str, first: str, second: str) -> pd.DataFrame:
    whole = published("stacking", "differences.csv")
    whole = whole[whole["study"] == study]
    found = whole[(whole["first"] == first) & (whole["second"] == second)]
    if found.empty:
        found = whole[(whole["first"] == second) & (whole["second"] == first)]
        found = found.assign(difference=-found["difference"], low=-found["high"], high=-found["low"])
    return found


def _ends(low: float, high: float) -> str:
    return f"{short(low)}, {short(high) if low > 0.0 else _signed(high)}"


def _signed(value: float) -> str:
    return f"{'+' if value > 0.0 else '-'}{short(abs(value))}"


def _bold(cells: list[float]) -> list[str]:
    """A row or column with its largest values, as printed, in bold."""
    return [f"**{short(cell)}**" if round(cell, 3) == round(max(cells), 3) else short(cell) for cell in cells]


def proved() -> Iterator[str]:
    """What moves in one dimension, by the same grid as the test."""
    w, z = np.meshgrid(np.linspace(0.0, 40.0, 4001), np.linspace(-1.0, 1.0, 401), indexing="ij")
    moves = float(np.ptp(z * expit(-w * z), axis=1).max())
    yield f"z σ(-wz) moves by less than {math.ceil(100 * moves) / 100:.2f}"


def attained() -> Iterator[str]:
    """How near a search comes to the bound, at least."""
    yield f"in two dimensions attains more than {ATTAINED:.1f} of ε = 1 at n = 1,000, λ = 0.005"


def audited() -> Iterator[str]:
    """What attacks prove, at least."""
    yield f"along a long prior they prove more than {PROVEN:.1f} of it"


def benchmarks() -> Iterator[str]:
    """The first table, and differences on the benchmark sets."""
    points = _means("epsilon").set_index(["data", "method", "epsilon"])["auc"]
    columns = []
    for epsilon in (0.5, 1.0, 2.0, 8.0):
        honest = [points["NEWS20", name, epsilon] for name in BENCHMARKS if name != SPENT]
        columns.append([*_bold(honest), short(points["NEWS20", SPENT, epsilon])])
    rows = [[title, *cells] for title, *cells in zip(BENCHMARKS.values(), *columns, strict=True)]
    yield table(("NEWS20, test AUC", "ε = 0.5", "ε = 1", "ε = 2", "ε = 8"), rows)
    yield f"{_means('epsilon')['replicates'].unique().item()} splits, 95% intervals"
    yield f"**PLR beats PST-S: reproduces** (NEWS20, ε = 1: {_difference('PLR', 'PST-S')})"
    gap = _differences("epsilon", "PLR", "PST-S")
    open_at = gap[(gap["data"] == "NEWS20") & (gap["low"] <= 0.0)]["epsilon"]
    yield f"below ε = {min(set(gap['epsilon']) - set(open_at)):g} it is undecided on NEWS20"
    better = _differences("epsilon", "PST-F(W)", "PST-F(U)")
    start = min(e for e in better["epsilon"] if (better[better["epsilon"] >= e]["low"] > 0.0).all())
    yield f"reproduces** from ε = {start:g} on ({_difference('PST-F(W)', 'PST-F(U)')})"
    reversed_at = better[better["high"] < 0.0]
    yield f"at ε = {reversed_at['epsilon'].item():g} on {reversed_at['data'].item()} it is the other way round"
    lost = _differences("epsilon", "PST-F(U)", "PLR")
    assert (lost["low"] <= 0.0).all()
    yield f"never significantly above, and below by {_difference('PLR', 'PST-F(U)')[1:]} on NEWS20 at ε = 1"
    yield f"the published win appears ({_difference(SPENT, 'PLR')})"
    yield f"nowhere significantly above (NEWS20, ε = 1: {_difference('PST-F(W)', 'PLR')})"
    plain = _differences("epsilon", "PLR(W)", "PST-F(W)")
    yield f"significantly above PST-F(W) at {(plain['low'] > 0.0).sum()} of the {len(plain)} points of data"
    yield f"points of data and ε (NEWS20, ε = 1: {_difference('PLR(W)', 'PST-F(W)')})"
    yield f"never significantly worse (NEWS20, ε = 1: {_difference('PST-F(W), no high level', 'PST-F(W)')})"


def combiners() -> Iterator[str]:
    """The second table, and the numbers of groups."""
    points = _means("combiner")
    points = points[points["data"] == "NEWS20"].set_index(["method", "combiner"])["auc"]
    rows = []
    for method in ("PST-F(U)", "PST-F(W)"):
        single = max(auc for name, auc in points[method].items() if str(name).startswith("group"))
        others = [points[method, combiner] for combiner in ("majority", "weighted", "mean", "stacked")]
        rows.append([method, *_bold([single, *others])])
    yield table(("NEWS20, ε = 1", "best single group", "majority", "weighted vote", "weighted mean", "stacked"), rows)
    groups = _means("groups")
    groups = groups[groups["data"] == "NEWS20"].set_index(["method", "groups"])["auc"]
    best = groups["PST-F(W)"].idxmax()
    yield f"the best K is {best} on NEWS20 and the AUC falls at {min(k for k in groups['PST-F(W)'].index if k > best)}"


def transfer() -> Iterator[str]:
    """The third table, and where which method wins."""
    means = _means("transfer").groupby(["data", "method"])["auc"].mean()
    columns = [_bold([means[data, name] for name in TRANSFER]) for data in ("branches", "heart")]
    rows = [[title, *cells] for title, *cells in zip(TRANSFER.values(), *columns, strict=True)]
    yield table(("test AUC, mean over targets", "16 branches", "heart"), rows)

    def wins(first: str, second: str, data: str) -> tuple[int, int, int]:
        found = _differences("transfer", first, second)
        found = found[found["data"] == data]
        return int((found["low"] > 0.0).sum()), int((found["high"] < 0.0).sum()), len(found)

    above, below, of = wins("PST-H(W)", "PLR (target)", "branches")
    gain = means["branches", "PST-H(W)"] - means["branches", "PLR (target)"]
    yield f"in {above} of {of} branches (intervals above 0) and is {'sometimes' if below else 'never'} below"
    yield f"the mean gain is {short(gain)},"
    above, below, of = wins("PST-H(W)", "PLR (target)", "heart")
    yield f"it does not**: {WORDS[below]} are below, {WORDS[of - above - below]} undecided"
    yield f"it is below in all {wins('PST-H(U)', 'PLR (target)', 'branches')[1]} branches"
    both = [wins("PPHTL", "PLR (target)", data)[0] for data in ("branches", "heart")]
    yield f"above in all {both[0]} branches and {WORDS[both[1]]} hospitals"
    above, below, of = wins("PLR-HTL", "PST-H(W)", "branches")
    yield f"PLR-HTL is above PST-H(W) in {above} of {of} branches, below in {WORDS[below]}"
    yield f"without a high level in {wins('PLR-HTL(W)', 'PST-H(W), no high level', 'branches')[0]}."
    rows_of = published("stacking", "rows.parquet").query("data == 'heart'")["rows"]
    yield f"the small hospitals ({rows_of.min():.0f} to {rows_of.max():.0f} rows to learn from)"


STUDY = ("python -m studies.stacking", "test_stacking_study.py::test_the_study_on_stand_ins")
TEST = "pytest tests/test_objective_perturbation.py", "test_objective_perturbation.py"
SEARCH, GRID = (
    "test_without_a_prior_most_of_the_bound_is_attained",
    "test_in_one_dimension_the_noise_covers_twice_what_moves",
)
PAGE = Page(
    "docs/stacking.md",
    (
        Source(*STUDY, benchmarks),
        Source(*STUDY, combiners),
        Source(*STUDY, transfer),
        Source(TEST[0], f"{TEST[1]}::{GRID}", proved),
        Source(TEST[0], f"{TEST[1]}::{SEARCH}", attained),
        Source(
            "pytest tests/test_stacking_audit.py",
            "test_stacking_audit.py::test_plr_with_transfer_shows_nearly_all_that_is_allowed",
            audited,
        ),
    ),
    given=(
        r"et al\. \(2019,",
        r"NEWS20 in 100 principal components",
        r"to unlearn from 1,500 rows",
        r"the published one is \.15",
        r"617 patients outside Cleveland",
    ),
)
