"""Fuzzing at reduced size, and what it must catch."""

import contextlib
import datetime
import json
import pickle
import random
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

from p2p_sim.base.errors import InputError, RunFailed
from tests.conftest import ROOT
from tests.fuzz import planted
from tests.fuzz.harness import Target, attempt, fuzz, fuzz_apart, unchanged
from tests.fuzz.readers import Trap
from tests.fuzz.strategies import ODD, document, toml, tweaked
from tests.fuzz.targets import TARGETS


def test_four_hundred_inputs_find_no_fault(tmp_path):
    tallies = fuzz(TARGETS, 400, 1, tmp_path)
    assert [fault for tally in tallies.values() for fault in tally.faults] == []
    assert sum(tally.inputs for tally in tallies.values()) >= 390
    assert list(tmp_path.iterdir()) == []
    for name in ("scenario", "override", "sweep", "results", "csv", "edges"):  # neither all sound nor all refused
        assert min(tallies[name].taken, tallies[name].refused) > 0


def test_an_input_can_be_made_again(tmp_path):
    seen = []
    target = Target("numbers", lambda rng, folder: seen.append(rng.random()), 1.0)
    fuzz([target], 5, 3, tmp_path)
    fuzz([target], 5, 3, tmp_path, number=4)
    assert seen[4] == seen[5]
    assert len(set(seen)) == 5


# what the harness must catch


def lets_a_key_error_through(rng: random.Random, folder: Path) -> None:
    if rng.random() < 0.1:
        {}["missing"]


def leaves_half_a_file(rng: random.Random, folder: Path) -> None:
    (folder / ".rows.partial.jsonl").write_text("{")


def hangs(rng: random.Random, folder: Path) -> None:
    while True:
        with contextlib.suppress(Exception):
            time.sleep(0.01)


def counts(rng: random.Random, folder: Path) -> None:
    while True:
        with contextlib.suppress(Exception):
            sum(range(1000))


def says_it_in_two_lines(rng: random.Random, folder: Path) -> None:
    error = InputError("")
    error.args = ("one\ntwo",)
    raise error


def warns(rng: random.Random, folder: Path) -> None:
    np.log(np.zeros(1))


@pytest.mark.parametrize(
    ("mistake", "what"),
    [
        (lets_a_key_error_through, "KeyError at test_fuzz.py"),
        (leaves_half_a_file, "left .rows.partial.jsonl"),
        (hangs, "took more than 0.2 s"),
        (counts, "took more than 0.2 s"),
        (says_it_in_two_lines, "a message of several lines"),
        (warns, "RuntimeWarning"),
    ],
)
def test_a_planted_fault_is_caught(tmp_path, monkeypatch, mistake, what):
    monkeypatch.setattr("tests.fuzz.harness.PATIENCE", 3.0)
    tally = fuzz([Target("planted", mistake, 1.0, limit_s=0.2)], 100 if "key" in mistake.__name__ else 2, 1, tmp_path)
    faults = tally["planted"].faults
    assert faults
    assert what in faults[0].what


def test_a_reader_that_writes_is_caught(tmp_path):
    def writes(rng: random.Random, folder: Path) -> None:
        with unchanged(folder):
            (folder / "new").touch()

    outcome = attempt(Target("planted", writes, 1.0), 1, 0, tmp_path)
    assert "a reader changed new" in str(outcome.fault)


def test_an_input_that_breaks_its_process_spoils_none_after_it(tmp_path):
    target = Target("planted", planted.breaks_its_process, 1.0, limit_s=2.0)
    tally = fuzz_apart(target, 1, range(8), tmp_path, 4 * 10**8)
    assert [(fault.number, fault.what.split(" at ")[0].split(", in")[0]) for fault in tally.faults] == [
        (1, "MemoryError"), (3, "its process ended with status -9"), (5, "took more than 2 s"),
    ]  # fmt: skip
    assert (tally.inputs, tally.taken, tally.refused) == (8, 4, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_loses_all_its_processes_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.fuzz.harness.MOST_LOST", 2)
    tally = fuzz_apart(Target("planted", planted.loses_its_process, 1.0), 1, range(8), tmp_path)
    assert [fault.number for fault in tally.faults] == [0, 1, 2]
    assert "nor any later one" in tally.faults[-1].what


def says_it_has_no_memory(rng: random.Random, folder: Path) -> None:
    raise RunFailed("p2p-sim: not enough memory: Unable to allocate 7.28 TiB")


def test_a_refusal_for_want_of_memory_is_a_fault(tmp_path):
    outcome = attempt(Target("planted", says_it_has_no_memory, 1.0), 1, 0, tmp_path)
    assert outcome.spent
    assert "not enough memory" in str(outcome.fault)


def test_an_odd_number_of_any_size_is_tweaked():
    rng = random.Random(1)
    for value in (10**400, -(10**400), float("nan"), 10**299, 3, 0.5):
        for _ in range(200):
            tweaked(rng, value)


def test_an_unpickled_trap_would_be_noticed():
    with pytest.raises(AssertionError, match="has run code"):
        pickle.loads(pickle.dumps(Trap()))


def test_toml_is_written_as_it_is_read():
    tree = {"a": 1, "b": [1.5, True, "x\n"], "c": {"d e": datetime.date(2000, 1, 1)}, "f": float("inf")}
    assert tomllib.loads(document(tree)) == tree
    assert all(isinstance(toml(value), str) for value in ODD)


def test_the_guide_says_how_the_published_run_ended():
    found = json.loads((ROOT / "results" / "published" / "fuzz" / "summary.json").read_text())
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert f"{found['inputs']:,} inputs" in text
    assert found["faults"] == 0
    gone = found["targets"].pop("releases")
    assert f"{gone['inputs']:,} of them are files of a command that is gone" in text
    assert set(found["targets"]) == {target.name for target in TARGETS}
