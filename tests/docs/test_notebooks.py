"""The notebooks of the docs: every cell runs, and their figures are written."""

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

CELL = re.compile(r"^```\{code-cell\} python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BOOKS = {"notebook-own-data.md": "accuracy.png", "notebook-paper-figure.md": "figure.pdf"}


def cells(page: str) -> list[str]:
    """The code cells of a page, in order."""
    return CELL.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))


def test_every_notebook_is_known_here():
    pages = {path.name for path in (ROOT / "docs").glob("*.md") if "file_format: mystnb" in path.read_text()}
    assert pages == set(BOOKS)


@pytest.mark.slow
@pytest.mark.parametrize("page", BOOKS)
def test_the_cells_run_one_after_another(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names: dict[str, object] = {"__name__": "__main__"}
    for number, source in enumerate(cells(page)):
        alone = source.replace("workers=2", "workers=1")  # processes take longer to start than these sweeps
        exec(compile(alone, f"cell {number} of {page}", "exec"), names)
    assert (tmp_path / BOOKS[page]).stat().st_size > 5_000
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.mark.slow
@pytest.mark.parametrize("page", BOOKS)
def test_a_kernel_runs_the_cells(page, tmp_path: Path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells(page)])
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert all(cell.outputs for cell in book.cells)
    figures = [output for cell in book.cells for output in cell.outputs if "image/png" in output.get("data", {})]
    assert len(figures) == sum("plot(" in source for source in cells(page))
