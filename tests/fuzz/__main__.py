"""Fuzz every reader: `python -m tests.fuzz --inputs 100000 --seed 1`; exit status 1 if a fault was found."""

import argparse
import json
import platform
import resource
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.harness import Tally, fuzz_apart, shares
from tests.fuzz.targets import TARGETS


def line(name: str, tally: Tally) -> str:
    """What became of the inputs of a target."""
    mean = tally.wall_s / tally.inputs * 1e3
    slowest = f"{tally.slowest_s:6.2f} s (number {tally.slowest})"
    counts = f"{tally.inputs:7,d} {tally.taken:7,d} {tally.refused:8,d} {len(tally.faults):7,d}"
    return f"{name:13} {counts} {mean:8.1f}  {slowest}"


def summary(tallies: dict[str, Tally], seed: int) -> dict[str, object]:
    """What is published of a run."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "inputs": sum(tally.inputs for tally in tallies.values()),
        "faults": sum(len(tally.faults) for tally in tallies.values()),
        "seed": seed,
        "cpu_s": round(time.process_time() + spent.ru_utime + spent.ru_stime, 1),
        "slowest_s": round(max(tally.slowest_s for tally in tallies.values()), 2),
        "python": platform.python_version(),
        "targets": {
            name: {"inputs": t.inputs, "taken": t.taken, "refused": t.refused, "slowest_s": round(t.slowest_s, 3)}
            for name, t in tallies.items()
        },
    }


def main() -> None:
    """Print a line for each target and each fault."""
    parser = argparse.ArgumentParser(description="Random and damaged input for every reader.")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=[target.name for target in TARGETS], help="these targets alone")
    parser.add_argument("--number", type=int, help="one input alone, of the target that --only names")
    parser.add_argument("--out", type=Path, help="a file for a summary in JSON")
    given = parser.parse_args()
    chosen = [target for target in TARGETS if not given.only or target.name in given.only]
    counts = shares(chosen, given.inputs)
    tallies = {}
    print("target         inputs   taken  refused  faults  mean ms  slowest")
    with tempfile.TemporaryDirectory(prefix="p2p-sim-fuzz-") as base:
        for target in chosen:
            numbers = range(counts[target.name]) if given.number is None else (given.number,)
            tallies[target.name] = fuzz_apart(target, given.seed, numbers, Path(base))
            print(line(target.name, tallies[target.name]), flush=True)
            for fault in tallies[target.name].faults[:10]:
                print(f"  {fault.target} {fault.number}: {fault.what}", flush=True)
    found = summary(tallies, given.seed)
    print(f"{found['inputs']:,} inputs, {found['faults']} faults, {found['cpu_s']} s of one core, seed {given.seed}")
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(found, indent=2) + "\n")
    sys.exit(1 if found["faults"] else 0)


if __name__ == "__main__":
    main()
