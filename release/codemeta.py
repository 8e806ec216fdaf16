"""Writes codemeta.json from pyproject.toml and CITATION.cff: `python -m release.codemeta`."""

import json
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent


def codemeta() -> dict[str, Any]:
    """The project in the terms of CodeMeta 3."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    return {
        "@context": "https://w3id.org/codemeta/3.0",
        "type": "SoftwareSourceCode",
        "name": project["name"],
        "description": project["description"],
        "version": project["version"],
        "license": f"https://spdx.org/licenses/{project['license']}",
        "author": [{"type": "Organization", "name": author["name"]} for author in project["authors"]],
        "keywords": project["keywords"],
        "programmingLanguage": "Python",
        "runtimePlatform": f"Python {project['requires-python']}",
        "operatingSystem": "Linux",
        "developmentStatus": "active",
        "softwareRequirements": project["dependencies"],
        "referencePublication": [
            {"type": "ScholarlyArticle", "name": paper["title"], "datePublished": str(paper["year"])}
            for paper in citation["references"]
        ],
    }


def text() -> str:
    """The content of codemeta.json."""
    return json.dumps(codemeta(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    (ROOT / "codemeta.json").write_text(text(), encoding="utf-8")
