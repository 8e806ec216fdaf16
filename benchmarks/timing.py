"""Interleaved timing of two things in processor time, which other programs on the machine hardly touch; peak memory."""

import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable

Spread = tuple[float, float, float]
"""Smallest, median and largest."""
BLOCK = 65_536
"""Labels that a step works on."""


def seconds(action: Callable[[], object]) -> float:
    """Processor time of one call, of user and system, in which no garbage is collected, neither its own nor older."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        begin = time.process_time()
        action()
        return time.process_time() - begin
    finally:
        if collecting:
            gc.enable()


def spread_of(values: list[float]) -> Spread:
    """Smallest, median and largest."""
    return min(values), statistics.median(values), max(values)


def paired_ratio(one: Callable[[], object], other: Callable[[], object], pairs: int = 5) -> Spread:
    """time(one) / time(other) over interleaved pairs."""
    one(), other()  # warm up
    return spread_of([seconds(one) / seconds(other) for _ in range(pairs)])


def repeated(action: Callable[[], object], per: float, times: int) -> Spread:
    """Processor time over `per`, after one call that is not counted."""
    action()
    return spread_of([seconds(action) / per for _ in range(times)])


def peak_bytes(action: Callable[[], object]) -> int:
    """Most memory allocated at once during a call, beyond what was there before."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
