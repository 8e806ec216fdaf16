"""Draw mutants, judge each, print the score: `python -m tests.validation.mutation`, run by `make mutants`.

A run that was cut off goes on where it stopped; one that is over is printed again. Exit status 1 if fewer than 90% of
the mutants that are not equivalent were killed.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from tests.validation.mutation.covering import Test, judges, measured
from tests.validation.mutation.mutants import Mutant, all_mutants, draw
from tests.validation.mutation.score import ENOUGH, Score, explained, lines
from tests.validation.mutation.worker import preload, run

MOST = 30.0
"""Processor seconds of tests that judge one mutant; who outlives those is called a survivor."""


def limit(test: Test) -> float:
    """Seconds of the clock that a test is given."""
    return 10.0 + 10.0 * test.seconds


def judge(mutant: Mutant, tests: list[Test]) -> dict[str, Any]:
    """The row of one mutant."""
    chosen = judges(mutant, tests, MOST)
    assert mutant.code is not None
    row: dict[str, Any] = {
        "mutant": mutant.key,
        "line": mutant.line,
        "operator": mutant.operator,
        "code": digest(mutant),
    }
    if not chosen:
        return row | {"result": "survived", "by": "", "judges": 0, "seconds": 0.0}
    names = [test.name for test in chosen]
    outcome = run(names, {test.name: limit(test) for test in chosen}, mutant.module, mutant.code)
    result = "survived" if outcome.result == "passed" else outcome.result
    return row | {"result": result, "by": outcome.test, "judges": len(chosen), "seconds": round(outcome.seconds, 2)}


def digest(mutant: Mutant) -> str:
    """Names the changed module by its content."""
    assert mutant.code is not None
    return hashlib.sha256(f"{mutant.module}\n{mutant.code}".encode()).hexdigest()[:16]


def judged(path: Path) -> dict[str, dict[str, Any]]:
    """The latest row of each mutant; half a last line is passed over."""
    rows = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        rows[row["code"]] = row
    return rows


def judge_all(sample: list[Mutant], out: Path, again: bool) -> list[dict[str, Any]]:
    """The rows of a sample, judged where they are not yet, or where one survived and is judged again."""
    path = out / "mutants.jsonl"
    known = judged(path)
    due = [m for m in sample if digest(m) not in known or (again and known[digest(m)]["result"] == "survived")]
    if due:
        preload()
        tests = measured(out / "covering")
        for number, mutant in enumerate(due, 1):
            row, before = judge(mutant, tests), known.get(digest(mutant))
            row["first"] = before["first"] if before else row["result"]
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
            print(f"{number}/{len(due)} {row['result']} {row['seconds']} s: {row['mutant']}", flush=True)
            known[row["code"]] = row
        confirm([known[digest(m)] for m in due], {test.name: test for test in tests})
    return [known[digest(m)] for m in sample]


def confirm(rows: list[dict[str, Any]], tests: dict[str, Test]) -> None:
    """Every test that killed passes where nothing is changed, or the score is worth nothing."""
    killers = sorted({row["by"] for row in rows if row["by"] in tests}, key=lambda name: tests[name].seconds)
    outcome = run(killers, {name: limit(tests[name]) for name in killers}) if killers else None
    if outcome and outcome.result != "passed":
        raise SystemExit(f"{outcome.test} {outcome.result} though nothing was changed: what it killed is in doubt")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.validation.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=400, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--out", type=Path, default=Path("results/mutation"), help="directory of rows and summary")
    parser.add_argument("--again", action="store_true", help="judge those that survived once more")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    places = all_mutants()
    sample = draw(places, options.count, options.seed)
    rows = judge_all(sample, options.out, options.again)
    score = Score.of(rows, explained(), len(places), options.seed)
    (options.out / "summary.json").write_text(json.dumps(score.summary(), indent=1) + "\n", encoding="utf-8")
    print("\n".join(lines(score)))
    return 0 if score.share >= ENOUGH else 1


if __name__ == "__main__":
    sys.exit(main())
