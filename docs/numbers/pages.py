"""All pages that are held against their sources."""

from docs.numbers import (
    clustering_paper,
    consistency,
    how_private,
    label_mechanisms,
    many_machines,
    network,
    privacy,
    readme,
    stacking,
    sweeps,
    theorem,
)

PAGES = (
    readme.PAGE,
    how_private.PAGE,
    privacy.PAGE,
    theorem.PAGE,
    network.PAGE,
    sweeps.PAGE,
    many_machines.PAGE,
    clustering_paper.PAGE,
    label_mechanisms.PAGE,
    stacking.PAGE,
    consistency.PAGE,
)
