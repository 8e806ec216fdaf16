"""One whole job in a process of its own: what it took, part by part, and its peak memory.

python -P benchmarks/job.py JOB RESULT

JOB is a JSON file: `scenario`, a tree; `folder` of the files that it names; `axes` of a sweep, or null; `out`, where
its rows go. RESULT gets `seconds`, by part, and `peak_bytes`. The simulator is the one on PYTHONPATH, today's or an
older one: a name that it lacks is passed over, and its time counts to the part that contains it. A part's seconds are
processor time without that of the parts inside it.
"""

import builtins
import functools
import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

START, REST = "start-up", "storing"
PARTS = (START, "users", "clustering", "exchange", "engine", "accounting", "learning", REST)
"""`start-up`: the interpreter and all imports, whenever they happen. `exchange`: the network, the noisy labels and what
is known of a run, without the event engine, which is a part of its own. `storing`: rows, statements, table, figure, and
what else the driver of a run does. The exit comes after the clock stops: who started the process adds it."""
NAMES = {
    "users": (
        "p2p_sim.replicate.replicate:Case.people",
        "p2p_sim.replicate.streamed:draw_people",
        "p2p_sim.population.synthetic:DrawnPeople.points",
        "p2p_sim.population.synthetic:DrawnPeople.labels",
    ),
    "clustering": tuple(f"p2p_sim.population.clustering:{kind}Clusters.assign" for kind in ("Given", "KMeans", "Grid")),
    "exchange": (
        "p2p_sim.replicate.run:prepare",
        "p2p_sim.replicate.run:exchange",
        "p2p_sim.replicate.streamed:prepare_streamed",
        "p2p_sim.replicate.streamed:exchange_streamed",
    ),
    "engine": ("p2p_sim.exchange.batched_exchange:ShardExchange.run",),
    "accounting": ("p2p_sim.replicate.run:account",),
    "learning": ("p2p_sim.replicate.run:learn",),
}
"""The functions of a part, as the module that calls them names them."""


class Clock:
    """Processor seconds of each part; a part inside another one stops its clock."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._open = [START]
        self._since = 0.0  # when the process began

    def _turn(self) -> None:
        now = time.process_time()
        self.seconds[self._open[-1]] += now - self._since
        self._since = now

    def within(self, part: str, action: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed as this part."""

        @functools.wraps(action)
        def timed(*arguments: Any, **named: Any) -> Any:
            self._turn()
            self._open.append(part)
            try:
                return action(*arguments, **named)
            finally:
                self._turn()
                self._open.pop()

        return timed

    def close(self) -> dict[str, float]:
        """The seconds of all parts until now."""
        self._turn()
        return self.seconds


def wrap(clock: Clock, part: str, name: str) -> None:
    """Time a function, or a method of a class, if there is one of this name."""
    module, _, path = name.partition(":")
    *owners, last = path.split(".")
    try:
        owner: Any = importlib.import_module(module)
        for each in owners:
            owner = getattr(owner, each)
        found = getattr(owner, last)
    except (ImportError, AttributeError):
        return
    setattr(owner, last, clock.within(part, found))


def time_imports(clock: Clock) -> None:
    """Count every import from now on as start-up; one of what is there already costs a look-up."""
    slow, loaded = clock.within(START, builtins.__import__), builtins.__import__

    def imported(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        known = level == 0 and not fromlist and name in sys.modules
        return (loaded if known else slow)(name, globals, locals, fromlist, level)

    builtins.__import__ = imported
    importlib.import_module = clock.within(START, importlib.import_module)


def peak_bytes() -> int:
    """Most memory that the process had; on Linux without that of the process which started it."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak


def run(job: dict[str, Any]) -> None:
    """A run of a scenario, or a sweep of it, with its rows on disk."""
    import p2p_sim

    scenario = p2p_sim.Scenario.from_tree(job["scenario"], Path(job["folder"]))
    if job["axes"]:
        p2p_sim.sweep(scenario, job["axes"], out=job["out"])
    else:
        p2p_sim.run_all(scenario, out=job["out"])


def main(job_file: str, result_file: str) -> None:
    """Run the job of a file and write down what it took."""
    job, clock = json.loads(Path(job_file).read_text(encoding="utf-8")), Clock()
    importlib.import_module("p2p_sim.replicate.run")
    for part, names in NAMES.items():
        for name in names:
            wrap(clock, part, name)
    time_imports(clock)
    clock.within(REST, run)(job)
    found = {"seconds": clock.close(), "peak_bytes": peak_bytes()}
    Path(result_file).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
