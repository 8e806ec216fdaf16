"""Many experiments: expand axes, run in parallel, keep every finished row."""

import sys
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    """This package, which hides the function `p2p_sim.sweep` once it is imported, and so is called in its place."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from p2p_sim.sweep.drive import sweep

        return sweep(*args, **kwargs)


sys.modules[__name__].__class__ = _Package
