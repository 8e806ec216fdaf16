"""What a stranger meets on the first day: help, refusals in one line, nothing left behind, tables that can be read."""

import io
import json
import re

import pytest
import typer
from rich.console import Console

import p2p_sim
from p2p_sim.base import progress as bars
from p2p_sim.base.errors import InputError, RunFailed
from p2p_sim.base.plugins import DEBUG
from p2p_sim.cli.main import app
from p2p_sim.cli.printing import numbers
from p2p_sim.cli.printing.sweep_progress import progress
from p2p_sim.privacy import Coalition, LabelExchange
from p2p_sim.replicate import replicate as replicates
from p2p_sim.replicate import streamed
from p2p_sim.sweeps.run_sweep import Progress
from p2p_sim.sweeps.session import Interrupted
from tests.commands import command

SMALL = """
name = "small"
replicates = 3
[population]
kind = "synthetic"
users = 200
num_clusters = 2
[mechanism]
flip_prob = 0.1
sampling_rate = 0.5
"""
SWEEP = """
name = "two"
base = "small.toml"
[[axes]]
key = "mechanism.flip_prob"
values = [0.1, 0.2]
"""
COMMANDS = typer.main.get_command(app).commands
TARGET = ("--cluster-size", "50", "--epsilon", "0.5", "--delta", "1e-6")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory with a scenario and a sweep, and the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "two.toml").write_text(SWEEP)
    return tmp_path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# -- help ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_fits_names_every_default_and_has_examples_to_paste(monkeypatch, name, width):
    monkeypatch.setenv("COLUMNS", str(width))
    status, out, err = command(*([name] if name else []), "--help")
    assert (status, err) == (0, "")
    assert max(map(len, out.splitlines())) <= width
    assert not re.search(r"<bool|[{}─│]|\w \.$|\.\.\.\.", out, re.MULTILINE)
    text = " ".join(out.split())
    for parameter in COMMANDS[name].params if name else ():
        assert " ".join(parameter.help.split()).replace("- ", "-") in text.replace("- ", "-")
    if name:
        example = re.search(r"^Example:\n((?:  .*\n)+)", out, re.MULTILINE)[1]
        whole = " ".join(line.strip().removesuffix(" \\") for line in example.splitlines())
        assert f"Example: {whole}" in " ".join(COMMANDS[name].help.split())
        assert all(line.endswith(" \\") for line in example.splitlines()[:-1])
    else:
        assert "..." not in out.split("Commands:")[1]


def test_every_command_can_be_quiet():
    assert [name for name, found in COMMANDS.items() if not any("--quiet" in p.opts for p in found.params)] == []


def test_a_quiet_run_prints_its_files_alone(here):
    arguments = ("--set", 'network.overlay={kind="regular", degree=2}', "--set", "replicates=1", "--out", "out")
    status, out, err = command("run", "small.toml", "--quiet", *arguments)
    assert (status, err) == (0, "")
    assert all((here / line).is_file() for line in out.splitlines())
    status, out, err = command("sweep", "two.toml", "-q", "--set", "replicates=1", "--workers", 1)
    assert (status, err) == (0, "")
    assert all((here / line).is_file() for line in out.splitlines())


def test_quiet_means_no_warnings(here):
    alone = ("network", "small.toml", "--set", 'network.overlay={kind="geometric", radius=1e-9}', "--out", "n")
    assert "warning: network.overlay" in command(*alone)[2]
    assert command(*alone, "--quiet")[2] == ""


# -- what goes into a file, onto a terminal -------------------------------------------------------------------------


def test_tables_in_files_have_no_boxes_and_terminals_no_long_lines(here, monkeypatch):
    for arguments in (("run", "small.toml", "--set", "replicates=1"), ("privacy", *TARGET[:2], "--flip-prob", "0.1",
                      "--delta", "1e-6"), ("sweep", "two.toml", "--dry-run")):  # fmt: skip
        monkeypatch.delenv("FORCE_COLOR", raising=False)
        status, out, err = command(*arguments)
        assert status == 0
        assert not re.search("[│┌─]", out + err)
        assert not re.search(r" $", out + err, re.MULTILINE)
        monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
        monkeypatch.setenv("COLUMNS", "80")
        status, out, err = command(*arguments)
        assert "│" in out + err
        monkeypatch.setenv("NO_COLOR", "1")
        status, out, err = command(*arguments)
        assert "\x1b" not in out
        monkeypatch.delenv("NO_COLOR")
        assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in out.splitlines() or [""]) <= 80


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "small.toml", "--set", "replicates=1", "--set", 'clusters={kind="given", min_size=9}'),
        ("privacy", *TARGET[:2], "--flip-prob", "0.1", "--delta", "1e-6"),
        ("scenarios",),
    ],
    ids=lambda arguments: arguments[0],
)
def test_lines_in_files_have_at_most_100_columns_and_break_no_word(here, monkeypatch, arguments):
    monkeypatch.setenv("COLUMNS", "300")  # of the terminal behind the pipe
    status, out, _ = command(*arguments)
    assert status == 0
    assert [line for line in out.splitlines() if len(line) > 100 and " " in line.strip()] == []
    monkeypatch.setattr(numbers, "PIPED", 10_000)
    unlimited = command(*arguments)[1]
    assert set(out.split()) == set(unlimited.split())
    assert max(map(len, unlimited.splitlines())) > 100  # the control


def test_a_running_sweep_keeps_its_count_at_80_columns(monkeypatch):
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, force_interactive=True, width=80, color_system=None)
    monkeypatch.setattr(bars, "console", lambda stderr=False: terminal)
    with progress("a-sweep-with-a-rather-long-name", 1_200_000) as report:
        report(Progress(1_200, 1_200_000, 345_678, failed=3, task_s=0.123, workers=2))
    lines = re.split(r"[\r\n]", shown.getvalue())
    assert any(" 0 of 1,200,000 " in line for line in lines)  # before the first replicate is done
    assert any("345,681 of 1,200,000" in line for line in lines)
    assert any("3 failed" in line for line in lines)


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("calibrate", *TARGET), "--sampling-rate: is missing, and the learner's ε depends on it; give θ"),
        (("calibrate", *TARGET, "--sampling-rate", "0.5", "--observer", "coalition"), "coalition: needs --members"),
        (("calibrate", *TARGET, "--observer", "pear"), "--observer pear: must be one of"),
        (("privacy", *TARGET[:2], *TARGET[4:], "--flip-prob", ".1", "--observer", "coalition"), "needs --members"),
        (("sweep", "small.toml"), "small.toml: this is a scenario, not a sweep: p2p-sim run small.toml"),
        (("run", "two.toml"), "two.toml: this is a sweep, not a scenario: p2p-sim sweep two.toml"),
        (("run", "small.toml", "--set", "population.users=2000000000"), "population.users = 2000000000: a replicate"),
        (("sweep", "two.toml", "--set", "population.users=2000000000", "-q"), "population.users = 2000000000"),
        (("run", "small.toml", "--set", 'clusters={kind="given", min_size=300}'), "clusters.min_size = 300"),
        (("sweep", "two.toml", "--set", 'clusters={kind="given", min_size=300}', "-q"), "clusters.min_size = 300"),
        (("network", "small.toml", "--set", 'clusters={kind="given", min_size=300}'), "clusters.min_size = 300"),
    ],
)  # fmt: skip
def test_what_is_refused_is_one_line_and_leaves_nothing(here, monkeypatch, arguments, message):
    monkeypatch.setattr(replicates, "free_memory", lambda: 8 * 10**9)
    if arguments[0] in ("run", "sweep"):
        arguments = (*arguments, "--workers", "1")
    status, out, err = command(*arguments)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert message in err
    left = [path for path in here.rglob("*") if path.name not in ("small.toml", "two.toml")]
    tried = arguments[0] == "sweep" and "small.toml" not in arguments  # each replicate, until the last had failed
    assert [path.name for path in sorted(left)][2:] == (["failures.jsonl"] if tried else [])
    assert bool(left) == tried


WRONG = """
name = "bad name"
replicates = 0
[population]
kind = "synthetic"
users = 1
colour = 3
[mechanism]
flip_prob = "a"
sampling_rat = 0.5
"""


def test_validate_lists_every_mistake_in_a_line_of_its_own(here):
    (here / "wrong.toml").write_text(WRONG)
    (here / "sweep.toml").write_text(SWEEP.replace("small", "wrong"))
    status, out, err = command("validate", "wrong.toml", "small.toml")
    keys = [re.match(r"wrong\.toml: ([a-z_.]+)", line)[1] for line in err.splitlines()]
    assert keys == ["name", "replicates", "population.users", "population.colour", "mechanism.flip_prob",
                    "mechanism.sampling_rat"]  # fmt: skip
    assert (status, out.split(",")[0]) == (2, "small.toml: ok")
    assert len(command("validate", "sweep.toml")[2].splitlines()) == len(keys)
    [line] = command("run", "wrong.toml")[2].splitlines()
    assert line.endswith("(and 5 more)")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "d"), "d: is a directory, not a file; name a file in it"),
        (("validate", "d"), "d: is a directory, not a file; name a file in it"),
        (("new", "mine", "--data", "d", "--label", "y"), "--data d: is a directory, not a file"),
        (("run", "small.toml", "--set", 'population={kind="table", path="d", label="y"}'), "'d': is a directory"),
        (("run", "small.toml", "--data-dir", "small.toml"), "--data-dir small.toml: is a file, not a directory"),
        (("plot", "small.toml"), "small.toml: holds no results of p2p-sim (is a file, not a directory)"),
        (("report", "none"), "none: holds no results of p2p-sim (there is no such directory)"),
        (("network", "small.toml", "--out", "small.toml"), "small.toml is a file, not a directory"),
        (("check-bounds", "--figure", "d.png"), "--figure d.png: is a directory, not a file"),
    ],
)
def test_a_directory_is_called_a_directory_and_a_file_a_file(here, arguments, message):
    (here / "d").mkdir()
    (here / "d.png").mkdir()
    status, out, err = command(*arguments)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert message in err


def test_one_is_singular(here):
    single = ("--set", "replicates=1", "--set", "population.num_clusters=1")
    assert command("run", "small.toml", *single)[1].startswith("small: 1 replicate,")
    assert re.search(r"200 users in 1 cluster$", command("network", "small.toml", *single)[1], re.MULTILINE)
    (here / "two.toml").write_text(SWEEP.replace("[0.1, 0.2]", "[0.1]"))
    assert "ok, a sweep of 1 point\n" in command("validate", "two.toml")[1]
    status, out, err = command("sweep", "two.toml", *single, "--workers", 1)
    assert (status, "two: 1 row of 1 point\n" in out, "two: a sweep of 1 point\n" in err) == (0, True, True)


def test_calibration_names_the_sampling_rate():
    status, out, _ = command("calibrate", *TARGET, "--sampling-rate", "0.5")
    assert status == 0
    assert re.search(r"sampling rate θ +0\.5$", out, re.MULTILINE)


@pytest.mark.parametrize("observer", ["learner-times", "peer", "coalition", "eavesdropper"])
def test_calibration_is_the_smallest_for_every_observer(observer):
    more = ("--members", "3", "--sampling-rate", "0.5") if observer == "coalition" else ()
    status, out, err = command("calibrate", *TARGET[2:], "--cluster-size", 20, "--observer", observer, *more, "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert (found["observer"], found["epsilon_upper"] <= 0.5) == (observer, True)
    less = ("--cluster-size", 20, "--flip-prob", 0.985 * found["flip_prob"], "--epsilon", "0.5", "--json")
    _, out, _ = command("privacy", *less, "--observer", observer, *more)
    assert json.loads(out)["delta_upper"] > 1e-6


def test_the_quick_answer_of_a_coalition_changes_no_figure(monkeypatch):
    coalition = Coalition(LabelExchange(20, 0.2, 0.5), 3)
    for delta in (1e-6, 1e-2, 0.2):
        quick = coalition.epsilon(delta)
        monkeypatch.setattr(Coalition, "_met_exceeds", lambda *_: False)
        assert quick == coalition.epsilon(delta)
        assert coalition.satisfies(quick.epsilon_upper * (1 + 1e-6), delta)
        monkeypatch.undo()


def test_memory_is_estimated_from_the_machine_and_its_container(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   2000000 kB\n")
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("5\n")
    assert replicates.free_memory(tmp_path / "meminfo", tmp_path) == 2_048_000_000
    (tmp_path / "memory.max").write_text("1000000005\n")
    assert replicates.free_memory(tmp_path / "meminfo", tmp_path) == 1_000_000_000


def test_the_books_of_a_network_balance_and_retries_are_counted(here):
    rule = 'network={start_window_s=1.0, loss=0.4, request_timeout_s=0.3, on_timeout={retry="redraw", attempts=2}}'
    arguments = ("network", "small.toml", "--set", rule, "--out", "n")
    status, out, err = command(*arguments, "--json")
    assert (status, err) == (0, "")
    r = json.loads(out)
    became = [r[f"users_{what}"] for what in ("answered", "unanswered", "departed", "absent")]
    assert (sum(became), min(became[:2]) > 0, became[2:]) == (200, True, [0, 0])
    assert r["retries"] == r["fetches"] - 200 == r["expired"] - r["users_unanswered"] > 0
    _, out, _ = command(*arguments)
    assert f"{r['fetches']:,}, of which {r['retries']:,} retries" in out


# -- runs that stop --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 2])
def test_a_run_that_is_stopped_says_how_many_replicates_are_kept(here, monkeypatch, after):
    scenario, calls, real = p2p_sim.load_scenario("small.toml"), [], streamed.row_alone

    def stopped(*arguments):
        calls.append(arguments)
        if len(calls) > after:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(streamed, "row_alone", stopped)
    status, _, err = command("run", "small.toml", "--out", "a/b", "--workers", 1)
    assert status == 130
    kept = f"{after} of 3 replicates are finished and kept" if after else "none of 3 replicates is finished"
    assert f"interrupted; {kept}" in err
    assert (here / "a").exists() == (after > 0)
    with pytest.raises(Interrupted, match=f"interrupted; {kept}"):
        p2p_sim.run_all(scenario, "a/b")


def test_a_sweep_that_fails_says_how_many_replicates_are_kept(here, monkeypatch):
    def lost(self, batches, perform):
        yield perform(next(batches))
        raise RunFailed("the workers are gone")

    monkeypatch.setattr("p2p_sim.sweeps.tasks.Serial.run", lost)
    with pytest.raises(RunFailed, match=r"the workers are gone; 1 of 6 replicates are finished and kept"):
        p2p_sim.sweep(p2p_sim.load_scenario("small.toml"), {"mechanism.flip_prob": [0.1, 0.2]})


def test_what_was_there_before_stays(here):
    assert command("run", "small.toml", "--set", "replicates=1", "--out", "out")[0] == 0
    before = {path.name: path.read_bytes() for path in (here / "out").iterdir() if path.name != "manifest.json"}
    (here / "mine").mkdir()
    assert command("run", "small.toml", "--set", 'clusters={kind="given", min_size=300}', "--out", "mine")[0] == 2
    assert names(here / "mine") == []
    assert command("run", "small.toml", "--set", "seed=9", "--out", "out")[0] == 2
    assert {name: (here / "out" / name).read_bytes() for name in before} == before


# -- plug-ins --------------------------------------------------------------------------------------------------------


def test_a_plug_in_that_fails_is_named(here, installed, monkeypatch):
    import own_learner

    learner = ("--set", 'learner={kind="nearest_mean"}', "--out", "out", "--workers", 1)
    monkeypatch.setattr(own_learner, "NearestMean", lambda *_: 1 / 0)
    status, out, err = command("run", "small.toml", *learner)
    assert (status, out, len(err.splitlines())) == (1, "", 1)
    assert "plug-in own-mechanism 1.0: NearestMeanConfig.fit failed: ZeroDivisionError: division by zero" in err
    assert f"set {DEBUG}=1" in err
    assert not (here / "out").exists()
    base = p2p_sim.load_scenario("small.toml", [learner[1]])
    with pytest.raises(InputError, match=r"NearestMeanConfig\.fit failed: ZeroDivisionError"):
        p2p_sim.sweep(base, {"mechanism.flip_prob": [0.1]})
    monkeypatch.setenv(DEBUG, "1")
    with pytest.raises(ZeroDivisionError):
        command("run", "small.toml", *learner)
