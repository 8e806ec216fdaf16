"""All mutants of a module: one operator of cosmic-ray, or of the two below, at one place.

Left alone, since no test of behaviour should tell: type annotations, decorators (caches, frozen data classes), what
stands inside of strings, and in `p2p_sim/privacy/claims` the numbers of the grids on which a claim is checked, in the
heads of loops and outside of functions. No operator changes a string, docstrings and messages included.
"""

import ast
import difflib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.plugins import get_operator

from tests.validation.mutation import PACKAGES, ROOT

ARITHMETIC = ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_Mul", "Pow_Mul", "BitAnd_BitOr",
              "BitOr_BitAnd")  # fmt: skip
COMPARISONS = ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Lt_Gt", "LtE_GtE", "Gt_Lt", "GtE_LtE", "Eq_NotEq", "NotEq_Eq",
               "Is_IsNot", "IsNot_Is")  # fmt: skip
REST = ("ReplaceUnaryOperator_Delete_USub", "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_Invert",
        "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd",
        "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ExceptionReplacer", "NumberReplacer",
        "ZeroIterationForLoop")  # fmt: skip
SWAPPED = (("min", "max"), ("minimum", "maximum"), ("floor", "ceil"), ("any", "all"), ("lower", "upper"),
           ("epsilon_lower", "epsilon_upper"))  # fmt: skip


class SwapName(Operator):
    """Swap the two ends of something: min and max, floor and ceil, lower and upper."""

    OTHER = dict(SWAPPED) | {b: a for a, b in SWAPPED}

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        if node.type == "name" and node.value in self.OTHER and node.parent.type not in ("param", "funcdef"):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        node.value = self.OTHER[node.value]
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("x = min(a, b)", "x = max(a, b)"),)


class DropCall(Operator):
    """Leave out a statement that is a call alone."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        if node.type == "simple_stmt":
            call = node.children[0]
            if (
                call.type == "atom_expr"
                and call.children[-1].type == "trailer"
                and call.children[-1].children[0] == "("
            ):
                yield call.start_pos, call.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        call = node.children[0]
        node.children[0] = parso.python.tree.Name("pass", call.start_pos, call.get_first_leaf().prefix)
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("check(a)\n", "pass\n"),)


def operators() -> dict[str, Operator]:
    """By name, in a fixed order."""
    names = [f"ReplaceBinaryOperator_{n}" for n in ARITHMETIC]
    names += [f"ReplaceComparisonOperator_{n}" for n in COMPARISONS]
    found: dict[str, Operator] = {name: get_operator(f"core/{name}")() for name in (*names, *REST)}
    return found | {"SwapName": SwapName(), "DropCall": DropCall()}


@dataclass(frozen=True)
class Mutant:
    """One change of one module.

    module: the file below `ROOT`; operator, occurrence: as cosmic-ray counts them; line, column: where.
    """

    module: str
    operator: str
    occurrence: int
    line: int
    column: int

    @cached_property
    def original(self) -> str:
        """The module as it is."""
        return source(self.module)

    @cached_property
    def code(self) -> str | None:
        """The module changed, or None where the change is no Python or none at all."""
        code = mutate_code(self.original, operators()[self.operator], self.occurrence)
        try:
            same = code is None or ast.dump(ast.parse(code)) == _dump(self.original)
        except SyntaxError:
            return None
        return None if same else code

    @cached_property
    def change(self) -> dict[str, str]:
        """What is changed where, whatever the line's number: file, function, old and new line, and operator."""
        assert self.code is not None
        before, after = self.original.splitlines(), self.code.splitlines()
        opcodes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        gone = " ".join(line.strip() for op, i, j, _, _ in opcodes if op != "equal" for line in before[i:j])
        come = " ".join(line.strip() for op, _, _, i, j in opcodes if op != "equal" for line in after[i:j])
        where = scope(self.original, self.line)
        return {"file": self.module, "function": where, "old": gone, "new": come, "operator": self.operator}

    @property
    def key(self) -> str:
        """The same as one string: by this a verdict names it."""
        return " | ".join(self.change[name] for name in ("file", "function", "old", "new"))


def modules() -> list[str]:
    """All files of `PACKAGES`, below `ROOT`."""
    return [str(p.relative_to(ROOT)) for package in PACKAGES for p in sorted(Path(ROOT / package).rglob("*.py"))]


@lru_cache(maxsize=128)
def source(module: str) -> str:
    """The text of a module below `ROOT`."""
    return (ROOT / module).read_text(encoding="utf-8")


@lru_cache(maxsize=128)
def _dump(code: str) -> str:
    return ast.dump(ast.parse(code))


def scope(code: str, line: int) -> str:
    """The classes and functions around a line, dotted; empty at the top of a module."""
    names: list[str] = []
    body: list[Any] = [ast.parse(code)]
    while body:
        node = body.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef) and child.lineno <= line <= (child.end_lineno or 0):
                names.append(child.name)
                body = [child]
    return ".".join(names)


def _inert(node: Any) -> bool:
    """Whether a node stands where nothing is changed: see the head of this module."""
    inner = node
    while (outer := inner.parent) is not None:
        if outer.type == "funcdef" and inner.type in ("parameters", "name"):
            return inner is node or node.parent is inner  # `*` and `/` of a signature
        if outer.type == "funcdef" and outer.annotation is inner:
            return True
        if outer.type == "tfpdef":
            return True
        if outer.type == "annassign":  # : annotation = value
            return inner is outer.children[1]
        if inner.type in ("fstring", "decorator", "import_from", "import_name"):
            return True
        inner = outer
    return False


def _grid(number: Any) -> bool:
    """Whether a number is in what a loop runs over, or outside of all functions."""
    inner = number
    while (outer := inner.parent) is not None and inner.type not in ("funcdef", "lambdef"):
        if outer.type == "for_stmt" and inner is outer.children[3]:
            return True
        inner = outer
    return outer is None


def mutants_of(module: str) -> list[Mutant]:
    """Every place of every operator, in the order of operators and then of the text."""
    found, tree = [], get_ast(source(module))
    nodes = list(ast_nodes(tree))
    inert = {id(node) for node in nodes if _inert(node)}
    if "/claims/" in module:
        inert |= {id(node) for node in nodes if node.type == "number" and _grid(node)}
    for name, operator in operators().items():
        places = [(node, start) for node in nodes for start, _ in operator.mutation_positions(node)]
        found += [
            Mutant(module, name, i, start[0], start[1])
            for i, (node, start) in enumerate(places)
            if id(node) not in inert
        ]
    return found


def all_mutants() -> list[Mutant]:
    """Of all modules, in a fixed order."""
    return [mutant for module in modules() for mutant in mutants_of(module)]


def find(change: Mapping[str, str]) -> Mutant | None:
    """The mutant with this `Mutant.change`, wherever its line is now; None if there is none any more.

    Where the same line stands twice in a function, it is the first.
    """
    if not (ROOT / change["file"]).exists():
        return None
    lines = source(change["file"]).splitlines()
    for mutant in mutants_of(change["file"]):
        near = mutant.operator == change["operator"] and lines[mutant.line - 1].strip() in change["old"]
        if near and mutant.code is not None and mutant.change.items() <= change.items():
            return mutant
    return None


def draw(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """Uniformly without replacement among those that are Python and a change, in random order."""
    order = random.Random(seed).sample(mutants, len(mutants))
    kept: list[Mutant] = []
    for mutant in order:
        if len(kept) == count:
            break
        if mutant.code is not None:
            kept.append(mutant)
    return kept
