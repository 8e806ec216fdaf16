"""What to know about a scenario before it runs: what its own data hold, and what is likely not meant."""

from p2p_sim.base.errors import InputError
from p2p_sim.base.notebook_view import count
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare

UNEVEN = 100.0
"""Features whose standard deviations differ by more than this factor are worth a warning."""


def advice(case: Replicate) -> list[str]:
    """Warnings about what a scenario's author probably does not mean, each in a line with a way out.

    Raises:
        InputError: the data cannot be read.
    """
    return [*case.scenario.population.doubts(case.places), *_uneven(case)]


def _uneven(case: Replicate) -> list[str]:
    """A warning if features have very different scales and the clustering or the learner depends on scale; else
    nothing.
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


def examined(case: Replicate) -> list[str]:
    """A scenario as `p2p-sim validate` describes it: its hash first, then what its own data hold, a line each.

    Own data are read, and replicate 0 is prepared, up to the exchange.

    Raises:
        InputError: something is missing or does not fit.
    """
    scenario = case.scenario
    # without the files of a shipped population there is nothing to hash; missing own data are a mistake
    try:
        scenario.population.files(case.places)
    except InputError as missing:
        if scenario.population.own:
            raise
        return [f"without its data there is no hash: {missing}"]
    lines = [f"hash {case.identity[:8]}"]
    if not scenario.population.own:
        return lines
    lines += scenario.population.remarks(case.places)
    sizes = prepare(case).population.cluster_sizes
    shortfall = scenario.clusters.shortfall(len(sizes))
    lines.append(
        f"replicate 0: {count(sizes.sum(), 'user')} in {count(len(sizes), 'cluster')} of "
        f"{sizes.min():,} to {sizes.max():,}"
        f"{shortfall and f' ({shortfall})'}"
    )
    return lines
