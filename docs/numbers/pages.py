"""All pages that are held against their sources."""

from docs.numbers import clustering_paper, consistency, stacking

PAGES = (clustering_paper.PAGE, consistency.PAGE, stacking.PAGE)
