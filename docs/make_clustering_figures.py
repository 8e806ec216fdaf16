"""Computes and draws the figures of docs/clustering-paper.md, with tables of their numbers: `make figures`."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from p2p_sim.analysis.figures.curves import Curve, Panel, plot_panels
from p2p_sim.analysis.figures.terms import plot_terms
from p2p_sim.analysis.privacy.claims.centralised_utility import precision_times_recall
from p2p_sim.analysis.utility.label_association import (
    Association,
    ClusterSubsets,
    ExampleSubsets,
    NoisyHistogram,
    best,
    largest_product,
    measure,
    printed_product,
)
from p2p_sim.analysis.utility.theory_terms import Study, all_terms

OUT = Path(__file__).parent / "figures"
SIZE = 10
THRESHOLDS = np.linspace(-3.0, 3.0, 61).tolist()
PRINTED, RELAXED = "Theorem 5's proof: e^ε s/(K-s)", "its two constraints, solved"


def association_products(epsilon: float, multiples: Sequence[int], clusters: int, rng: np.random.Generator) -> Panel:
    """Precision times recall of each mechanism, at its best parameter, against s/K."""
    found: dict[str, list[tuple[Association, int]]] = {}
    bounds: dict[str, list[float]] = {PRINTED: [], RELAXED: [], "exact maximum": []}
    for classes in (SIZE * multiple for multiple in multiples):
        largest, width = largest_product(classes, SIZE, epsilon)
        bounds[PRINTED].append(printed_product(classes, SIZE, epsilon))
        bounds[RELAXED].append(precision_times_recall(classes, SIZE, epsilon))
        bounds["exact maximum"].append(largest)
        chosen = {
            "subset of each cluster": ClusterSubsets(epsilon, width),
            "noisy histogram": best([NoisyHistogram(epsilon, t) for t in THRESHOLDS], classes, SIZE),
            "subset of each example": best([ExampleSubsets(epsilon, w) for w in range(1, classes)], classes, SIZE),
            "randomised response": ExampleSubsets(epsilon),
        }
        for name, mechanism in chosen.items():
            found.setdefault(name, []).append((mechanism, classes))
    ratios = [1.0 / m for m in multiples]
    curves = [_bound(name, ratios, values) for name, values in bounds.items()]
    for name, points in found.items():
        measured = [measure(mechanism, clusters, SIZE, classes, rng).product for mechanism, classes in points]
        curves.append(Curve.of_means(name, ratios, measured))
    return Panel("cluster size over labels, s/K", "precision x recall", curves, title=f"ε = {epsilon:g}")


def _bound(name: str, x: Sequence[float], values: Sequence[float]) -> Curve:
    """A bound, drawn at 1 where it is above and says nothing."""
    return Curve(name, x, [min(1.0, value) for value in values], dashed=True, marked=False)


def association_tradeoff(epsilon: float, classes: int, clusters: int, points: int, rng: np.random.Generator) -> Panel:
    """Precision against recall along each mechanism's parameter, and a hyperbola for each bound of their product."""
    widths = np.unique(np.geomspace(1, classes, points).astype(int)).tolist()
    mechanisms: dict[str, list[Association]] = {
        "subset of each cluster": [ClusterSubsets(epsilon, w) for w in widths],
        "noisy histogram": [NoisyHistogram(epsilon, t) for t in np.linspace(2.0, -2.0, points)],
        "subset of each example": [ExampleSubsets(epsilon, w) for w in widths],
    }
    bounds = {
        PRINTED: printed_product(classes, SIZE, epsilon),
        RELAXED: precision_times_recall(classes, SIZE, epsilon),
        "exact maximum": largest_product(classes, SIZE, epsilon)[0],
    }
    recalls = [0.02 * i for i in range(1, 51)]
    curves = [_bound(name, recalls, [bound / r for r in recalls]) for name, bound in bounds.items()]
    for name, line in mechanisms.items():
        measured = [measure(mechanism, clusters, SIZE, classes, rng) for mechanism in line]
        recall = [point.recall.value for point in measured]
        curves.append(Curve.of_means(name, recall, [point.precision for point in measured]))
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
    study = Study(replicates=5 if small else 60, clusters=10 if small else 60, rng=rng)
    terms = all_terms(study, 3 if small else 8)
    fits = [[series.fit(rng) for series in term.series] for term in terms]
    note = (
        f"{study.replicates} replicates, {study.clusters} clusters; bars and ±: 95% intervals; dashed: the bound's "
        "term with its constant fitted; d: points of all clusters"
    )
    plot_terms(terms, fits, note, path)
    lines = []
    for term, fitted in zip(terms, fits, strict=True):
        for series, fit in zip(term.series, fitted, strict=True):
            slope = series.slope()
            line = {"term": term.name, "series": series.label, "replicates": study.replicates}
            line |= {"slope": slope.value, "slope_low": slope.low, "slope_high": slope.high}
            if fit is not None:
                constant = fit.constant
                line |= {"constant": constant.value, "constant_low": constant.low, "constant_high": constant.high}
                line |= {"of": series.symbol, "misfit": fit.misfit}
            lines.append(line)
    pd.DataFrame(lines).to_csv(path.with_suffix(".csv"), index=False, float_format="%.8g")
    return path


def main(out: Path = OUT, small: bool = False) -> list[Path]:
    """Draw all figures; `small` computes a few points only, for the tests."""
    return [association(out / "label-association.png", small), theory_terms(out / "theory-terms.png", small)]


if __name__ == "__main__":
    for path in main():
        print(path)
