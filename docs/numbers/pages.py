"""All pages that are held against their sources."""

from docs.numbers import consistency

PAGES = (consistency.PAGE,)
