"""The release of one replicate as a part of a composition of several releases."""

import math
from pathlib import Path

from p2p_sim.base import InputError, count_of, optional_path
from p2p_sim.privacy import OnePoint, PrivacyBound, RunRelease
from p2p_sim.replicate.replicate import Replicate, scenario_of
from p2p_sim.replicate.run import exchange
from p2p_sim.scenario import Scenario


def release(
    scenario: Scenario | str | Path,
    replicate: int = 0,
    data_dir: str | Path | None = None,
    at_delta: float = 1e-8,
) -> RunRelease:
    """The release of a replicate for `compose`: its accountant, and the seeds of its random numbers.

    Args:
        scenario: what to run, the path of its file, or the name of a shipped one; `noise_salt` gives the same users
            fresh noise.
        replicate: its index.
        data_dir: where data files are; default: the environment variable P2P_SIM_DATA.
        at_delta: δ of the statement that is composed where a mechanism states ε at one δ alone.

    Raises:
        InputError: an argument is of a wrong type, the scenario cannot be run, or it states no finite ε.
    """
    case = Replicate(scenario_of(scenario), count_of("replicate", replicate, 0), optional_path("data_dir", data_dir))
    ran, completed = case.scenario, exchange(case)
    mechanism, sizes = completed.mechanism, completed.population.cluster_sizes
    situation = ran.situation(completed.population.num_classes)
    accountant = mechanism.accountant_of(completed.outcome, sizes, situation)
    if accountant is None:
        account = mechanism.account(completed.outcome, sizes, situation, at_delta)
        stated = account.statements["epsilon_upper"]
        if not isinstance(stated, PrivacyBound) or math.isinf(stated.epsilon_upper):
            raise InputError(f"{ran.name}: states no finite ε at δ = {at_delta:g}")
        accountant = OnePoint(stated)
    return RunRelease(accountant, ran.seed, case.replicate, ran.noise_salt)
