"""What a choice among private runs costs."""

from dp_accounting.dp_event import GaussianDpEvent, RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant

from p2p_sim.privacy import NoisyScore, PoissonRuns, Selection, TruncatedNegativeBinomial
from p2p_sim.privacy.randomized_response import bisect
from p2p_sim.privacy.rivals.selection_run_laws import RunLaw

SOURCE = (
    "pytest --doctest-glob='*.md' docs/choices.md",
    "privacy/test_private_selection.py::test_dp_accounting_agrees_on_the_theorems_and_is_never_below_ours",
)
DELTA, BEST, CHANCE = 1e-6, 0.05, 0.5


def _epsilon(scale: float) -> float:
    return NoisyScore(scale, "gaussian").epsilon(DELTA).epsilon_upper


_scale = bisect(lambda scale: _epsilon(scale) > 1.0, 1.0, 20.0, 1e-9)[1]
_run = NoisyScore(_scale, "gaussian")


def _law(shape: float, mean: float) -> RunLaw:
    return PoissonRuns(mean) if shape == float("inf") else TruncatedNegativeBinomial.of_mean(mean, shape)


def _cost(law: RunLaw) -> float:
    return Selection(_run, law).epsilon(DELTA).epsilon_upper


def _theirs(shape: float, mean: float) -> float:
    accountant = RdpAccountant()
    accountant.compose(RepeatAndSelectDpEvent(GaussianDpEvent(_scale), mean, shape))
    return float(accountant.get_epsilon(DELTA))


def _at_chance(shape: float) -> float:
    mean = bisect(lambda m: _law(shape, m).best_share(BEST) < CHANCE, 1.001, 7e4, 1e-6)[1]
    return _cost(_law(shape, mean))


def _row(shape: float, mean: float) -> list[str]:
    law = _law(shape, mean)
    return [
        f"{mean:.0f}",
        f"{_cost(law):.2f}",
        f"{_theirs(shape, mean):.2f}",
        f"{100.0 * law.best_share(BEST):.0f}%",
    ]


table = [_row(shape, mean) for shape in (0.0, 1.0, float("inf")) for mean in (3.0, 10.0, 100.0)]
even = dict(zip(("logarithmic", "geometric", "poisson"), map(_at_chance, (0.0, 1.0, float("inf"))), strict=True))
