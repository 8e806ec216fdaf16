"""All pages that are held against their sources."""

from docs.numbers import (
    benchmarks,
    clustering_paper,
    coalitions,
    consistency,
    how_private,
    internet_scale,
    label_mechanisms,
    many_machines,
    network,
    papers,
    privacy,
    readme,
    stacking,
    sweeps,
    theorem,
    tutorial,
)
from docs.numbers.page import Page

WITHOUT_NUMBERS = (
    "index", "extending", "observers", "two-engines", "choose-flip-prob", "own-network", "paper-figures",
    "results-in-python", "scenario-keys", "command-line", "row-columns", "api", "api-privacy", "api-utility",
    "api-estimators", "gallery",
)  # fmt: skip
"""Pages whose only results stand in blocks of code, which are run as doctests, or in lists that are generated."""

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
    benchmarks.PAGE,
    internet_scale.PAGE,
    tutorial.PAGE,
    papers.PAGE,
    coalitions.PAGE,
    *(Page(f"docs/{name}.md", ()) for name in WITHOUT_NUMBERS),
)
