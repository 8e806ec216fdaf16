"""The driver of the mutation testing: what it changes, who judges, what is killed."""

import ast

import pytest

pytest.importorskip("cosmic_ray")

from tests.validation.mutation import ROOT, covering
from tests.validation.mutation.covering import function_of, judges, place_of, ran_outside
from tests.validation.mutation.mutants import Mutant, draw, find, mutants_of
from tests.validation.mutation.score import Score, lines
from tests.validation.mutation.worker import measure, run

pytestmark = pytest.mark.slow
MODULE, JUDGE = "p2p_sim/privacy/binomial_windows.py", "tests/privacy/exchange/test_observers.py"


def test_every_drawn_mutant_is_python_and_another_program():
    found = mutants_of(MODULE)
    drawn = draw(found, 40, seed=3)
    assert len(drawn) == 40
    assert drawn == draw(found, 40, seed=3) != draw(found, 40, seed=4)
    for mutant in drawn:
        assert ast.dump(ast.parse(mutant.code)) != ast.dump(ast.parse(mutant.original))
    assert len({mutant.code for mutant in drawn}) == 40


def test_annotations_decorators_and_strings_are_left_alone():
    for mutant in mutants_of("p2p_sim/privacy/rivals/centralised.py"):
        line = mutant.original.splitlines()[mutant.line - 1]
        assert not line.startswith("@")
        assert "->" not in line[: mutant.column]
        assert 'f"' not in line[: mutant.column]


def test_a_statement_is_judged_by_the_tests_that_run_it():
    text = (ROOT / MODULE).read_text(encoding="utf-8").splitlines()
    blanket = (ROOT / "p2p_sim/privacy/exchange/blanket.py").read_text(encoding="utf-8").splitlines()
    constant = next(i for i, line in enumerate(blanket, 1) if line.startswith("BLOCKS = "))
    inside = next(i for i, line in enumerate(text, 1) if "certain = np.isinf(odds)" in line)
    tests = [
        covering.Test("far", 1.0, {MODULE: {1}}),
        covering.Test("slow", 2.0, {MODULE: {inside}}),
        covering.Test("fast", 0.1, {MODULE: {inside}}),
    ]
    mutant = Mutant(MODULE, "NumberReplacer", 0, inside, 0)
    assert [test.name for test in judges(mutant, tests, 10.0)] == ["fast", "slow"]
    assert [test.name for test in judges(mutant, tests, 1.0)] == ["fast"]
    assert function_of(MODULE, inside) == "binomial_products"
    assert function_of(MODULE, 1) is None
    assert place_of("p2p_sim/privacy/exchange/blanket.py", constant)[1] == {"BLOCKS"}
    silent, other = (
        covering.Test(f"{JUDGE}::silent", 0.1, {}),
        covering.Test("tests/privacy/test_privacy_precision.py::u", 0.1, {}),
    )
    unit = Mutant(MODULE, "NumberReplacer", 0, 1 + text.index("UNIT = 2.0**-53"), 0)
    assert judges(unit, [silent, other], 1.0) == [other]


SHARING = """
import pytest
from p2p_sim.privacy.randomized_response import local_epsilon
FIRST = local_epsilon(0.25)
@pytest.fixture(scope="module")
def value():
    return local_epsilon(0.1)
def test_one(value):
    assert value > 2.0
def test_other(value):
    assert value < 3.0
def test_alone():
    assert FIRST > 1.0
"""


def test_what_tests_share_and_what_ran_before_them_is_measured(tmp_path):
    module = "p2p_sim/privacy/randomized_response.py"
    (tmp_path / "test_sharing.py").write_text(SHARING, encoding="utf-8")
    found = measure(str(tmp_path / "test_sharing.py"))
    tests = {
        name.split("::")[1]: covering._test(name, entry, found["fixtures"]) for name, entry in found["tests"].items()
    }
    inside = 1 + (ROOT / module).read_text(encoding="utf-8").splitlines().index("    if flip_prob == 0.0:")
    assert [name for name, test in tests.items() if inside in test.lines.get(module, ())] == ["test_one", "test_other"]
    assert [len(test.shared) for test in tests.values()] == [1, 1, 0]
    outside = {name: set(lines) for name, lines in found["outside"].items()}
    assert ran_outside(module, inside, outside)
    assert not ran_outside(module, inside, {module: {1}})


def test_a_file_s_tests_judge_where_the_project_is_imported_anew():
    inside = 1 + (ROOT / MODULE).read_text(encoding="utf-8").splitlines().index("    certain = np.isinf(odds)")
    mutant = Mutant(MODULE, "NumberReplacer", 0, inside, 0)
    tests = [covering.Test("file", 0.1, {MODULE: {1}})]
    assert judges(mutant, tests, 1.0) == []
    assert judges(mutant, tests, 1.0, anew=True) == tests


def test_a_shared_fixture_is_paid_once():
    inside = 1 + (ROOT / MODULE).read_text(encoding="utf-8").splitlines().index("    certain = np.isinf(odds)")
    tests = [covering.Test(name, 0.1, {MODULE: {inside}}, {"slow": 2.0}) for name in ("one", "other")]
    mutant = Mutant(MODULE, "NumberReplacer", 0, inside, 0)
    assert judges(mutant, tests, 2.5) == tests
    assert judges(mutant, tests, 2.1) == tests[:1]


def test_a_mutant_is_found_again_by_what_it_changes():
    for mutant in draw(mutants_of(MODULE), 5, seed=4):
        found = find(mutant.change | {"result": "failed"})
        assert found is not None
        assert found.code == mutant.code
        assert find(mutant.change | {"old": "what nobody wrote"}) is None
    assert find(mutant.change | {"file": "p2p_sim/privacy/no_such_file.py"}) is None


def test_killed_late_and_survived():
    names = [name for name, test in measure(JUDGE)["tests"].items() if MODULE in test["lines"]]
    assert names
    limits, code = dict.fromkeys(names, 60.0), (ROOT / MODULE).read_text(encoding="utf-8")
    assert run(names, limits).result == "passed"
    assert run(names, limits, MODULE, code).result == "passed"
    wrong = code.replace("weights /= sums", "weights *= sums")
    assert wrong != code
    assert run(names, limits, MODULE, wrong).result == "failed"
    own = "p2p_sim/privacy/rivals/alibi.py"  # a doctest of the module that is changed
    noise = (ROOT / own).read_text(encoding="utf-8").replace("-math.expm1(-inverse)", "math.expm1(-inverse)")
    assert run([f"p2p_sim/{own}::p2p_sim.privacy.rivals.alibi.laplace_variation"], {}, own, noise).result == "failed"
    endless = code.replace("certain = np.isinf(odds)", "while True: pass")
    assert endless != code
    assert run(names, dict.fromkeys(names, 1.0), MODULE, endless).result == "late"


def test_a_survivor_without_a_verdict_counts_as_not_equivalent():
    found = (("p2p_sim/privacy/a", "failed"), ("p2p_sim/privacy/b", "survived"), ("c", "survived"))
    rows = [{"mutant": name, "result": result, "first": result, "seconds": 1.0} for name, result in found]
    score = Score(rows, {"c": "equivalent"}, 10, 1)
    assert score.share == 0.5
    assert score.summary()["survivors"] == {"unexplained": 1, "equivalent": 1}
    assert any("1 of 2" in line for line in lines(score))
