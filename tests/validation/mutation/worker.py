"""Run some tests in a forked process, with one module changed or with coverage; what they import is loaded already."""

import contextlib
import importlib
import importlib.machinery
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.validation.mutation import PACKAGES, ROOT

LOADED = [
    "coverage",
    "dp_accounting.pld.privacy_loss_distribution",
    "hypothesis",
    "jinja2",
    "matplotlib.pyplot",
    "mpmath",
    "networkx",
    "numpy",
    "pandas",
    "pyarrow.parquet",
    "pydantic",
    "rich.table",
    "scipy.optimize",
    "scipy.sparse.csgraph",
    "scipy.special",
    "scipy.stats",
    "simpy",
    "sklearn.cluster",
    "sklearn.datasets",
    "sklearn.linear_model",
    "threadpoolctl",
    "typer.testing",
]
"""What tests import besides the project."""
BROKEN = 70
"""Exit status of a run that did not even fail."""
MEMORY = 12 << 30
"""Bytes of address space of a process, beyond which it fails."""


LATE = (signal.SIGPROF, signal.SIGALRM)


@dataclass(frozen=True)
class Outcome:
    """What became of a run of tests.

    result: "passed", "failed" (a test or an import failed), "late" (a test was not done in time) or "crashed".
    test: the first that failed, was late or crashed.
    seconds: of the processor, the run's own.
    """

    result: str
    test: str
    seconds: float


def preload() -> None:
    """Import once what every run needs. The project itself is imported anew in each."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("MPLBACKEND", "agg")
    for name in LOADED:
        importlib.import_module(name)
    assert not any(name.split(".")[0] == "p2p_sim" for name in sys.modules)


def run(tests: list[str], limits: dict[str, float], module: str = "", code: str = "") -> Outcome:
    """Run tests in the order given until the first fails.

    Args:
        tests: node ids.
        limits: seconds of the processor allowed to each, by node id.
        module, code: the file below `ROOT` that is read as `code`.
    """

    def work(log: Path) -> int:
        for name in [name for name in sys.modules if name.split(".")[0] in ("p2p_sim", "analysis", "tests")]:
            del sys.modules[name]  # who judges inside of a test run has imported them
        if code:
            _replace(str(ROOT / module), code)
        return int(pytest.main([*OPTIONS, "-x", *tests], plugins=[Clock(log, limits)]))

    return outcome(*forked(work), changed=bool(code))


def outcome(status: int, lines: list[str], seconds: float, changed: bool) -> Outcome:
    """What a forked run's status and log say."""
    last = json.loads(lines[-1])["test"] if lines else ""
    if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status) == BROKEN:
        raise RuntimeError("a run broke off by itself: see standard error")
    if os.WIFSIGNALED(status):
        return Outcome("late" if os.WTERMSIG(status) in LATE else "crashed", last, seconds)
    failed = next((line["test"] for line in map(json.loads, lines) if line.get("failed")), None)
    if failed is not None:
        return Outcome("failed", failed, seconds)
    if os.WEXITSTATUS(status) == 0:
        return Outcome("passed", "", seconds)
    return Outcome("failed" if changed else "crashed", "import", seconds)


def measure(target: str) -> dict[str, Any]:
    """What the tests of a file that pass take, and the lines of `PACKAGES` that they run.

    tests: {test: {seconds, lines, uses}}, without the fixtures of a wider scope, which `uses` names.
    fixtures: {fixture: {seconds, lines}}. outside: the lines that ran in no test, as the files were imported.
    """

    def work(log: Path) -> int:
        import coverage

        cover = coverage.Coverage(data_file=None, include=[f"{ROOT}/{p}/*" for p in PACKAGES], config_file=False)
        clock = Clock(log, {}, cover.switch_context)
        cover.start()
        status = int(pytest.main([*OPTIONS, target], plugins=[clock]))
        cover.stop()
        data = cover.get_data()
        lines: dict[str, dict[str, list[int]]] = {}
        for path in sorted(data.measured_files()):
            for line, contexts in data.contexts_by_lineno(path).items():
                for test in contexts:
                    lines.setdefault(test, {}).setdefault(os.path.relpath(path, ROOT), []).append(line)
        clock.say(lines=lines)
        return status

    _, raw, _ = forked(work)
    said = [json.loads(line) for line in raw]
    bad = {line["test"] for line in said if line.get("failed")}
    lines = next((line["lines"] for line in said if "lines" in line), {})
    found: dict[str, Any] = {"tests": {}, "fixtures": {}, "outside": lines.get("", {})}
    for line in said:
        for kind, name in (("tests", line.get("test")), ("fixtures", line.get("fixture"))):
            if name and "seconds" in line and name not in bad:
                uses = {"uses": line["uses"]} if kind == "tests" else {}
                found[kind][name] = {"seconds": line["seconds"], "lines": lines.get(name, {})} | uses
    return found


OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:cov", "-p", "no:xdist", "--hypothesis-seed=0"]
OPTIONS += ["--doctest-modules", "--assert=plain"]
"""Plain assertions: pytest would read a module named for its doctests by a loader of its own, past `_replace`."""


class Clock:
    """A plugin that writes down each test as it starts, fails and ends, and has late ones killed."""

    def __init__(self, log: Path, limits: dict[str, float], starting: Callable[[str], None] | None = None) -> None:
        self._log, self._limits, self._starting = log, limits, starting
        self._running, self._shared = "", 0.0

    def say(self, **what: Any) -> None:
        """One line, whole and at once."""
        with self._log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(what) + "\n")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Around one test, its fixtures included."""
        self.say(test=item.nodeid)
        if self._starting:
            self._switch(item.nodeid)
        self._allow(self._limits.get(item.nodeid, 0.0))
        start, self._shared = time.process_time(), 0.0
        yield
        self._allow(0.0)
        if self._starting:
            self._switch("")
            seconds = time.process_time() - start - self._shared
            self.say(test=item.nodeid, seconds=round(seconds, 4), uses=sorted(_wide_fixtures(item)))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        """Around what several tests share: all of them run its lines, whichever of them comes first."""
        if not self._starting or fixturedef.scope == "function":
            yield
            return
        before, name, start = self._running, _fixture_name(fixturedef, request.param_index), time.process_time()
        self._switch(name)
        yield
        self._switch(before)
        seconds = time.process_time() - start
        self._shared += seconds
        self.say(fixture=name, seconds=round(seconds, 4))

    def _switch(self, context: str) -> None:
        """Tell the measurement whose lines run from now on."""
        assert self._starting
        self._running = context
        self._starting(context)

    def _allow(self, seconds: float) -> None:
        """Have the process killed when it has used so many seconds, or waited thirty times as long; 0 for no limit."""
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, 30.0 * seconds)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A failure, and for the measurement what was skipped."""
        if report.failed or (report.skipped and self._starting):
            self.say(test=report.nodeid, failed=True)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that could not be imported."""
        if report.failed:
            self.say(test=report.nodeid, failed=True)


def _fixture_name(fixturedef: Any, parameter: int) -> str:
    return f"{fixturedef.baseid}::{fixturedef.argname}[{parameter}]"


def _wide_fixtures(item: Any) -> set[str]:
    """The fixtures of a test that it may share with others."""
    indices = item.callspec.indices if hasattr(item, "callspec") else {}
    found = item._fixtureinfo.name2fixturedefs
    used = [(name, found[name][-1]) for name in item.fixturenames if name in found]
    return {_fixture_name(fixture, indices.get(name, 0)) for name, fixture in used if fixture.scope != "function"}


def _replace(path: str, code: str) -> None:
    """Have the module at a path read as other code, whenever it is imported."""
    loader: Any = importlib.machinery.SourceFileLoader
    usual = loader.get_code

    def get_code(self: Any, name: str) -> Any:
        return compile(code, path, "exec") if os.path.realpath(self.path) == path else usual(self, name)

    loader.get_code = get_code


def forked(work: Callable[[Path], int]) -> tuple[int, list[str], float]:
    """Status, log and processor seconds of work done in a process and session of its own, silent, with a new place."""
    place = Path(tempfile.mkdtemp(prefix="mutant-"))
    log, before = place / "log", resource.getrusage(resource.RUSAGE_CHILDREN)
    pid = os.fork()
    if pid == 0:
        status = BROKEN
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            for late in LATE:
                signal.signal(late, signal.SIG_DFL)
            sink = os.open(place / "output", os.O_WRONLY | os.O_CREAT)
            own = os.dup(2)
            os.dup2(sink, 1), os.dup2(sink, 2)
            os.environ["TMPDIR"] = str(place)
            tempfile.tempdir = None
            os.chdir(ROOT)
            status = work(log)
        except Exception:
            os.write(own, traceback.format_exc().encode())
        finally:
            os._exit(status)
    try:
        _, status = os.waitpid(pid, 0)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # the child, if this process was stopped; processes that a test left behind
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    shutil.rmtree(place, ignore_errors=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return status, lines, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
