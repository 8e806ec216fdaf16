"""The old import path of the analysis, in a process of its own: the same modules, and a word of warning."""

import re
import subprocess
import sys

from tests.conftest import ROOT

PROGRAM = """
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    from analysis.privacy import LabelExchange
    import analysis.figures.style
    from analysis import utility
import p2p_sim.analysis.privacy as new, p2p_sim.analysis.utility
assert LabelExchange is new.LabelExchange
assert utility is p2p_sim.analysis.utility
assert new.__spec__.name == new.__name__ == "p2p_sim.analysis.privacy"
print([str(w.message) for w in said if w.category is DeprecationWarning and "analysis" in str(w.message)])
"""


def test_the_old_path_leads_to_the_same_classes():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.count("the import path 'analysis' is now 'p2p_sim.analysis'") == 1


def test_nothing_in_the_project_uses_it():
    old = re.compile(r"^\s*(from|import) analysis\b", re.MULTILINE)
    places = [p for top in ("p2p_sim", "analysis", "studies", "docs", "benchmarks") for p in (ROOT / top).rglob("*.py")]
    assert len(places) > 200
    assert [p for p in places if old.search(p.read_text(encoding="utf-8"))] == []
