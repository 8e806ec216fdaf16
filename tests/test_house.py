"""The plan of the rooms: imports go only downward, none in a circle."""

import ast
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parent.parent
ROOMS = (
    ("studies",),
    ("p2p_sim.cli",),
    ("p2p_sim.sweeps.tuning", "p2p_sim.cli.explorer"),
    ("p2p_sim.outputs", "p2p_sim.attacks", "p2p_sim.sweeps", "p2p_sim.cli.questions"),
    ("p2p_sim.replicate", "p2p_sim.storage"),
    ("p2p_sim.scenario", "p2p_sim.extend"),
    ("p2p_sim.histograms.exchange", "p2p_sim.learning"),
    ("p2p_sim.mechanisms",),
    ("p2p_sim.protocol",),
    ("p2p_sim.network",),
    ("p2p_sim.population", "p2p_sim.stacking", "p2p_sim.histograms"),
    ("p2p_sim.base",),
    ("p2p_sim.analysis.clustering_theorems",),
    ("p2p_sim.analysis.figures",),
    ("p2p_sim.analysis.utility", "p2p_sim.analysis.bounds"),
    ("p2p_sim.analysis.privacy.claims",),
    ("p2p_sim.analysis.privacy.attack",),
    ("p2p_sim.analysis.privacy",),
    ("p2p_sim.analysis.privacy.networks", "p2p_sim.analysis.privacy.others"),
    ("p2p_sim.analysis.privacy.exchange",),
    ("p2p_sim.analysis.privacy.statement",),
)
"""From the top down; a room may import from those below it, and modules of one line not from each other."""
FLOOR = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}


def modules() -> dict[str, Path]:
    found = {}
    for package in ("p2p_sim", "analysis", "studies"):
        for path in (ROOT / package).rglob("*.py"):  # does not follow the link p2p_sim/analysis
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            name = f"p2p_sim.{name}" if package == "analysis" else name
            found[name.removesuffix(".__init__")] = path
    return found


def imports(source: str, known: set[str]) -> set[str]:
    """Modules of the project that a module imports, wherever in the file."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, "imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return names & known


def room(module: str) -> str | None:
    rooms = [room for room in FLOOR if module == room or module.startswith(room + ".")]
    return max(rooms, key=len, default=None)


def faults(graph: nx.DiGraph) -> list[str]:
    """Arrows that run up, or sideways between two rooms, and circles."""
    wrong = []
    for importer, imported in graph.edges:
        if {importer, imported} & {"p2p_sim", "p2p_sim.analysis"}:
            continue
        a, b = room(importer), room(imported)
        if a is None or b is None:
            wrong.append(f"{importer if a is None else imported} is in no room")
        elif a != b and FLOOR[a] >= FLOOR[b]:
            wrong.append(f"{importer} -> {imported}")
    circles = [c for c in nx.simple_cycles(graph) if len(c) > 1]
    return wrong + [f"circle {circle}" for circle in circles]


@cache
def _house() -> nx.DiGraph:
    files = modules()
    graph = nx.DiGraph()
    graph.add_nodes_from(files)
    for name, path in files.items():
        found = imports(path.read_text(encoding="utf-8"), set(files)) - {name}
        graph.add_edges_from((name, other) for other in found if not name.startswith(other + "."))
    return graph


def house() -> nx.DiGraph:
    """A copy, so that a test may add an arrow."""
    return _house().copy()


def test_no_import_runs_up_and_none_in_a_circle():
    graph = house()
    assert graph.number_of_edges() > 40
    assert faults(graph) == []


@pytest.mark.parametrize(
    "arrow",
    [("p2p_sim.network.engine", "p2p_sim.protocol.draws"),
     ("p2p_sim.analysis.privacy.statement.local", "p2p_sim.base.streams"),
     ("p2p_sim.sweeps", "p2p_sim.outputs.export"), ("p2p_sim.outputs.plots", "studies.frame")],
)  # fmt: skip
def test_an_arrow_that_runs_up_is_seen(arrow):
    graph = house()
    graph.add_edge(*arrow)
    assert faults(graph)


def test_files_stay_small():
    sizes = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in modules().items()}
    assert max(sizes.values()) <= 350, max(sizes, key=lambda name: sizes[name])
