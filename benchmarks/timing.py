"""Interleaved timing of two things, and peak memory."""

import statistics
import time
import tracemalloc
from collections.abc import Callable


def seconds(action: Callable[[], object]) -> float:
    """Wall time of one call."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def paired_ratio(one: Callable[[], object], other: Callable[[], object], pairs: int = 5) -> tuple[float, float, float]:
    """Smallest, median and largest of time(one) / time(other) over interleaved pairs."""
    one(), other()  # warm up
    ratios = sorted(seconds(one) / seconds(other) for _ in range(pairs))
    return ratios[0], statistics.median(ratios), ratios[-1]


def peak_bytes(action: Callable[[], object]) -> int:
    """Most memory allocated at once during a call, beyond what was there before."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def spread(values: tuple[float, float, float]) -> str:
    """Median with smallest and largest."""
    return f"{values[1]:6.2f}  ({values[0]:.2f} to {values[2]:.2f})"
