"""What a piece of work took: time, processor time, memory."""

import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime

if sys.platform != "win32":
    import resource


@dataclass(frozen=True)
class Usage:
    """What a piece of work took.

    began, ended: moments, in UTC. wall_s: seconds on the clock.
    cpu_s: processor seconds of this process and of its child processes that have ended; None: not known.
    peak_bytes: the most memory that this process has held since it started; None: not known.
    """

    began: datetime
    ended: datetime
    wall_s: float
    cpu_s: float | None
    peak_bytes: int | None


class Meter:
    """Measures from the moment it is made."""

    def __init__(self) -> None:
        self._began, self._wall, self._cpu = datetime.now(UTC), time.perf_counter(), _cpu_s()

    def read(self) -> Usage:
        """What was used since the meter was made; the memory is that of the process since it started."""
        cpu = _cpu_s()
        used = None if cpu is None or self._cpu is None else cpu - self._cpu
        return Usage(self._began, datetime.now(UTC), time.perf_counter() - self._wall, used, _peak_bytes())


def _cpu_s() -> float | None:
    """Processor seconds of this process and of its children that have ended, where the system tells."""
    if sys.platform == "win32":
        return None
    each = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in each)


def _peak_bytes() -> int | None:
    """The most memory that this process has held at a time, where the system tells."""
    if sys.platform == "win32":
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
