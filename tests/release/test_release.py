"""What a release ships: archives with the same bytes for everybody, and metadata that say the same everywhere."""

import json
import os
import re
import shutil
import sys
import time
import tomllib
from pathlib import Path

import pytest
import yaml

from release.codemeta import text
from tests.conftest import ROOT
from tests.wheels import built, copied, unpacked

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def backend():
    """The build backend as a module."""
    pytest.importorskip("setuptools", "77.0.3")
    sys.path.insert(0, str(ROOT / "release"))
    try:
        import reproducible

        return reproducible
    finally:
        sys.path.remove(str(ROOT / "release"))


def small(folder: Path, when: float, mode: int) -> Path:
    """A source tree of two modules with the project's backend, made at another time and with other rights."""
    folder.mkdir()
    shutil.copytree(ROOT / "release", folder / "release", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "reproducible"\nbackend-path = ["release"]\n'
        '[project]\nname = "two"\nversion = "1"\n[tool.setuptools]\npackages = ["two"]\n'
    )
    (folder / "two").mkdir()
    for name in ("b", "a") if mode == 0o600 else ("a", "b"):
        (folder / "two" / f"{name}.py").write_text(f'"""Module {name}."""\n')
    for path in [*folder.rglob("*")]:
        os.utime(path, (when, when))
        path.chmod(0o755 if path.is_dir() else mode)
    return folder


@pytest.mark.parametrize("hook", ["build_sdist", "build_wheel"])
def test_two_builds_have_the_same_bytes(hook, backend, tmp_path, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    one, two = small(tmp_path / "one", 1.6e9, 0o644), small(tmp_path / "two", time.time(), 0o600)
    archives = [built(source, hook, tmp_path / f"{source.name}-out").read_bytes() for source in (one, two)]
    assert archives[0] == archives[1]
    if hook == "build_sdist":  # the control
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
        assert built(one, hook, tmp_path / "later").read_bytes() != archives[0]


@pytest.mark.slow
def test_two_builds_of_the_project_have_the_same_bytes(backend, tmp_path):
    trees = [copied(tmp_path / name) for name in ("one", "two")]
    for hook in ("build_sdist", "build_wheel"):
        found = [built(tree, hook, tmp_path / f"{hook}-{tree.name}").read_bytes() for tree in trees]
        assert found[0] == found[1]
    tree = unpacked(built(trees[0], "build_sdist", tmp_path / "sdist"), tmp_path / "tree")
    assert built(tree, "build_wheel", tmp_path / "again").read_bytes() == found[0]


def test_the_metadata_say_the_same_everywhere():
    """Version, licence, authors, words; `python -m release.codemeta` writes codemeta.json."""
    assert (ROOT / "codemeta.json").read_text(encoding="utf-8") == text()
    told = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    for name, key in (("title", "name"), ("version", "version"), ("license", "license"), ("keywords", "keywords")):
        assert told[name] == PROJECT[key], name
    assert told["abstract"].removesuffix(".") == PROJECT["description"]
    assert told["authors"] == PROJECT["authors"]
    assert json.loads(text())["softwareRequirements"] == PROJECT["dependencies"]


def test_every_file_that_the_source_distribution_names_is_there():
    lines = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()
    named = [name for line in lines if line.startswith("include ") for name in line.split()[1:]]
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_the_workflows_run_what_is_there_on_the_pythons_that_are_allowed():
    workflow = (ROOT / ".github" / "workflows" / "checks.yml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(workflow)["jobs"]
    matrix = jobs["tests"]["strategy"]["matrix"]
    classified = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r"Python :: 3\.", line)]
    assert set(classified) <= set(matrix["python"])
    assert min(matrix["python"]) == PROJECT["requires-python"].removeprefix(">=")
    targets = set(re.findall(r"^([\w ./]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    known = {name for line in targets for name in line.split()}
    asked = [word for line in re.findall(r"run: make ([^$\n]+)$", workflow, re.MULTILINE) for word in line.split()]
    assert {"docs", "dist", "sbom"} <= set(asked)
    assert set(asked) | set(jobs["lowest-and-newest"]["strategy"]["matrix"]["target"]) <= known | {".venv/.dev"}


def test_the_container_is_built_with_the_two_commands_by_a_user_without_rights():
    steps = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [step.removeprefix("RUN ") for step in steps if step.startswith("RUN make")]
    assert commands == ["make run", "make test"]
    assert all(f"\n{command} " in readme for command in commands)
    assert steps.index("USER sim") < steps.index("RUN make run")
    assert any("-slim" in step for step in steps if step.startswith("FROM debian"))
