"""The exact accountant: one δ, one ε with its search over all data sets, and dp-accounting on the same pair of laws."""

import math
import resource

import numpy as np
from threadpoolctl import threadpool_limits

from analysis.privacy import LabelExchange
from analysis.privacy.setting import _Scan, _views
from benchmarks.timing import paired_ratio, seconds, spread


def one_delta(exchange: LabelExchange, epsilon: float) -> None:
    """δ of one data set, from nothing."""
    scan = _Scan(exchange.setting, math.log(1e-9))
    scan.deltas(_views(scan, (0,), False), epsilon)


def epsilons() -> None:
    """Seconds for ε(δ) over all data sets, and for one δ of one data set."""
    print("ε at δ = 1e-5 over all data sets, and one δ of one data set (α = 0.1)")
    for size in (36, 100, 300, 1000, 3000, 100_000, 1_000_000):
        for sampling_rate in (0.1, 1.0):
            exchange = LabelExchange(size, 0.1, sampling_rate)
            found = []
            wall = seconds(lambda exchange=exchange, found=found: found.append(exchange.epsilon(1e-5)))
            low, high = found[0].epsilon_lower, found[0].epsilon_upper
            single = min(seconds(lambda e=exchange, x=high: one_delta(e, x)) for _ in range(3))
            print(
                f"  n = {size:9,d}, θ = {sampling_rate}: ε in [{low:.4f}, {high:.4f}], upper/lower {high / low:.4f}"
                f"   {1e3 * wall:7.1f} ms; δ {1e3 * single:7.1f} ms"
            )


def against_dp_accounting() -> None:
    """The same pair of laws as a privacy loss distribution, then one δ."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    print("one δ of one data set: time of dp-accounting's construction over ours, median (range) of 5 pairs")
    for size in (50, 100, 200, 400):
        exchange = LabelExchange(size, 0.1, 1.0)
        zero, one = exchange.privacy_loss_pmfs(0)
        logs = [{key: float(np.log(p)) for key, p in table.items() if p > 0} for table in (zero, one)]
        epsilon = exchange.epsilon(1e-5).epsilon_upper

        def theirs(logs=logs, epsilon=epsilon) -> float:
            tables = [
                pld.from_two_probability_mass_functions(a, b, value_discretization_interval=1e-4, symmetric=False)
                for a, b in (logs, logs[::-1])
            ]
            return max(table.get_delta_for_epsilon(epsilon) for table in tables)

        ratio = paired_ratio(theirs, lambda e=exchange, x=epsilon: one_delta(e, x))
        print(f"  n = {size:4d}, θ = 1: {spread(ratio)}   (its table of {len(zero):,} outcomes not counted)")


def main() -> None:
    """Print everything, on one numerical thread."""
    with threadpool_limits(1):
        epsilons()
        against_dp_accounting()
    print(f"largest memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
