"""Terms on disk. The terms of a row are its privacy statements without ε and δ. Equal terms are stored once."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from p2p_sim.base import InputError, shortened, write_whole
from p2p_sim.privacy import Terms, identifier

STATEMENTS = "statements.jsonl"


def read_lines(path: Path) -> list[Any]:
    """The values in a file of JSON lines. A half-written last line is left out. A missing file gives an empty list.

    Raises:
        InputError: the file is damaged.
    """
    try:
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] if path.exists() else []
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: damaged ({error})") from None


def read_terms(directory: Path) -> dict[str, Terms]:
    """The terms in a results directory, by name. A row has this name in column `statement`. Terms map each column of ε
    to the observer, the conditions and the basis (how ε was computed). If a column is for a paper's bound that does
    not apply to the row, the terms give the reason instead. A missing file gives an empty result.

    Raises:
        InputError: the file is damaged.
    """
    path = directory / STATEMENTS
    try:
        by_name = {line["statement"]: line["columns"] for line in read_lines(path)}
        wrong = next((name for name, terms in by_name.items() if identifier(terms) != name or not _whole(terms)), None)
    except (AttributeError, KeyError, TypeError):
        raise InputError(f"{path}: damaged (a line is no statement)") from None
    if wrong is not None:
        raise InputError(f"{path}: damaged (statement {shortened(wrong)} is incomplete or does not match its checksum)")
    return by_name


def _whole(terms: Terms) -> bool:
    """Whether terms that were read from a file are complete. Each column of ε must have "conditions", each with an
    identifier and a text. If a paper's bound does not apply, the column must have "not_applicable" with a text instead.
    """
    return all(
        "text" in column["not_applicable"]
        if "not_applicable" in column
        else all({"id", "text"} <= set(condition) for condition in column["conditions"])
        for column in terms.values()
    )


def write_terms(directory: Path, frame: pd.DataFrame) -> None:
    """Write the file of terms anew, with only the terms of the rows `frame`, in the order of the rows."""
    terms = read_terms(directory)
    names = dict.fromkeys(frame.get("statement", ()))
    lines = [{"statement": name, "columns": terms[name]} for name in names if name in terms]
    if lines:
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
        write_whole(directory / STATEMENTS, text.encode())
