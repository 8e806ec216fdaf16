"""Private histogram rules against k nearest neighbours and histogram gradient boosting (scikit-learn), one thread."""

import numpy as np
from threadpoolctl import threadpool_limits

from analysis.utility.product_laws import ProductLaw, Sine
from benchmarks.timing import seconds
from p2p_sim.histograms.classifiers import PCL, PCL2, HistogramClassifier
from p2p_sim.histograms.counts import PCL2b
from p2p_sim.histograms.densities import PCDE

ROWS, SLOW = 1_000_000, 20_000
"""Rows to fit and to predict, and rows that k nearest neighbours predict."""


def main() -> None:
    """Print one line a model: seconds to fit, microseconds a row to predict, error beyond Bayes on fresh rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.neighbors import KNeighborsClassifier

    law, rng = ProductLaw(Sine(2), 2), np.random.default_rng(1)
    points, labels = law.draw(ROWS, rng)
    queries = rng.random((ROWS, 2))
    positive = law.positive(queries)
    print(f"{ROWS:,} rows of two features; predicts as many ({SLOW:,} for k nearest neighbours)")
    models = {
        "histogram, not private": HistogramClassifier(),
        "PCL, ε = 1": PCL(),
        "PCL2, ε = 1": PCL2(),
        "PCL2b, ε = 2": PCL2b(),
        "k nearest neighbours, k = 100": KNeighborsClassifier(100),
        "gradient boosting": HistGradientBoostingClassifier(),
    }
    with threadpool_limits(1):
        for name, model in models.items():
            count = SLOW if "nearest" in name else ROWS
            said = []
            fit = seconds(lambda model=model: model.fit(points, labels))
            predict = seconds(lambda m=model, n=count, said=said: said.append(m.predict(queries[:n])))
            wrong = np.abs(2.0 * positive[:count] - 1.0)[said[0] != (positive[:count] > 0.5)].sum() / count
            print(f"  {name:31} fit {fit:6.2f} s   predict {1e6 * predict / count:7.2f} µs a row   excess {wrong:.4f}")
        density = PCDE()
        fit = seconds(lambda: density.fit(points))
        predict = seconds(lambda: density.score_samples(queries))
        print(f"  {'PCDE, ε = 1':31} fit {fit:6.2f} s   predict {1e6 * predict / ROWS:7.2f} µs a row")


if __name__ == "__main__":
    main()
