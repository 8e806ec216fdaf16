"""Which tests run which line, measured file by file and kept until a file changes; and so, who judges a mutant."""

import ast
import hashlib
import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.validation.mutation import PACKAGES, ROOT
from tests.validation.mutation.mutants import Mutant, modules, source
from tests.validation.mutation.worker import measure

Lines = set[int]


@dataclass(frozen=True)
class Test:
    """One test: its node id, processor seconds, and the lines of each module that it runs.

    shared: seconds of the fixtures that it may share with other tests; `lines` has theirs, `seconds` has not.
    """

    name: str
    seconds: float
    lines: dict[str, Lines]
    shared: dict[str, float] = field(default_factory=dict)

    @property
    def alone(self) -> float:
        """Seconds that it takes if it runs first."""
        return self.seconds + sum(self.shared.values())


@dataclass(frozen=True)
class Covered:
    """All tests; and the lines of each module that run in no test, while files are imported and tests collected."""

    tests: list[Test]
    outside: dict[str, Lines]


def files() -> list[str]:
    """Test files that name what is mutated, and its doctests: of what `make test` collects, the part nearest to it."""
    names = re.compile("|".join(package.replace("/", r"\.") for package in PACKAGES))
    found = [p for p in sorted(ROOT.glob("tests/test_*.py")) if names.search(p.read_text(encoding="utf-8"))]
    found += [ROOT / module for module in modules() if ">>>" in source(module)]
    return [str(p.relative_to(ROOT)) for p in found]


def _digest(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def measured(place: Path) -> Covered:
    """What the tests run, from `place` where their file and all that it may import are as they were, else run anew."""
    place.mkdir(parents=True, exist_ok=True)
    shared = [p for folder in ("analysis", "p2p_sim") for p in sorted((ROOT / folder).rglob("*.py"))]
    common = _digest(shared)
    tests: list[Test] = []
    outside: dict[str, Lines] = {}
    for name in files():
        kept, digest = place / (name.replace("/", "-") + ".json"), common + _digest([ROOT / name])
        known = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
        if known.get("digest") != digest or "outside" not in known:
            known = {"digest": digest} | measure(name)
            kept.write_text(json.dumps(known), encoding="utf-8")
            print(f"measured {name}: {len(known['tests'])} tests", flush=True)
        tests += [_test(name, entry, known["fixtures"]) for name, entry in known["tests"].items()]
        _include(outside, known["outside"])
    return Covered(tests, outside)


def _test(name: str, entry: dict[str, Any], fixtures: dict[str, Any]) -> Test:
    used = [fixture for fixture in entry["uses"] if fixture in fixtures]
    lines: dict[str, Lines] = {}
    for part in (entry, *(fixtures[fixture] for fixture in used)):
        _include(lines, part["lines"])
    return Test(name, entry["seconds"], lines, {fixture: fixtures[fixture]["seconds"] for fixture in used})


def _include(lines: dict[str, Lines], more: dict[str, list[int]]) -> None:
    for module, found in more.items():
        lines.setdefault(module, set()).update(found)


def judges(mutant: Mutant, tests: list[Test], most: float, anew: bool = False) -> list[Test]:
    """The tests that run the changed statement: as many as fit into `most` seconds, and of these the fastest first.

    Those are taken that are quick and run little else. Of a statement that runs at import, and of one in a function
    whose project is imported anew: those that run any line of its file, or one elsewhere that names what it binds, and
    those whose own file names it.
    """
    lines, names = place_of(mutant.module, mutant.line)
    if names is None and anew:
        names = frozenset({str(function_of(mutant.module, mutant.line)).rpartition(".")[2]})
    wanted = {mutant.module: lines} if names is None else _naming(names) | {mutant.module: set(range(1, 10_000))}
    found = [t for t in tests if any(not at.isdisjoint(t.lines.get(module, ())) for module, at in wanted.items())]
    if names:  # a constant is read without a line run
        known = {test.name for test in found}
        found += [t for t in tests if t.name not in known and _mentions(t.name.split("::")[0], names)]
    chosen, total, paid = [], 0.0, set()
    for test in sorted(found, key=lambda test: test.alone * sum(map(len, test.lines.values()))):
        more = test.seconds + sum(seconds for name, seconds in test.shared.items() if name not in paid)
        if total + more <= most or not chosen:
            total += more
            paid.update(test.shared)
            chosen.append(test)
    return sorted(chosen, key=lambda test: test.alone)


def ran_outside(module: str, line: int, outside: dict[str, Lines]) -> bool:
    """Whether the function around a line ran as modules were imported, so that what it gave may be in use since."""
    function = _outermost(module, line)[-1]
    body = set(range(function.body[0].lineno, function.end_lineno + 1)) - {function.lineno}
    return not body.isdisjoint(outside.get(module, ()))


def function_of(module: str, line: int) -> str | None:
    """The outermost function or method, dotted, in whose body a line lies; None if the line runs at import."""
    if place_of(module, line)[1] is not None:
        return None
    return ".".join(node.name for node in _outermost(module, line))


def _outermost(module: str, line: int) -> list[Any]:
    """The classes around a line and the outermost function or method of them."""
    nodes: list[Any] = []
    body: list[Any] = [ast.parse(source(module))]
    while body:
        for child in ast.iter_child_nodes(body.pop()):
            if isinstance(child, ast.ClassDef | ast.FunctionDef) and _spans(child, line):
                nodes.append(child)
                body = [child] if isinstance(child, ast.ClassDef) else []
    return nodes


def place_of(module: str, line: int) -> tuple[Lines, frozenset[str] | None]:
    """The lines of the innermost statement, its body left out; and, if it runs at import, the names that it binds."""
    inner: ast.stmt | None = None
    inside = False
    body: list[Any] = [ast.parse(source(module))]
    while body:
        for child in ast.iter_child_nodes(body.pop()):
            if isinstance(child, ast.stmt | ast.ExceptHandler) and _spans(child, line):
                inside = inside or isinstance(inner, ast.FunctionDef)
                inner, body = child, [child]  # type: ignore[assignment]
    assert inner is not None, (module, line)
    first = min((part.lineno for part in getattr(inner, "body", [])), default=(inner.end_lineno or 0) + 1)
    lines = set(range(inner.lineno, max(first, inner.lineno + 1)))
    return lines, None if inside else frozenset(_bound(inner))


def _spans(node: Any, line: int) -> bool:
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    return bool(first <= line <= node.end_lineno)


def _bound(statement: ast.AST) -> set[str]:
    """Names bound, fields of classes left out."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


@lru_cache
def _mentions(file: str, names: frozenset[str]) -> bool:
    """Whether one of these words stands in a file of tests."""
    return not names.isdisjoint(re.findall(r"\w+", (ROOT / file).read_text(encoding="utf-8")))


@lru_cache
def _naming(names: frozenset[str]) -> dict[str, Lines]:
    """Lines of all mutated modules in which one of these words stands."""
    word = re.compile(r"\b(" + "|".join(map(re.escape, sorted(names))) + r")\b") if names else re.compile(r"(?!)")
    return {m: {i for i, text in enumerate(source(m).splitlines(), 1) if word.search(text)} for m in modules()}
