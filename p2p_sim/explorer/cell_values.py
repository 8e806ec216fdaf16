"""Cells of results as people read them."""

import numpy as np

from p2p_sim.base.notebook_view import bound_text
from p2p_sim.figures.column_labels import value
from p2p_sim.measures.point_means import is_privacy


def shown_cell(column: str, cell: object) -> str:
    """A cell as people read it; bounds on privacy are rounded to the side on which they hold."""
    plain = cell.item() if isinstance(cell, np.generic) else cell
    if isinstance(plain, float) and is_privacy(column) and column != "delta" and not np.isnan(plain):
        return bound_text(plain, "lower" not in column)
    return value(plain)
