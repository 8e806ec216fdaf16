"""All pages that are held against their sources."""

from docs.numbers import consistency, how_private, many_machines, network, privacy, readme, sweeps, theorem

PAGES = (
    readme.PAGE,
    how_private.PAGE,
    privacy.PAGE,
    theorem.PAGE,
    network.PAGE,
    sweeps.PAGE,
    many_machines.PAGE,
    consistency.PAGE,
)
