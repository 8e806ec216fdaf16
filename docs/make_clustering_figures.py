"""Computes and draws the figures of docs/clustering-paper.md, with tables of their numbers: `make figures`."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.excess_risk import Simulation, all_terms, fitted, plot_terms
from analysis.label_association import (
    Association,
    ClusterSubsets,
    ExampleSubsets,
    NoisyHistogram,
    best,
    largest_product,
    measure,
    printed_product,
)
from p2p_sim.figures.curves import Curve, Panel, plot_panels
from p2p_sim.privacy.claims.centralised_utility import precision_times_recall

OUT = Path(__file__).parent / "figures"
SIZE = 10
THRESHOLDS = np.linspace(-3.0, 3.0, 61).tolist()
PRINTED, RELAXED = "Theorem 5's proof: e^ε s/(K-s)", "its two constraints, solved"


def bounds(epsilon: float, classes: int) -> dict[str, float]:
    """Of precision times recall."""
    return {
        PRINTED: printed_product(classes, SIZE, epsilon),
        RELAXED: precision_times_recall(classes, SIZE, epsilon),
        "exact maximum": largest_product(classes, SIZE, epsilon)[0],
    }


def _bound(name: str, x: Sequence[float], values: Sequence[float]) -> Curve:
    """A bound, drawn at 1 where it is above and says nothing."""
    return Curve(name, x, [min(1.0, value) for value in values], dashed=True, marked=False)


def association_products(epsilon: float, multiples: Sequence[int], clusters: int, rng: np.random.Generator) -> Panel:
    """Precision times recall of each mechanism, at its best parameter, against s/K."""
    counts, ratios = [SIZE * multiple for multiple in multiples], [1.0 / multiple for multiple in multiples]
    limits = pd.DataFrame([bounds(epsilon, classes) for classes in counts])
    curves = [_bound(str(name), ratios, limits[name].tolist()) for name in limits]
    mechanisms: dict[str, Callable[[int], Association]] = {
        "subset of each cluster": lambda k: ClusterSubsets(epsilon, largest_product(k, SIZE, epsilon)[1]),
        "noisy histogram": lambda k: best([NoisyHistogram(epsilon, t) for t in THRESHOLDS], k, SIZE),
        "subset of each example": lambda k: best([ExampleSubsets(epsilon, w) for w in range(1, k)], k, SIZE),
        "randomised response": lambda _: ExampleSubsets(epsilon),
    }
    for name, chosen in mechanisms.items():
        measured = [measure(chosen(classes), clusters, SIZE, classes, rng)["product"] for classes in counts]
        curves.append(Curve.of_means(name, ratios, measured))
    return Panel("cluster size over labels, s/K", "precision x recall", curves, title=f"ε = {epsilon:g}")


def association_tradeoff(epsilon: float, classes: int, clusters: int, points: int, rng: np.random.Generator) -> Panel:
    """Precision against recall along each mechanism's parameter, and a hyperbola for each bound of their product."""
    widths = np.unique(np.geomspace(1, classes, points).astype(int)).tolist()
    mechanisms: dict[str, list[Association]] = {
        "subset of each cluster": [ClusterSubsets(epsilon, w) for w in widths],
        "noisy histogram": [NoisyHistogram(epsilon, t) for t in np.linspace(2.0, -2.0, points)],
        "subset of each example": [ExampleSubsets(epsilon, w) for w in widths],
    }
    recalls = [0.02 * i for i in range(1, 51)]
    limits = bounds(epsilon, classes)
    curves = [_bound(name, recalls, [limit / r for r in recalls]) for name, limit in limits.items()]
    for name, line in mechanisms.items():
        measured = [measure(mechanism, clusters, SIZE, classes, rng) for mechanism in line]
        recall = [point["recall"].value for point in measured]
        curves.append(Curve.of_means(name, recall, [point["precision"] for point in measured]))
    title = f"ε = {epsilon:g}, s/K = {SIZE / classes:g}"
    return Panel("recall", "precision", curves, log_x=False, title=title)


def association(path: Path, small: bool) -> Path:
    """The lower bound as an experiment."""
    rng = np.random.default_rng(5)
    multiples, clusters = ((2, 5), 200) if small else ((2, 3, 5, 10, 20, 50, 100), 1000)
    panels = [association_products(epsilon, multiples, clusters, rng) for epsilon in (1.0, 3.0)]
    panels.append(association_tradeoff(3.0, SIZE * (5 if small else 50), clusters, 4 if small else 12, rng))
    note = (
        f"s = {SIZE}; {clusters:,} clusters with random distinct labels a point; bands: 95% intervals; dashed: bounds "
        "of precision x recall; against s/K each mechanism has its best parameter"
    )
    plot_panels(panels, path, note)
    points = [
        {"panel": panel.title, "curve": curve.label, "x": x, "y": y, "low": low, "high": high}
        for panel in panels
        for curve in panel.curves
        for x, y, low, high in zip(curve.x, curve.y, curve.low or curve.y, curve.high or curve.y, strict=True)
    ]
    pd.DataFrame(points).to_csv(path.with_suffix(".csv"), index=False, float_format="%.8g")
    return path


def theory_terms(path: Path, small: bool) -> Path:
    """The utility theorems, term by term."""
    rng = np.random.default_rng(6)
    study = Simulation(replicates=5 if small else 60, clusters=10 if small else 60, rng=rng)
    terms = all_terms(study, 3 if small else 8)
    table = fitted(terms, rng)
    note = (
        f"{study.replicates} replicates, {study.clusters} clusters; bars: two standard errors; dashed: the bound's "
        "term with its constant fitted; d: points of all clusters; both axes are logarithmic"
    )
    plot_terms(terms, table, note, path)
    table.to_csv(path.with_suffix(".csv"), index=False, float_format="%.8g")
    return path


def main(out: Path = OUT, small: bool = False) -> list[Path]:
    """Draw all figures; `small` computes a few points only, for the tests."""
    return [association(out / "label-association.png", small), theory_terms(out / "theory-terms.png", small)]


if __name__ == "__main__":
    for path in main():
        print(path)
