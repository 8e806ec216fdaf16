"""Which column of rows says how good what was released is."""

from typing import Literal

import pandas as pd

Quality = Literal["excess_risk", "accuracy", "half_l1", "cells"]


def quality(rows: pd.DataFrame) -> Quality:
    """Excess risk where it is known, else accuracy; of densities half-L1 where the law is known, else how many cells.

    Args:
        rows: of replicates or of points, at least one.

    >>> quality(pd.DataFrame({"excess_risk": [None], "error_rate": [None], "half_l1": [0.2], "cells": [9.0]}))
    'half_l1'
    """
    if "excess_risk" in rows and rows["excess_risk"].notna().all():
        return "excess_risk"
    if "cells" in rows and rows["error_rate"].isna().all():
        return "half_l1" if rows["half_l1"].notna().all() else "cells"
    return "accuracy"
