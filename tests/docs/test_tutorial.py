"""The tutorial as a reader follows it: every command runs, and prints the lines that the page shows."""

import subprocess
from pathlib import Path

import pytest

from docs.make_tutorial_figure import PAGE, PLOT, prepare, run, steps

pytestmark = pytest.mark.figures


def follow(page: str, folder: Path) -> list[str]:
    """Lines that a page shows and its commands did not print."""
    missing = []
    for commands, shown in steps(page):
        printed = run(commands, folder)
        missing += [f"{line}\n--- of ---\n{printed}" for line in shown if line not in printed.splitlines()]
    return missing


@pytest.mark.slow
def test_every_command_runs_and_prints_what_the_page_shows(tmp_path):
    page = PAGE.read_text(encoding="utf-8")
    assert sum(len(shown) for _, shown in steps(page)) >= 12
    prepare(tmp_path)  # after `make run`, where the reader starts
    assert list(tmp_path.glob("results/quickstart-*/rows.parquet"))
    assert follow(page, tmp_path) == []
    assert (tmp_path / PLOT).stat().st_size > 10_000
    assert (tmp_path / "accuracy.png").stat().st_size > 10_000


def test_a_line_that_is_not_printed_and_a_command_that_fails_are_seen(tmp_path):
    [missing] = follow("```sh\necho one\n```\n\n```text\none\ntwo\n```\n", tmp_path)
    assert missing.startswith("two")
    with pytest.raises(subprocess.CalledProcessError):
        run("false; true", tmp_path)
