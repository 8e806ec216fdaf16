"""All pages that are held against their sources."""

from docs.numbers import clustering_paper, consistency, label_mechanisms, stacking

PAGES = (clustering_paper.PAGE, consistency.PAGE, label_mechanisms.PAGE, stacking.PAGE)
