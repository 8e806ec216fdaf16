"""The exact accountant: one δ, one ε with its search over all data sets, and dp-accounting on the same pair of laws."""

import math
from collections.abc import Iterator

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.table import FASTER, Row
from benchmarks.timing import paired_ratio, repeated, seconds, spread_of
from p2p_sim.analysis.privacy import LabelExchange
from p2p_sim.analysis.privacy.exchange.one_cluster import _Scan, _views

NAME = "accountant"


def one_delta(exchange: LabelExchange, epsilon: float) -> None:
    """δ of one data set, from nothing."""
    scan = _Scan(exchange.setting, math.log(1e-9))
    scan.deltas(_views(scan, (0,), False), epsilon)


def epsilons(small: bool) -> Iterator[Row]:
    """Time of ε(δ) over all data sets, of one δ of one data set, and how far the certified bounds are apart."""
    for size in (36, 100) if small else (36, 1000, 100_000, 1_000_000):
        for sampling_rate in (0.1, 1.0):
            # a hair's breadth apart, because figures are remembered
            fresh = iter([LabelExchange(size, 0.1 + k * 1e-9, sampling_rate) for k in (1, 2, 3)])
            exchange = LabelExchange(size, 0.1, sampling_rate)
            bound = exchange.epsilon(1e-5)
            setting = f"n = {size:,}, θ = {sampling_rate:g}, α = 0.1, δ = 1e-5"
            whole = spread_of([seconds(lambda f=fresh: next(f).epsilon(1e-5)) / 1e-3 for _ in range(3)])
            single = repeated(lambda e=exchange, x=bound.epsilon_upper: one_delta(e, x), 1e-3, 3)
            yield Row.of(NAME, "ε over all data sets", setting, "ms", whole)
            yield Row.of(NAME, "one δ of one data set", setting, "ms", single)
            yield Row.of(
                NAME, "upper over lower bound", setting, "ratio", bound.epsilon_upper / bound.epsilon_lower, "1"
            )


def against_dp_accounting(small: bool) -> Iterator[Row]:
    """The same pair of laws as a privacy loss distribution, then one δ; the time of its table is not counted."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    for size in (20,) if small else (50, 100, 200, 400):
        exchange = LabelExchange(size, 0.1, 1.0)
        logs = [{k: float(np.log(p)) for k, p in table.items() if p > 0} for table in exchange.privacy_loss_pmfs(0)]
        epsilon = exchange.epsilon(1e-5).epsilon_upper

        def theirs(logs=logs, epsilon=epsilon) -> float:
            tables = [
                pld.from_two_probability_mass_functions(a, b, value_discretization_interval=1e-4, symmetric=False)
                for a, b in (logs, logs[::-1])
            ]
            return max(table.get_delta_for_epsilon(epsilon) for table in tables)

        ratio = paired_ratio(theirs, lambda e=exchange, x=epsilon: one_delta(e, x))
        setting = f"one δ of one data set, n = {size}, θ = 1"
        yield Row.of(NAME, "dp-accounting", setting, FASTER, ratio, "the same pair of laws")


def rows(small: bool = False) -> Iterator[Row]:
    """All measurements, on one numerical thread."""
    with threadpool_limits(1):
        yield from epsilons(small)
        yield from against_dp_accounting(small)


def main() -> None:
    """Print a line a measurement."""
    for row in rows():
        print(row)


if __name__ == "__main__":
    main()
