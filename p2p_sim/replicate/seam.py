"""What a plug-in hands over, checked where it enters: a wrong shape or number would end in figures that look right.

The simulator's own kinds have tests for this. Each check costs one look at what is handed over.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from p2p_sim.analysis.privacy.statement.bound import OBSERVERS, PrivacyBound
from p2p_sim.base.errors import RunFailed
from p2p_sim.base.plugins import LEARNERS, MECHANISMS, offer_of
from p2p_sim.learning.ridge import LinearValues
from p2p_sim.mechanisms.interface import Accounted
from p2p_sim.mechanisms.outcome import ByCluster, LabelRelease, ModelRelease, Outcome, Predictor, Tally
from p2p_sim.population.population import People
from p2p_sim.replicate.case import Case

ADJACENCIES = ("label", "example")


def check_release(case: Case, people: People, outcome: Outcome) -> None:
    """Refuse a release of a plug-in that no learner could have got from these users.

    Raises:
        RunFailed: one line that names the package and its method.
    """
    kind = case.scenario.mechanism.kind
    if (offer := offer_of(MECHANISMS, kind)) is None:
        return
    fault = _release_fault(case, people, outcome)
    if fault:
        raise RunFailed(f"plug-in {offer}: release_on of mechanism.kind = {kind!r}: {fault}")


def _release_fault(case: Case, people: People, outcome: Outcome) -> str:
    release, asked = outcome.release, case.scenario.mechanism.releases
    if isinstance(release, Tally):
        return ""
    if isinstance(release, ModelRelease):
        return "" if asked == "model" else f"releases a model where its configuration says {asked!r}"
    if not isinstance(release, LabelRelease) or release.kind != asked:
        found = getattr(release, "kind", type(release).__name__)
        return f"releases {found!r} where its configuration says {asked!r}"
    user, payload = release.user, release.payload
    if user.ndim != 1 or user.dtype.kind not in "iu" or np.any(user[1:] <= user[:-1]):
        return "users must be integers (m,) that increase: each user submits once at most"
    if user.size and not 0 <= user[0] <= user[-1] < people.num_users:
        return f"users must lie in 0..{people.num_users - 1}"
    classes = people.num_classes
    shapes = {"hard": (), "values": (), "bits": (-(-classes // 8),), "soft": (classes,), "signed": (classes,)}
    if payload.shape != (user.size, *shapes[release.kind]):
        wanted = ", ".join(map(str, ("m", *shapes[release.kind])))
        return f"payload of kind {release.kind!r} has shape {payload.shape}; it must be ({wanted}) for m = {user.size}"
    if payload.dtype.kind == "f" and not np.isfinite(payload).all():
        return "payload holds NaN or infinite numbers"
    if release.kind == "hard" and payload.size:
        whole = payload.dtype.kind in "iu" or np.array_equal(payload, np.floor(payload))
        if not whole or payload.min() < 0 or payload.max() >= classes:
            return f"labels must be whole numbers in 0..{classes - 1}"
    return ""


def check_accounted(case: Case, clusters: int | None, accounted: Accounted) -> None:
    """Refuse a statement of a plug-in that is none.

    Args:
        case: what was run. clusters: how many there are; None: of some there is no bound. accounted: what is stated.

    Raises:
        RunFailed: one line that names the package and its method.
    """
    kind = case.scenario.mechanism.kind
    if (offer := offer_of(MECHANISMS, kind)) is None:
        return
    stated = (bound for bound in accounted.statements.values() if isinstance(bound, PrivacyBound))
    fault = _statement_fault([*accounted.learner, *stated], case.scenario.privacy.delta)
    if not fault and clusters is not None and len(accounted.learner) != clusters:
        fault = f"states {len(accounted.learner)} bounds for {clusters} clusters"
    if fault:
        raise RunFailed(f"plug-in {offer}: privacy of mechanism.kind = {kind!r}: {fault}")


def _statement_fault(bounds: Iterable[PrivacyBound], delta: float) -> str:
    for bound in bounds:
        if not isinstance(bound, PrivacyBound):
            return f"states {bound!r}, which is no PrivacyBound"
        lower, upper = bound.epsilon_lower, bound.epsilon_upper
        if bound.observer not in OBSERVERS:
            return f"observer {bound.observer!r} is not one of {', '.join(OBSERVERS)}"
        if bound.adjacency not in ADJACENCIES:
            return f"adjacency {bound.adjacency!r} is not one of {', '.join(ADJACENCIES)}"
        if not (lower >= 0.0 and upper >= 0.0) or lower > upper * (1.0 + 1e-12):
            return f"epsilon_lower = {lower:g} and epsilon_upper = {upper:g}: must be at least 0, the lower one first"
        if not 0.0 <= bound.delta <= delta * (1.0 + 1e-12):
            return f"delta = {bound.delta:g}: must be at most the scenario's, {delta:g}"
    return ""


def checked(case: Case, predictor: Predictor, num_classes: int) -> Predictor:
    """The predictor, whose answers are checked if a plug-in's learner or mechanism made it."""
    scenario = case.scenario
    of_mechanism = scenario.mechanism.releases == "model"
    key = "mechanism" if of_mechanism else "learner"
    group, kind = (MECHANISMS, scenario.mechanism.kind) if of_mechanism else (LEARNERS, scenario.learner.kind)
    offer = offer_of(group, kind)
    if offer is None or isinstance(predictor, ByCluster | LinearValues):
        return predictor
    if not hasattr(predictor, "probabilities"):
        raise RunFailed(
            f"plug-in {offer}: {key}.kind = {kind!r} gives {type(predictor).__name__}, without probabilities"
        )
    return _Checked(predictor, num_classes, f"plug-in {offer}: the predictor of {key}.kind = {kind!r}")


class _Checked:
    """A predictor whose probabilities are numbers of the right shape, or nothing is measured."""

    def __init__(self, predictor: Predictor, num_classes: int, named: str) -> None:
        self._predictor, self._num_classes, self._named = predictor, num_classes, named

    def probabilities(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        """Predicted class probabilities (n, K) of the features (n, d)."""
        found = np.asarray(self._predictor.probabilities(features))
        if found.shape != (len(features), self._num_classes) or found.dtype.kind not in "fiu":
            raise RunFailed(
                f"{self._named}: probabilities has shape {found.shape}; it must be {(len(features), self._num_classes)}"
            )
        if not np.isfinite(found).all() or (found.size and found.min() < 0.0):
            raise RunFailed(f"{self._named}: probabilities must be finite and at least 0")
        return found
