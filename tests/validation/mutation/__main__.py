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

from tests.validation.mutation.covering import Test, function_of, judges, measured
from tests.validation.mutation.mutants import Mutant, all_mutants, draw
from tests.validation.mutation.score import ENOUGH, Score, explained, lines
from tests.validation.mutation.session import Runner, with_collected
from tests.validation.mutation.worker import preload, run

MOST = 45.0
"""Processor seconds of tests that judge one mutant; who outlives those is called a survivor."""


def limit(test: Test) -> float:
    """Processor seconds that a test is given."""
    return 15.0 + 5.0 * test.seconds


def judge(mutant: Mutant, tests: list[Test], runner: Runner | None) -> dict[str, Any]:
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
    names, limits = [test.name for test in chosen], {test.name: limit(test) for test in chosen}
    function = function_of(mutant.module, mutant.line)
    if runner and function:
        found = runner(names, limits, mutant.module, function, mutant.code)
    else:
        found = run(names, limits, mutant.module, mutant.code)
    result = "survived" if found.result == "passed" else found.result
    return row | {"result": result, "by": found.test, "judges": len(chosen), "seconds": round(found.seconds, 2)}


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
    """The rows of a sample, judged where they are not yet, or where one survived and is judged again.

    First those changed where they run at import, each with the project imported anew; then the rest, with all tests
    collected once. At the end every test that killed runs where nothing is changed.
    """
    path = out / "mutants.jsonl"
    known = judged(path)
    settled = explained()

    def doubtful(mutant: Mutant) -> bool:
        return known[digest(mutant)]["result"] == "survived" and mutant.key not in settled

    due = [m for m in sample if digest(m) not in known or (again and doubtful(m))]

    def each(mutants: list[Mutant], tests: list[Test], runner: Runner | None) -> None:
        for number, mutant in enumerate(mutants, 1):
            row, before = judge(mutant, tests, runner), known.get(digest(mutant))
            row["first"] = before["first"] if before else row["result"]
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
            print(f"{number}/{len(mutants)} {row['result']} {row['seconds']} s: {row['mutant']}", flush=True)
            known[row["code"]] = row

    def collected(runner: Runner) -> None:
        each([m for m in due if function_of(m.module, m.line)], tests, runner)
        confirm([known[digest(m)] for m in due], {test.name: test for test in tests}, runner)

    if due:
        preload()
        tests = measured(out / "covering")
        each([m for m in due if not function_of(m.module, m.line)], tests, None)
        with_collected(sorted({test.name.split("::")[0] for test in tests}), collected)
    return [known[digest(m)] for m in sample]


def confirm(rows: list[dict[str, Any]], tests: dict[str, Test], runner: Runner) -> None:
    """Every test that killed passes where nothing is changed, or the score is worth nothing."""
    killers = sorted({row["by"] for row in rows if row["by"] in tests}, key=lambda name: tests[name].seconds)
    found = runner(killers, {name: limit(tests[name]) for name in killers}, "", "", "")
    if found.result != "passed":
        raise SystemExit(f"{found.test} {found.result} though nothing was changed: what it killed is in doubt")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.validation.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=400, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--out", type=Path, default=Path("results/mutation"), help="directory of rows and summary")
    parser.add_argument("--again", action="store_true", help="judge those that survived without a verdict once more")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    places = all_mutants()
    sample = draw(places, options.count, options.seed)
    rows = judge_all(sample, options.out, options.again)
    score = Score(rows, explained(), len(places), options.seed)
    (options.out / "summary.json").write_text(json.dumps(score.summary(), indent=1) + "\n", encoding="utf-8")
    print("\n".join(lines(score)))
    return 0 if score.share >= ENOUGH else 1


if __name__ == "__main__":
    sys.exit(main())
