"""Analysis of label exchange: privacy, utility, figures. It imports nothing from the simulator.

Its import path is `p2p_sim.analysis`, in a checkout and in a wheel. In a checkout `analysis` is the old path of the
same modules, for one minor version more.
"""

if __name__ == "analysis":
    import importlib
    import sys
    import warnings
    from importlib.abc import Loader, MetaPathFinder
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    class _OldPath(MetaPathFinder, Loader):
        """Finds `analysis.x` as `p2p_sim.analysis.x`: one module under two names, so that its classes are one too."""

        def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
            return ModuleSpec(name, self) if name.startswith("analysis.") else None

        def create_module(self, spec: ModuleSpec) -> ModuleType:
            module = importlib.import_module(f"p2p_sim.{spec.name}")
            spec.loader_state = module.__spec__
            return module

        def exec_module(self, module: ModuleType) -> None:
            assert module.__spec__ is not None
            module.__spec__ = module.__spec__.loader_state  # the import has put the old path's there

    warnings.warn(
        "the import path 'analysis' is now 'p2p_sim.analysis'; the old one works for one minor version",
        DeprecationWarning,
        stacklevel=2,
    )
    sys.meta_path.insert(0, _OldPath())
