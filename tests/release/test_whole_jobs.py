"""Whole jobs, their parts and the C++ anchor run, and do what they say; no test looks at how fast."""

import math
import time

import pytest

from benchmarks import __main__ as bench
from benchmarks import anchor, page, whole_jobs
from benchmarks.event_engine import MECHANISM, clean, lossy, population
from benchmarks.job import NAMES, PARTS, REST, START, Clock, wrap
from benchmarks.processes import ROOT, CheckoutError, Job, JobError, checkout_of, measured
from benchmarks.table import FASTER, Row
from p2p_sim.base.streams import Streams

WORK = PARTS[1:]
USERS = 20_000
SIGMAS = 6.2
"""False alarms of a two-sided normal test: below 1e-9."""


def busy(spent_s: float) -> None:
    """Use so much processor time."""
    end = time.process_time() + spent_s
    while time.process_time() < end:
        pass


def test_parts_within_parts_add_up():
    before, clock = time.process_time(), Clock()
    clock.within("learning", lambda: busy(0.1))()  # the clock begins with the process: what was before is start-up
    inner = clock.within("users", lambda: busy(0.06))

    def outer() -> None:
        busy(0.1)
        inner()
        inner()

    clock.within("exchange", outer)()
    found = clock.close()
    assert sum(found.values()) == pytest.approx(time.process_time(), rel=0.05)
    assert found["users"] == pytest.approx(0.12, rel=0.05)
    assert found["exchange"] == pytest.approx(0.1, rel=0.05)
    assert found[START] == pytest.approx(before, abs=0.02)


def test_a_part_that_fails_stops_its_clock():
    clock = Clock()

    def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        clock.within("learning", fails)()
    busy(0.02)
    found = clock.close()
    assert found["learning"] < 0.01
    assert sum(found.values()) == pytest.approx(time.process_time(), rel=0.05)


class Noting:
    """A clock that notes what is to be timed, and changes nothing."""

    def __init__(self) -> None:
        self.parts = set()

    def within(self, part, action):
        self.parts.add(part)
        return action


def test_every_part_has_a_function_today():
    clock = Noting()
    for part, names in NAMES.items():
        for name in names:
            wrap(clock, part, name)
    assert clock.parts == set(WORK) - {REST}


@pytest.mark.slow
def test_a_whole_job_is_split_into_its_parts():
    found = measured(Job(whole_jobs.synthetic(200, 100)))
    assert set(found.seconds) == set(PARTS)
    assert all(found.seconds[part] > 0.0 for part in WORK if part != "clustering")  # the law's own clusters
    assert sum(found.seconds.values()) == pytest.approx(found.total, rel=0.05)
    assert 0.0 <= found.exit_s < found.seconds[START]
    assert found.without_start == pytest.approx(sum(found.seconds[part] for part in WORK), rel=0.05, abs=0.02)
    assert 3e7 < found.peak_bytes < 3e9


@pytest.mark.slow
def test_a_job_that_fails_says_why():
    with pytest.raises(JobError, match="users"):
        measured(Job(whole_jobs.synthetic(0, 1)))


@pytest.mark.slow
def test_an_older_checkout_runs_beside_todays():
    rows = list(whole_jobs.rows(small=True, against=str(ROOT)))
    names = {name for name, _ in whole_jobs.jobs(small=True)}
    assert {row.name for row in rows} == names
    for name in names:
        settings = {row.setting for row in rows if row.name == name}
        assert {f"{part}{label}" for part in PARTS for label in ("", whole_jobs.BEFORE)} <= settings
        ratios = [row for row in rows if row.name == name and row.unit == FASTER and row.setting == whole_jobs.ALL]
        assert [0.2 < row.median < 5.0 for row in ratios] == [True]
    assert any(row.setting == f"accounting{whole_jobs.KEPT}" and row.unit == FASTER for row in rows)


def test_an_unknown_commit_is_refused(tmp_path, capsys):
    with pytest.raises(CheckoutError, match="neither a directory nor a commit"), checkout_of("no-such-commit"):
        pass
    with pytest.raises(CheckoutError, match="has no p2p_sim"), checkout_of(str(tmp_path)):
        pass
    with pytest.raises(SystemExit, match="2"):
        bench.main(["--only", "accountant", "--against", "HEAD"])
    assert "--against is for whole_jobs" in capsys.readouterr().err


def test_jobs_and_the_slowest_setting_are_shown():
    rows = [
        Row.of(whole_jobs.NAME, "a job", f"{setting}{label}", unit, value)
        for label in ("", whole_jobs.KEPT, whole_jobs.BEFORE)
        for setting, unit, value in (
            (whole_jobs.ALL, whole_jobs.SECONDS, 9.0),
            *((part, whole_jobs.SECONDS, 1.5) for part in PARTS),
            (whole_jobs.PEAK, whole_jobs.MEGABYTES, 250.0),
        )
    ]
    lines = page.jobs(rows).splitlines()
    assert lines[0] == f"| whole job, CPU s | all | {' | '.join(PARTS)} | peak MB |"
    assert [line.split(" | ")[0] for line in lines[2:4]] == ["| a job", f"| a job{whole_jobs.KEPT}"]
    assert lines[2] == f"| a job | 9.00 | {' | '.join(['1.50'] * len(PARTS))} | 250 |"
    timed = [Row.of("accountant", "ε over all data sets", f"n = {n}", "ms", ms) for n, ms in ((5, 3.0), (7, 40.0))]
    assert "3.00 to 40.0 (slowest setting: n = 7)" in page.summary(rows + timed)
    assert page.jobs(timed) == ""


@pytest.fixture(scope="module")
def program():
    """The C++ program."""
    if (found := anchor.compiler()) is None:
        pytest.skip("no C++ compiler")
    with anchor.compiled(found) as run:
        yield run


def ours(loss: float) -> tuple[int, int, int]:
    """Events, submissions and ones of our event engine."""
    network = lossy(anchor.WINDOW_S, loss=loss) if loss else clean(anchor.WINDOW_S)
    outcome = MECHANISM.run(population(USERS, anchor.CLUSTER_SIZE), network, Streams(3, 0))
    assert outcome.traffic is not None
    labels = outcome.labels
    return outcome.traffic.protocol_events, len(labels.user), int(labels.payload.sum())


def deviations(counted: tuple[int, int, int], other: anchor.Counted, loop: anchor.Counted) -> list[float]:
    """By how many standard deviations two runs differ in events, submissions and ones.

    A user's events do not depend on other users', and neither do submissions. A noisy label is one with probability
    0.1 and is submitted by F users, E F² at most 2: the variance of the ones is at most 0.2 for each user.
    """
    mean, share = loop.events / USERS, loop.submissions / USERS
    variances = (loop.squares / USERS - mean**2, share * (1.0 - share), 0.2)
    pairs = zip(counted, (other.events, other.submissions, other.ones), variances, strict=True)
    return [abs(a - b) / math.sqrt(2.0 * USERS * v) if a != b else 0.0 for a, b, v in pairs]


@pytest.mark.parametrize("loss", [0.0, 0.01, 0.3])
def test_cpp_counts_what_the_event_engine_counts(program, loss):
    counted, loop = ours(loss), program("loop", USERS, loss, 5)
    assert max(deviations(counted, loop, loop)) < SIGMAS
    assert max(deviations(counted, program("heap", USERS, loss, 6), loop)) < SIGMAS


def test_another_loss_is_told_apart(program):
    loop = program("loop", USERS, 0.3, 5)
    assert min(deviations(ours(0.35), loop, loop)[:2]) > SIGMAS


def test_without_a_compiler_the_anchor_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(anchor.shutil, "which", lambda name: None)
    assert list(anchor.rows(small=True)) == []
    assert capsys.readouterr().out == "the C++ anchor is left out: none of g++, c++, clang++ is found\n"
