"""The exact accountant: ε with its search over all data sets; one δ beside dp-accounting on the same pair of laws."""

import math
from collections.abc import Iterator
from itertools import count, product

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.table import FASTER, Row
from benchmarks.timing import paired_ratio, seconds, spread_of
from p2p_sim.privacy import LabelExchange
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.exchange.delta_evaluator import DeltaEvaluator

NAME = "accountant"
SIZES = (36, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000)
RATES, FLIP_PROBS, DELTA = (0.01, 0.1, 0.5, 1.0), (0.01, 0.1, 0.3), 1e-6
LONG_MS = 200.0
"""What takes longer is measured once."""


def one_delta(exchange: LabelExchange, epsilon: float) -> None:
    """δ of one data set, from nothing."""
    DeltaEvaluator(exchange.setting, math.log(1e-9)).at(0, epsilon)


def repeats(first: float) -> int:
    """How often a setting is measured that took so many milliseconds at first."""
    return 1 if first > LONG_MS else 3


def fresh(size: int, flip_prob: float, sampling_rate: float) -> Iterator[LabelExchange]:
    """The same setting over and over, a hair's breadth apart, because figures are remembered."""
    return (LabelExchange(size, flip_prob + k * 1e-9, sampling_rate) for k in count())


def timed(exchange: LabelExchange) -> tuple[PrivacyBound, float]:
    """ε, and the processor seconds that it took."""
    found = list[PrivacyBound]()
    spent = seconds(lambda: found.append(exchange.epsilon(DELTA)))
    return found[0], spent


def epsilons(small: bool) -> Iterator[Row]:
    """Time of ε(δ) over all data sets, and how far the certified bounds are apart."""
    timed(LabelExchange(20, 0.2, 0.5))  # loads what it needs
    for size in (36, 100) if small else SIZES:
        for flip_prob, sampling_rate in product(
            FLIP_PROBS[-1:] if small else FLIP_PROBS, RATES[1::2] if small else RATES
        ):
            setting = f"n = {size:,}, θ = {sampling_rate:g}, α = {flip_prob:g}, δ = 1e-6"
            exchanges, spent = fresh(size, flip_prob, sampling_rate), list[float]()
            while not spent or len(spent) < repeats(spent[0]):
                bound, spent_s = timed(next(exchanges))
                spent.append(spent_s / 1e-3)
            yield Row.of(NAME, "ε over all data sets", setting, "ms", spread_of(spent))
            if bound.epsilon_lower > 0.0:
                apart = bound.epsilon_upper / bound.epsilon_lower
                yield Row.of(NAME, "upper over lower bound", setting, "ratio", apart, "1")


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

        many = fresh(size, 0.1, 1.0)
        ratio = paired_ratio(theirs, lambda many=many, x=epsilon: one_delta(next(many), x))
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
