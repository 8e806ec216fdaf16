"""Claims of the papers on LabelDP-Pro and PATE, tested at reduced size. Each claim has a measured difference and a
verdict.

Run as `python -m analysis.curators --data-dir DIR`; it takes approximately ten CPU minutes. The same command continues
a stopped run.
"""

from pathlib import Path

import pandas as pd

from analysis.study import EPSILON, Frame, command, curves, fewest
from p2p_sim.figures import Panel, plot_panels
from p2p_sim.measures import mean_interval

NAME = "curators"
PRO, DP_SGD, PATE, RESPONSE, ALIBI = "LabelDP-Pro", "DP-SGD", "PATE", "randomised response", "ALIBI"
PANELS = {"mnist": "50 components", "pixels": "pixels"}
REDUCED = (
    'population={kind="digits",task="classes"}', 'clusters={kind="kmeans",count=4,min_size=36}', "replicates=2",
)  # fmt: skip
"""A reduced study changes each sweep: digits instead of MNIST, four clusters, and two replicates."""
EPSILONS = (0.2, 0.5, 1.0, 2.0)
PRINTED = {
    PRO: (0.929, 0.941, 0.943, 0.954),
    DP_SGD: (0.879, 0.909, 0.928, 0.938),
    RESPONSE: (0.081, 0.104, 0.513, 0.967),
    ALIBI: (0.097, 0.825, 0.941, 0.966),
}
"""For each mechanism and each of `EPSILONS`, the accuracy on MNIST that Table 5 of the LabelDP-Pro paper prints."""
LEADS = ((PATE, ALIBI, 0.2),)
"""Claims without a printed difference, as (first, second, ε): at this ε the first mechanism is more accurate than the
second. On CIFAR-10, the PATE paper finds PATE-FM (PATE trained by FixMatch) at ε = 0.18 more accurate than ALIBI at ε =
1. Of the values of ε that are run here, 0.2 is nearest to 0.18.
"""
HOLDS, FAILS, OPEN = "reproduced", "not reproduced", "undecided"


def main(frame: Frame) -> list[Path]:
    """Runs mechanisms on MNIST, at reduced size, and checks claims of the papers on LabelDP-Pro and PATE. Each claim
    says that one mechanism is more accurate than another at some ε. Returns the files: a figure of accuracy against ε,
    a table of its points, and a table of claims with verdicts.

    Args:
        frame: where the study runs and writes; a reduced study uses the data set of digits.
    """
    sweeps = {name: frame.swept(f"{NAME}/{name}.toml", REDUCED) for name in PANELS}
    tables = {name: sweep.points for name, sweep in sweeps.items()}
    claims = [{"panel": name, **line} for name, sweep in sweeps.items() for line in judged(sweep.rows)]
    panels = [
        Panel("target ε", "accuracy", curves(table, EPSILON, "accuracy", "mechanism"), log_y=False, title=PANELS[name])
        for name, table in tables.items()
    ]
    note = (
        f"{fewest(tables, 'num_users'):,} users, {fewest(tables)} replicates a point, bands: 95% intervals. "
        "One label replaced, δ = 1e-6."
    )
    columns = ("mechanism", EPSILON, "epsilon_upper", "trust", "delta", "noise_multiplier")
    return [
        frame.figure(plot_panels, panels, "curators.png", note),
        frame.points(tables, columns, ("accuracy", "nonprivate_accuracy")),
        frame.table("claims.csv", claims),
    ]


def judged(rows: pd.DataFrame) -> list[dict[str, object]]:
    """A row for each claim on the accuracies of two mechanisms at an ε, with the measured difference.

    The column `claimed` has the printed difference of accuracies; it is empty if only a direction is claimed. The
    column `difference` has the mean measured difference, the first accuracy minus the second. In each replicate, both
    mechanisms have the same users. `low` and `high` are the ends of the difference's 95% interval. `verdict` says
    whether this interval has the claimed sign: "reproduced", "not reproduced" or "undecided". rows: rows of the sweep,
    one for each mechanism, ε and replicate.
    """
    error = rows.pivot_table(index=[EPSILON, "replicate"], columns="mechanism", values="error_rate")
    lines: list[dict[str, object]] = []
    for epsilon in error.index.unique(EPSILON):
        part = error.loc[epsilon]
        # the first mechanism is claimed to lead, unless the printed difference is negative
        pairs: list[tuple[str, str, float | None]] = [
            (first, second, None) for first, second, at in LEADS if at == epsilon
        ]
        if epsilon in EPSILONS:
            printed = {mechanism: accuracies[EPSILONS.index(epsilon)] for mechanism, accuracies in PRINTED.items()}
            pairs = [*((PRO, rival, printed[PRO] - printed[rival]) for rival in (DP_SGD, RESPONSE, ALIBI)), *pairs]
        for first, second, claimed in pairs:
            if not {first, second} <= set(part):
                continue
            lines.append({EPSILON: epsilon, "first": first, "second": second, "claimed": claimed,
                          **_compare(part[first], part[second], claimed)})  # fmt: skip
    return lines


def _compare(first: "pd.Series[float]", second: "pd.Series[float]", claimed: float | None) -> dict[str, object]:
    """The mean difference of two mechanisms' accuracies (first minus second), with interval and verdict on the claim.

    Args:
        first, second: error rates, by replicate. claimed: the printed difference of accuracies; None: the claim only
        says that the first mechanism is more accurate.
    """
    gap = mean_interval(second - first)
    # multiply the interval by the claimed sign: above 0 the claim is reproduced, below 0 it is not
    ahead = 1.0 if claimed is None or claimed > 0 else -1.0
    low, high = sorted((ahead * gap.low, ahead * gap.high))
    verdict = HOLDS if low > 0 else FAILS if high < 0 else OPEN
    return {
        "difference": gap.value, "low": gap.low, "high": gap.high, "replicates": gap.replicates, "verdict": verdict
    }  # fmt: skip


if __name__ == "__main__":
    command(NAME, main)
