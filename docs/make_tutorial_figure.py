"""Runs the commands of docs/tutorial.md, and keeps the figure that they draw: `make figures`."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
OUT = ROOT / "docs" / "figures"
PAGE = ROOT / "docs" / "tutorial.md"
PLOT = "results/noise/plot-error_rate-vs-epsilon_upper-by-mechanism_sampling_rate.png"
RECIPE = re.compile(r"^run:.*\n\t\$\(BIN\)/(.*)$", re.MULTILINE)
"""What `make run` does once everything is installed."""
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def steps(page: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a page in order, block by block, each with the lines of output that the page shows after it."""
    blocks = BLOCK.findall(page)
    for (kind, text), (follows, shown) in zip(blocks, [*blocks[1:], ("sh", "")], strict=True):
        if kind == "sh":
            yield text, shown.splitlines() if follows == "text" else []


TERMINAL = {"COLUMNS": "80", "TTY_COMPATIBLE": "1", "TTY_INTERACTIVE": "0", "NO_COLOR": "1"}
"""Variables by which rich prints as it does on a terminal of 80 columns."""


def run(commands: str, folder: Path) -> str:
    """Run a block in a folder as a reader would, with this Python and this checkout; return all that it prints.

    Raises:
        subprocess.CalledProcessError: a command failed.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **TERMINAL}
    shell = ["bash", "-euo", "pipefail", "-c", commands]
    done = subprocess.run(
        shell, cwd=folder, env=environment, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return done.stdout


def prepare(folder: Path) -> None:
    """Make a folder look like the checkout after `make run`, as far as the page needs it."""
    (folder / "scenarios").symlink_to(ROOT / "scenarios")
    [first] = RECIPE.findall((ROOT / "Makefile").read_text(encoding="utf-8"))
    run(first, folder)


def main(out: Path = OUT) -> Path:
    """Run the page and keep the figure of its sweep."""
    with tempfile.TemporaryDirectory() as scratch:
        prepare(Path(scratch))
        for commands, _ in steps(PAGE.read_text(encoding="utf-8")):
            run(commands, Path(scratch))
        return Path(shutil.copy(Path(scratch) / PLOT, out / "tutorial.png"))


if __name__ == "__main__":
    print(main())
