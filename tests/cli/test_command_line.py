"""The face of the command line: every command has an example that works, and shells complete what is typed."""

import glob
import os
import re
import shlex
import subprocess
import sys
import warnings

import pytest
import typer

from p2p_sim.audit import small_exchange_attack as audit
from p2p_sim.cli.main import app, main
from p2p_sim.exchange.engines import EngineName
from p2p_sim.privacy import bound as statements
from p2p_sim.privacy import claims
from p2p_sim.privacy.claims import paper_against_exact
from p2p_sim.privacy.claims.paper_against_exact import bounds_table
from p2p_sim.results import plots
from tests.conftest import ROOT
from tests.written_sweeps import AXES, write_sweep

COMMANDS = typer.main.get_command(app).commands
FASTER = {
    "explore": ["--no-open"],
    "run": ["--set", "replicates=1", "--engine", "vectorised"],
    "sweep": ["--dry-run"],
    "audit": ["--trials", "2000"],
    "tune": ["--trials", "3", "--set", "replicates=1"],
}
"""What the tests add to an example so that it takes less time."""


def example(name: str) -> list[str]:
    [line] = re.findall(r"^\s*Example: (.*)$", COMMANDS[name].help, re.MULTILINE)
    return shlex.split(line)


def test_every_command_is_here():
    assert set(COMMANDS) == {
        "new", "run", "sweep", "plot", "compare", "report", "validate", "schema", "privacy", "calibrate", "certify",
        "audit", "network", "check-bounds", "scenarios", "data", "tune", "cite", "explore",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_example_of_every_command_works(name, monkeypatch, tmp_path, capsys):
    program, command, *arguments = example(name)
    assert (program, command) == ("p2p-sim", name)
    monkeypatch.chdir(tmp_path)
    for folder in ("scenarios", "examples"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    for directory in re.findall(r"results/[\w-]+", " ".join(arguments)):
        users = [{"keys": ["population.users"], "values": [[200], [400]]}]
        write_sweep(tmp_path / directory, AXES[:1] + users, 2)
    if name == "explore":  # what it serves is checked in tests/explorer/test_explore_browser.py
        (tmp_path / "results").mkdir()
        monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: print(sockets[0].getsockname()))
    if ">" in arguments:
        arguments = arguments[: arguments.index(">")]
    if name == "check-bounds":
        few = claims.all_claims()[:2]  # all of them are checked in tests/privacy/test_claims.py
        monkeypatch.setattr(claims, "all_claims", lambda: few)
        monkeypatch.setattr(paper_against_exact, "bounds_table", lambda: bounds_table((100, 300), (1.0,)))
    expanded = [found for argument in arguments for found in (sorted(glob.glob(argument)) or [argument])]
    monkeypatch.setattr(sys, "argv", [program, command, *expanded, *FASTER.get(name, ())])
    with pytest.raises(SystemExit) as stop:
        main()
    shown = capsys.readouterr()
    assert not stop.value.code, shown.err
    assert (shown.out + shown.err).strip()


def completed(monkeypatch, capsys, words: str) -> list[str]:
    """What bash is offered for the last of some words, by typer's protocol."""
    monkeypatch.setattr(sys, "argv", ["p2p-sim"])
    monkeypatch.setenv("_P2P_SIM_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    with pytest.raises(SystemExit) as stop:
        main()
    shown = capsys.readouterr()
    assert (not stop.value.code, shown.err) == (True, "")
    return shown.out.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("p2p-sim ru", ["run"]),
        ("p2p-sim c", ["cite", "compare", "calibrate", "certify", "check-bounds"]),
        ("p2p-sim run --eng", ["--engine"]),
        ("p2p-sim run small.toml --engine ", list(EngineName.__args__)),
        ("p2p-sim privacy --observer ", list(statements.OBSERVERS)),
        ("p2p-sim privacy --observer learner-", ["learner-times"]),
        ("p2p-sim audit x.toml --observer c", ["coalition"]),
        ("p2p-sim plot results --format ", list(plots.FORMATS)),
        ("p2p-sim sweep x.toml --split s", ["shards"]),
        ("p2p-sim run scen", []),  # nothing of ours: the shell offers files
        ("p2p-sim report res", []),
    ],
)
def test_shells_are_offered_commands_options_and_values(monkeypatch, capsys, words, offered):
    assert sorted(completed(monkeypatch, capsys, words)) == sorted(offered)


def test_bash_completes_commands_and_files(tmp_path):
    """The script that typer writes, in a shell of its own: functions for commands, bash's default for files."""
    (tmp_path / "p2p-sim").write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -c "from p2p_sim.cli.main import main; main()" "$@"\n'
    )
    (tmp_path / "p2p-sim").chmod(0o755)
    setting = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    code = "import sys; sys.argv = ['p2p-sim']; from p2p_sim.cli.main import main; main()"
    script = subprocess.run(
        [sys.executable, "-c", code],
        env={**setting, "_P2P_SIM_COMPLETE": "source_bash"},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "complete -o default" in script
    [function] = re.findall(r"-F (\w+) p2p-sim", script)
    tried = f'{script}\nCOMP_WORDS=(p2p-sim ru); COMP_CWORD=1; {function} p2p-sim; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", tried], env=setting, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("run", "")


def test_completed_observers_of_an_audit_are_those_it_knows():
    for name in ("learner", "coalition"):
        audit._colluders(name, None)


def test_a_warning_is_one_line_of_ours(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["p2p-sim", "schema"])
    monkeypatch.setattr("json.dumps", lambda *_, **__: warnings.warn("careful", stacklevel=1))
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err == "p2p-sim: warning: careful\n"
