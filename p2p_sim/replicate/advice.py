"""Remarks and warnings about a scenario before it runs: about the person's own data, and about likely mistakes."""

from p2p_sim.base import InputError, count
from p2p_sim.mechanisms import ProtocolConfig
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare

UNEVEN = 100.0
"""A warning is given if the standard deviations of two features differ by more than this factor."""


def advice(case: Replicate) -> list[str]:
    """Warnings about likely mistakes in a scenario, perhaps none. Each is one line with advice.

    Raises:
        InputError: the data cannot be read.
    """
    return [*case.scenario.population.doubts(case.places), *_uneven(case), *_waiting(case)]


def _uneven(case: Replicate) -> list[str]:
    """At most one warning: the clustering or the learner depends on scale, and the scales of features differ widely.

    A warning needs a largest standard deviation of a feature above 100 times the smallest.
    """
    scenario = case.scenario
    learner = f"the learner ({scenario.learner.kind})" if scenario.learner.depends_on_scale else ""
    depends = [name for name in (scenario.clusters.by_distance, learner) if name]
    spreads = case.scenario.population.spreads(case.places) if depends else {}
    if not spreads:
        return []
    wide, narrow = max(spreads, key=spreads.__getitem__), min(spreads, key=spreads.__getitem__)
    if spreads[wide] <= UNEVEN * spreads[narrow]:
        return []
    verb = "depends" if len(depends) == 1 else "depend"
    return [
        f"population: column {wide!r} varies {spreads[wide] / spreads[narrow]:,.0f} times as widely as {narrow!r} "
        f"(standard deviations {spreads[wide]:.3g} and {spreads[narrow]:.3g}), and {' and '.join(depends)} {verb} on "
        "scale; population.standardise = true makes them alike"
    ]


def _waiting(case: Replicate) -> list[str]:
    """At most one warning: users who follow a plug-in's protocol may wait for a reply that never comes.

    A warning needs network faults or active adversaries, and no `network.request_timeout_s`.
    """
    scenario = case.scenario
    plug_in = isinstance(scenario.mechanism, ProtocolConfig) and scenario.mechanism_claimed_by
    fails = (*scenario.network.faults, *scenario.adversaries.active)
    if not plug_in or scenario.network.request_timeout_s is not None or not fails:
        return []
    return [
        "mechanism: without network.request_timeout_s, a process at `yield me.ask()` waits for ever if no reply comes, "
        f"as may happen here ({', '.join(fails)})"
    ]


def examined(case: Replicate) -> list[str]:
    """The lines that `p2p-sim validate` prints: the scenario's hash, and remarks on the person's own data.

    For own data or a plug-in's mechanism, replicate 0 is prepared up to the exchange. A further line then has numbers
    of users and clusters. A plug-in's mechanism is also asked for bounds: a wrong accountant, or a wrong matrix of
    noise probabilities, is refused. If data files of this project are missing, the only line says that there is no
    hash.

    Raises:
        InputError: something is missing or does not fit.
    """
    scenario = case.scenario
    own, plug_in = scenario.population.own, bool(scenario.mechanism_claimed_by)
    # missing files of own data are an error; without the files of a population of this project, there is no hash yet
    try:
        scenario.population.files(case.places)
    except InputError as missing:
        if own:
            raise
        return [f"without its data there is no hash: {missing}"]
    lines = [f"hash {case.identity[:8]}"]
    if not (own or plug_in):
        return lines
    if own:
        lines += scenario.population.remarks(case.places)
    ready = prepare(case)
    sizes = ready.population.cluster_sizes
    if plug_in:
        ready.mechanism.privacy(sizes, scenario.privacy.delta)
    shortfall = scenario.clusters.shortfall(len(sizes))
    lines.append(
        f"replicate 0: {count(sizes.sum(), 'user')} in {count(len(sizes), 'cluster')} of "
        f"{sizes.min():,} to {sizes.max():,}"
        f"{shortfall and f' ({shortfall})'}"
    )
    return lines
