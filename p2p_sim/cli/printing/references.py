"""Printing what to cite."""

import json
from collections.abc import Mapping

from p2p_sim.sweeps.catalogue import references


def print_citation(cited: Mapping[str, list[str]], packages: Mapping[str, str]) -> None:
    """Print BibTeX entries; what each stands for is in a line before it, which BibTeX ignores."""
    parts = []
    for key, why in cited.items():
        parts.append("\n".join([*(f"% {line}" for line in why), references()[key].bibtex()]))
    parts += [f"% Plug-in {name} {version}: see its own documentation" for name, version in packages.items()]
    print("\n\n".join(parts))


def print_citation_json(cited: Mapping[str, list[str]], packages: Mapping[str, str]) -> None:
    """Print the same as one JSON object."""
    entries = [
        {"key": key, "type": references()[key].type, **references()[key].fields, "used": why}
        for key, why in cited.items()
    ]
    print(json.dumps({"references": entries, "plug_ins": dict(packages)}, indent=2, ensure_ascii=False))
