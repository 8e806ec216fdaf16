"""Many experiments: expand axes, run in parallel, keep every finished row.

The package is also what `p2p_sim.sweep` names once any of its modules has been imported: it can be called as that
function is.
"""

import sys
from types import ModuleType
from typing import Any


class _Sweep(ModuleType):
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """As `p2p_sim.sweep.drive.sweep`."""
        from p2p_sim.sweep.drive import sweep

        return sweep(*arguments, **named)


sys.modules[__name__].__class__ = _Sweep
