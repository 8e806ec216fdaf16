"""Where things live: imports go only down the list of packages, none in a circle, and no link stands for a file."""

import ast
import os
import subprocess
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[1]
LAYERS = (
    ("analysis",),
    ("p2p_sim.cli",),
    ("p2p_sim.explorer",),
    ("p2p_sim.tuning",),
    ("p2p_sim.report",),
    ("p2p_sim.film",),
    ("p2p_sim.audit",),
    ("p2p_sim.sweeps",),
    ("p2p_sim.results",),
    ("p2p_sim.replicate",),
    ("p2p_sim.extend", "p2p_sim.scenario"),
    ("p2p_sim.learning",),
    ("p2p_sim.mechanisms",),
    ("p2p_sim.exchange",),
    ("p2p_sim.histograms", "p2p_sim.stacking"),
    ("p2p_sim.network",),
    ("p2p_sim.population",),
    ("p2p_sim.figures",),
    ("p2p_sim.measures",),
    ("p2p_sim.privacy.claims",),
    ("p2p_sim.privacy.audit_statistics",),
    ("p2p_sim.privacy.wording",),
    ("p2p_sim.privacy.target_questions",),
    ("p2p_sim.privacy.questions",),
    ("p2p_sim.privacy.worst_of_several",),
    ("p2p_sim.privacy.overlays", "p2p_sim.privacy.rivals"),
    ("p2p_sim.privacy.certificates",),
    ("p2p_sim.privacy.exchange",),
    ("p2p_sim.privacy",),
    ("p2p_sim.base",),
)
"""From the top down; a package may import from those below it, and packages of one line not from each other."""
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}
PUBLIC = {"p2p_sim"}
"""The package whose __init__ offers names from everywhere below."""


def modules() -> dict[str, Path]:
    """Every module of the product, by its dotted name."""
    paths = [path for package in ("p2p_sim", "analysis") for path in (ROOT / package).rglob("*.py")]
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths)
    return {name.removesuffix(".__init__"): path for name, path in zip(names, paths, strict=True)}


@cache
def offered() -> dict[tuple[str, str], str]:
    """The module of each name that a package offers in its __init__.pyi, by package and name."""
    homes = {}
    for stub in (ROOT / "p2p_sim").rglob("__init__.pyi"):
        package = ".".join(stub.parent.relative_to(ROOT).parts)
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                homes |= {(package, alias.name): f"{package}.{node.module}" for alias in node.names}
    return homes


def imports(source: str, known: set[str]) -> set[str]:
    """Modules of the project that a module imports, wherever in the file; of a package that offers names, theirs."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, "imports are absolute"
            homes = {offered().get((node.module, alias.name), node.module) for alias in node.names}
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | homes
    return names & known


def package_of(module: str) -> str | None:
    """The package of `LAYERS` that a module belongs to."""
    packages = [package for package in LEVEL if module == package or module.startswith(package + ".")]
    return max(packages, key=len, default=None)


def faults(graph: nx.DiGraph) -> list[str]:
    """Imports that run up, or sideways between two packages, and circles."""
    wrong = []
    for importer, imported in graph.edges:
        if {importer, imported} & PUBLIC:
            continue
        a, b = package_of(importer), package_of(imported)
        if a is None or b is None:
            wrong.append(f"{importer if a is None else imported} is in no package of the list")
        elif a != b and LEVEL[a] >= LEVEL[b]:
            wrong.append(f"{importer} -> {imported}")
    circles = [c for c in nx.simple_cycles(graph) if len(c) > 1]
    return wrong + [f"circle {circle}" for circle in circles]


@cache
def _imports_of_all() -> nx.DiGraph:
    files = modules()
    graph = nx.DiGraph()
    graph.add_nodes_from(files)
    for name, path in files.items():
        imported = imports(path.read_text(encoding="utf-8"), set(files)) - {name}
        graph.add_edges_from((name, other) for other in imported if not name.startswith(other + "."))
    return graph


def import_graph() -> nx.DiGraph:
    """A copy, so that a test may add an import."""
    return _imports_of_all().copy()


def test_no_import_runs_up_and_none_in_a_circle():
    graph = import_graph()
    assert graph.number_of_edges() > 40
    assert faults(graph) == []


@pytest.mark.parametrize(
    "added",
    [
        ("p2p_sim.network.event_queue", "p2p_sim.exchange.peers"),
        ("p2p_sim.privacy.randomized_response", "p2p_sim.privacy.exchange.label_exchange"),
        ("p2p_sim.sweeps", "p2p_sim.report.page"),
        ("p2p_sim.results.plots", "analysis.study"),
    ],
)
def test_an_import_that_runs_up_is_seen(added):
    graph = import_graph()
    graph.add_edge(*added)
    assert faults(graph)


def test_files_stay_small():
    for name, path in modules().items():
        text = path.read_text(encoding="utf-8")
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr)]
        texts = [node for node in nodes if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)]
        lines = len(text.splitlines())
        assert lines <= 450, name
        assert lines - sum(node.end_lineno - node.lineno + 1 for node in texts) <= 310, name  # without docstrings


def test_no_link_stands_for_a_file():
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [name for name in listed.split("\0") if name and os.path.islink(ROOT / name)] == []
