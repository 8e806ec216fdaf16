"""Frozen values: what the commands of one tree compute, held against another tree, number by number.

    python -m tests.validation.frozen write [--python OTHER/.venv/bin/python] [--out FILE]
    python -m tests.validation.frozen compare [FILE [FILE]]

A tree is known here by its command alone: scenario files in, JSON and tables of rows out. So any two trees can be
compared, whatever their modules are called. The cache of figures is off. `compare` computes the values of this tree
unless it gets two files, prints every value that differs, and ends with status 1 if one does.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).parents[2]
FROZEN = ROOT / "tests" / "data" / "frozen.parquet"
IDENTITY = {"scenario", "model_version", "statement", "point"}
"""Columns that name a row or its statement, and no value."""
RUNNER = """
import contextlib, io, json, sys
from importlib.metadata import entry_points
main = next(entry for entry in entry_points(group="console_scripts") if entry.name == "p2p-sim").load()
for line in sys.stdin:
    sys.argv, out, status = ["p2p-sim", *json.loads(line)], io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
    print(json.dumps([status, out.getvalue()]), flush=True)
"""
"""Answers commands, one a line, in one process of the other tree."""
SETTINGS = {"network/million": ("population.users=20000",), "consistency/pcl2": ("population.users=20000",)}
"""Scenarios that are run smaller than they are shipped."""
LEFT_OUT = ("vector-images", "own_mechanism/own", "own_mechanism/star", "own_mechanism/jammed")
"""Scenarios that need PyTorch or a plug-in."""
SWEEPS = {
    "privacy-utility": (), "faults": (), "heterogeneity": ("population.users=2000",), "vectors": (),
    "comparison/digits": ("population.users=600",), "regression-mechanisms": (), "learners/synthetic": (),
    "stacking-news20": (), "consistency": ("population.users=2000",), "clustering-exchange": (),
}  # fmt: skip
"""Sweeps of which the first points are run, with one replicate each."""
AUDITS = {
    "small-clusters": ("--cluster-size", "8"),
    "quickstart": ("--cluster-size", "12"),
    "synthetic": ("--engine", "vectorised", "--set", "mechanism.target_epsilon=1.0"),
    "curator": (),
    "models/plr": (),
}
"""Audits, with two thousand trials each."""


def questions() -> Iterator[list[str]]:
    """Thirty questions of `privacy` and `calibrate`: observers, sizes, classes, rounds."""
    sizes = ((12, 0.1, 1.0), (200, 0.1, 0.5), (5000, 0.3, 0.1))
    for users, flip_prob, rate in sizes:
        setting = ["--cluster-size", str(users), "--sampling-rate", str(rate)]
        for more in (
            [], ["--observer", "learner-times"], ["--observer", "peer"], ["--observer", "eavesdropper"],
            ["--observer", "coalition", "--members", "3"], ["--rounds", "3"], ["--num-classes", "3"],
        ):  # fmt: skip
            yield ["privacy", *setting, "--flip-prob", str(flip_prob), "--delta", "1e-6", *more]
        yield ["privacy", *setting, "--flip-prob", str(flip_prob), "--epsilon", "0.5"]
        yield ["calibrate", *setting, "--epsilon", "0.5", "--delta", "1e-6"]
        yield ["calibrate", *setting, "--epsilon", "1.0", "--delta", "1e-5", "--num-classes", "4"]


def shipped() -> list[str]:
    """The names of all scenarios, as `p2p-sim run` takes them."""
    folder = ROOT / "scenarios"
    names = (path.relative_to(folder).with_suffix("").as_posix() for path in sorted(folder.rglob("*.toml")))
    return [name for name in names if not name.startswith("sweeps/") and name not in LEFT_OUT]


class Tree:
    """A tree's command, in one process of its own Python.

    python: the interpreter of the environment in which the tree is installed.
    """

    def __init__(self, python: Path, folder: Path) -> None:
        self.folder, self.runs = folder, 0
        self._process = subprocess.Popen(
            [python, "-c", RUNNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder,
            env={**os.environ, "P2P_SIM_CACHE": "off", "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip

    def call(self, *arguments: str) -> tuple[int, str]:
        """Exit status and standard output of a command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        status, out = json.loads(self._process.stdout.readline())
        return status, out

    def rows(self, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
        """Exit status and rows of a command that writes results."""
        self.runs += 1
        out = self.folder / f"results-{self.runs}"
        status, _ = self.call(*arguments, "--out", str(out), "--quiet")
        path = out / "rows.jsonl"
        return status, [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    """Names and values of the numbers within a value; prose is left out."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key not in IDENTITY:
                yield from flat(f"{prefix}/{key}", part)
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from flat(f"{prefix}/{place}", part)
    elif not isinstance(value, str) or value == "inf":
        yield prefix, json.dumps(value)


def settings(changes: Iterable[str]) -> list[str]:
    """Options that set keys."""
    return [part for change in changes for part in ("--set", change)]


def scenario_values(tree: Tree) -> Iterator[tuple[str, str]]:
    """Rows of every shipped scenario, and digests of what replicate 0 released where it can be exported."""
    for name in shipped():
        changes = settings(("replicates=1", *SETTINGS.get(name, ())))
        status, rows = tree.rows("run", name, *changes)
        yield f"run/{name}/status", str(status)
        for row in rows:
            yield from flat(f"run/{name}/{row['replicate']}", row)
        released = tree.folder / f"released-{tree.runs}.parquet"
        tree.rows("run", name, *changes, "--export", str(released))
        if released.exists():
            for column, values in pd.read_parquet(released).items():
                content = hashlib.sha256(json.dumps(values.tolist(), default=str).encode()).hexdigest()
                yield f"release/{name}/{column}", content[:16]


def sweep_values(tree: Tree) -> Iterator[tuple[str, str]]:
    """Rows of ten sweeps, one replicate a point."""
    for name, changes in SWEEPS.items():
        status, rows = tree.rows("sweep", name, *settings(("replicates=1", *changes)), "--workers", "1")
        yield f"sweep/{name}/status", str(status)
        for place, row in enumerate(rows):
            yield from flat(f"sweep/{name}/{place}", row)


def answer_values(tree: Tree) -> Iterator[tuple[str, str]]:
    """Audits, thirty questions of privacy, and three certificates."""
    for name, options in AUDITS.items():
        status, out = tree.call("audit", name, *options, "--trials", "2000", "--json", "--quiet")
        yield f"audit/{name}/status", str(status)
        yield from flat(f"audit/{name}", json.loads(out))
    for arguments in questions():
        status, out = tree.call(*arguments, "--json")
        name = f"{arguments[0]}/{' '.join(arguments[1:])}"
        yield f"{name}/status", str(status)
        yield from flat(name, json.loads(out) if status == 0 else {})
    for users, flip_prob, rate in ((12, 0.1, 1.0), (60, 0.2, 0.5), (300, 0.1, 0.3)):
        path = tree.folder / f"claim-{users}.json"
        setting = ("--cluster-size", str(users), "--flip-prob", str(flip_prob), "--sampling-rate", str(rate))
        status, _ = tree.call("certify", *setting, "--delta", "1e-6", "--out", str(path))
        yield f"certify/{users}/status", str(status)
        yield f"certify/{users}", hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def values_of(python: Path) -> dict[str, str]:
    """Every value of a tree by its name."""
    values: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(python, Path(folder))
        for part in (answer_values, sweep_values, scenario_values):
            values.update(part(tree))
            print(f"{part.__name__}: {len(values):,} values so far", file=sys.stderr)
        tree.close()
    return values


def read(path: Path) -> dict[str, str]:
    """Values as `write` keeps them."""
    table = pd.read_parquet(path)
    return dict(zip(table["name"], table["value"], strict=True))


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """A line for each value that changed, went or came."""
    lines = [
        f"{name}: {before[name]} -> {after[name]}" for name in before if after.get(name, "") not in ("", before[name])
    ]
    lines += [f"{name}: {before[name]} is gone" for name in before if name not in after]
    return [*lines, *(f"{name}: {after[name]} is new" for name in after if name not in before)]


def main() -> None:
    """Write the values of a tree, or compare two."""
    parser = argparse.ArgumentParser(description="What the commands compute, held against another tree.")
    parser.add_argument("what", choices=("write", "compare"))
    parser.add_argument("files", nargs="*", type=Path, help="of `compare`: the base, and what is held against it")
    parser.add_argument(
        "--python", type=Path, default=Path(sys.executable), help="of the tree whose values are computed"
    )
    parser.add_argument("--out", type=Path, default=FROZEN, help="of `write`")
    given = parser.parse_args()
    if given.what == "write":
        values = values_of(given.python)
        table = pd.DataFrame({"name": list(values), "value": list(values.values())})
        table.to_parquet(given.out, index=False, compression="zstd")
        print(f"{given.out}: {len(values):,} values")
        return
    base = read(given.files[0] if given.files else FROZEN)
    other = read(given.files[1]) if len(given.files) > 1 else values_of(given.python)
    lines = differences(base, other)
    print(*lines, f"{len(base):,} values, {len(lines):,} differences", sep="\n")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
