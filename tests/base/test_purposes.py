"""The purposes of random streams address the draws: a renamed purpose is another draw, so they stay as they are."""

import ast

from tests.conftest import ROOT

# fmt: off
PURPOSES = {
    "audit-coin", "audit-noise", "audit-rehearsal", "availability", "availability-join", "availability-leave",
    "bag-leave", "bag-noise", "bag-shares", "bags", "cluster-noise", "clusters", "curator-labels", "curator-noise",
    "dp-sgd", "flip",
    "half", "histogram choice", "histogram net", "histogram {}", "holdout", "keep", "key[0]", "labels held back",
    "latency-{}", "law", "learner", "models-groups", "models-high", "models-own", "models-parts", "models-{}-{}",
    "overlay", "pate-noise", "pate-shards", "peer", "plot-bootstrap", "population", "private score",
    "private-density", "private-histogram", "private-histogram-labelled", "protocol/peers", "protocol/{}",
    "purpose", "rehearsal", "resample", "role-{}",
    "second", "shuffle", "start", "view", "view-slot", "walk-{}",
}
# fmt: on


def purposes() -> set[str]:
    """First arguments of calls that open a random stream; `{}` stands for what is put in at run time."""
    found = set()
    for path in (ROOT / "p2p_sim").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            if node.func.attr in ("generator", "uniforms", "integer_seed"):
                found.add(text(node.args[0]))
    return found


def text(node: ast.expr) -> str:
    """A string, or an expression as it is written."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return ast.unparse(node)


def test_no_purpose_was_renamed():
    assert purposes() == PURPOSES
