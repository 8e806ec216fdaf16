"""Draw mutants, judge each, print the score: `python -m tests.validation.mutation`, run by `make mutants`.

A run that was cut off goes on where it stopped; one that is over is printed again. Its mutants are kept as judged.jsonl
in `--out`; `--list` with such a file judges exactly these again. Exit status 1 if fewer than 90% of the mutants that
are not equivalent were killed.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from tests.validation.mutation.covering import Covered, Test, function_of, judges, measured, ran_outside
from tests.validation.mutation.mutants import Mutant, all_mutants, draw, find
from tests.validation.mutation.score import ENOUGH, Score, explained, lines
from tests.validation.mutation.session import Runner, with_collected
from tests.validation.mutation.worker import preload, run

MOST = 45.0
"""Processor seconds of tests that judge one mutant; who outlives those is called a survivor."""


def limit(test: Test) -> float:
    """Processor seconds that a test is given."""
    return 15.0 + 5.0 * test.alone


def judge(mutant: Mutant, covered: Covered, runner: Runner | None) -> dict[str, Any]:
    """The row of one mutant: by `runner` if there is one, else with the project imported anew.

    A function that ran while the project was imported may have left behind what the runner cannot change: constants,
    and functions made by it. If one survives the runner, it is judged with the project imported anew as well.
    """
    assert mutant.code is not None
    row: dict[str, Any] = {
        "mutant": mutant.key,
        "line": mutant.line,
        "operator": mutant.operator,
        "code": digest(mutant),
        "result": "survived",
        "by": "",
        "judges": 0,
        "seconds": 0.0,
    }
    ways = [True]
    if runner:
        ways = [False, True] if ran_outside(mutant.module, mutant.line, covered.outside) else [False]
    for anew in ways:
        chosen = judges(mutant, covered.tests, MOST, anew)
        if not chosen:
            continue
        names = [test.name for test in chosen]
        limits = {test.name: limit(test) for test in chosen}
        if runner and not anew:
            function = function_of(mutant.module, mutant.line)
            found = runner(names, limits, mutant.module, str(function), mutant.code)
        else:
            found = run(names, limits, mutant.module, mutant.code)
        row["judges"], row["seconds"] = row["judges"] + len(chosen), round(row["seconds"] + found.seconds, 2)
        if found.result != "passed":
            return row | {"result": found.result, "by": found.test}
    return row


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


def judge_all(sample: list[Mutant], out: Path, again: bool, firsts: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of a sample, judged where they are not yet, or where one survived and is judged again.

    First those changed where they run at import, each with the project imported anew; then the rest,
    with all tests collected once. At the end every test that killed runs where nothing is changed.

    Args:
        sample: what is judged. out: directory of the rows. again: judge survivors without a verdict once more.
        firsts: results when first judged, by mutant, where that was before.
    """
    path = out / "mutants.jsonl"
    known = judged(path)
    settled = explained()

    def doubtful(mutant: Mutant) -> bool:
        return known[digest(mutant)]["result"] == "survived" and mutant.key not in settled

    due = [m for m in sample if digest(m) not in known or (again and doubtful(m))]

    def at_import(mutant: Mutant) -> bool:
        return function_of(mutant.module, mutant.line) is None

    def each(mutants: list[Mutant], covered: Covered, runner: Runner | None) -> None:
        for number, mutant in enumerate(mutants, 1):
            row, before = judge(mutant, covered, runner), known.get(digest(mutant))
            row["first"] = before["first"] if before else firsts.get(mutant.key, row["result"])
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
            print(f"{number}/{len(mutants)} {row['result']} {row['seconds']} s: {row['mutant']}", flush=True)
            known[row["code"]] = row

    def collected(runner: Runner) -> None:
        each([m for m in due if not at_import(m)], covered, runner)
        confirm([known[digest(m)] for m in due], {test.name: test for test in covered.tests}, runner)

    if due:
        preload()
        covered = measured(out / "covering")
        each([m for m in due if at_import(m)], covered, None)
        with_collected(sorted({test.name.split("::")[0] for test in covered.tests}), collected)
    return [known[digest(m)] for m in sample]


def confirm(rows: list[dict[str, Any]], tests: dict[str, Test], runner: Runner) -> None:
    """Every test that killed passes where nothing is changed, or the score is worth nothing."""
    killers = sorted({row["by"] for row in rows if row["by"] in tests}, key=lambda name: tests[name].seconds)
    found = runner(killers, {name: limit(tests[name]) for name in killers}, "", "", "")
    if found.result != "passed":
        raise SystemExit(f"{found.test} {found.result} though nothing was changed: what it killed is in doubt")


def read_list(path: Path) -> tuple[list[Mutant], dict[str, str], int]:
    """The mutants of a judged.jsonl, what each was when first judged, and how many have no such line any more."""
    sample, firsts, gone = [], {}, 0
    for line in path.read_text(encoding="utf-8").splitlines():
        kept = json.loads(line)
        mutant = find(kept)
        if mutant is None:
            gone += 1
            print(f"no such line any more: {kept['file']} | {kept['function']} | {kept['old']}")
            continue
        sample.append(mutant)
        if "first" in kept:
            firsts[mutant.key] = kept["first"]
    return sample, firsts, gone


def write_list(path: Path, sample: list[Mutant], score: Score) -> None:
    """Keep a judged sample, one mutant a line: what is changed, the result, and the verdict of a survivor."""
    kept = [
        mutant.change
        | {name: row[name] for name in ("result", "first", "by", "seconds")}
        | {"verdict": score.verdict(row) if row["result"] == "survived" else ""}
        for mutant, row in zip(sample, score.rows, strict=True)
    ]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept), encoding="utf-8")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.validation.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=400, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--out", type=Path, default=Path("results/mutation"), help="directory of rows and summary")
    parser.add_argument("--again", action="store_true", help="judge those that survived without a verdict once more")
    parser.add_argument("--list", type=Path, help="judge the mutants of this judged.jsonl instead of drawing some")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    places = all_mutants()
    if options.list:
        sample, firsts, gone = read_list(options.list)
    else:
        sample, firsts, gone = draw(places, options.count, options.seed), {}, 0
    rows = judge_all(sample, options.out, options.again, firsts)
    score = Score(rows, explained(), len(places), None if options.list else options.seed, gone)
    write_list(options.out / "judged.jsonl", sample, score)
    (options.out / "summary.json").write_text(json.dumps(score.summary(), indent=1) + "\n", encoding="utf-8")
    print("\n".join(lines(score)))
    return 0 if score.share >= ENOUGH else 1


if __name__ == "__main__":
    sys.exit(main())
