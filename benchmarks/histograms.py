"""Private histogram rules against k nearest neighbours and histogram gradient boosting (scikit-learn), one thread."""

from collections.abc import Iterator

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.table import FASTER, Row
from benchmarks.timing import paired_ratio, repeated
from p2p_sim.histograms.classifiers import PCL, PCL2, PCL2b
from p2p_sim.histograms.densities import PCDE
from p2p_sim.measures.exact_laws import ProductLaw, Sine

NAME = "histogram rules"
ROWS, SLOW = 1_000_000, 10_000
"""Rows to fit and to predict, and rows that k nearest neighbours predict."""


def rows(small: bool = False) -> Iterator[Row]:
    """Time to fit and to predict, and the error beyond Bayes on fresh rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.neighbors import KNeighborsClassifier

    count, slow = (2_000, 500) if small else (ROWS, SLOW)
    law, rng = ProductLaw(Sine(2), 2), np.random.default_rng(1)
    points, labels = law.draw(count, rng)
    queries = rng.random((count, 2))
    positive = law.positive(queries)
    peers = {"k nearest neighbours, k = 100": KNeighborsClassifier(100)}
    if not small:
        peers["gradient boosting"] = HistGradientBoostingClassifier()
    setting = f"{count:,} rows of two features, ε = 1"
    with threadpool_limits(1):
        ours = PCL().fit(points, labels)
        for name, peer in peers.items():
            asked = slow if "nearest" in name else count
            ratio = paired_ratio(lambda p=peer: p.fit(points, labels), lambda: ours.fit(points, labels), 3)
            yield Row.of(NAME, f"{name}: fit", setting, FASTER, ratio, "PCL")
            ratio = paired_ratio(
                lambda p=peer, n=asked: p.predict(queries[:n]), lambda n=asked: ours.predict(queries[:n]), 3
            )
            yield Row.of(NAME, f"{name}: predict", setting, FASTER, ratio, "PCL")
        for name, model in {"PCL": PCL(), "PCL2": PCL2(), "PCL2b, ε = 2": PCL2b()}.items():
            said = model.fit(points, labels).predict(queries)
            wrong = np.abs(2.0 * positive - 1.0)[said != (positive > 0.5)].sum() / count
            yield Row.of(
                NAME, name, setting, "µs a row", repeated(lambda m=model: m.fit(points, labels), count / 1e6, 3)
            )
            yield Row.of(NAME, name, setting, "excess error", float(wrong))
        density = repeated(lambda: PCDE().fit(points).score_samples(queries), count / 1e6, 3)
        yield Row.of(NAME, "PCDE, fit and predict", setting, "µs a row", density)


def main() -> None:
    """Print a line a measurement."""
    for row in rows():
        print(row)


if __name__ == "__main__":
    main()
