"""Labels of a user's table: places of stated classes, or numbers."""

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.errors import InputError, shortened
from p2p_sim.population.features import Rows, quoted
from p2p_sim.population.table_columns import complete_values
from p2p_sim.population.table_file import ColumnTable, Values

Classes = tuple[str | int | float, ...]


def numbers_of(label: str, table: ColumnTable, values: Values) -> NDArray[np.float64]:
    """Labels (m,) that are finite numbers.

    Raises:
        InputError: they are texts, or one is infinite.
    """
    if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise InputError(f"population.label = {label!r}: label_range needs finite numbers in {table.path}")
    return values.astype(np.float64)


def stated_places(asked: tuple[str, Classes], table: ColumnTable, kept: Rows, values: Values) -> NDArray[np.uint8]:
    """Number of each kept row's class in the stated order.

    Args:
        asked: column of the label, and all classes in their order. table: the file. kept, values: (m,) indices of its
            rows that are used, and their labels.

    Raises:
        InputError: classes are texts where labels are numbers, or the reverse, or a label is not among them.
    """
    label, classes = asked
    words = values.dtype.kind in "US"
    for stated in classes:
        if isinstance(stated, str) != words:
            kind, example = ("text", quoted(str(stated))) if words else ("numbers", "[0, 1]")
            raise InputError(
                f"population.classes: {stated!r}: column {label!r} of {table.path} holds {kind}; write it as "
                f"in {example}"
            )
    place = {stated if words else float(stated): k for k, stated in enumerate(classes)}
    numbers = [place.get(str(value) if words else float(value), -1) for value in values.tolist()]
    unknown = np.flatnonzero(np.array(numbers) < 0)
    if unknown.size:
        where, text = table.cell(label, int(kept[unknown[0]]))
        shown = shortened(", ".join(map(name_of, classes)))
        raise InputError(
            f"{table.path}: {where}: {shortened(text.strip())!r} is not among population.classes ({shown}); add it "
            "there, or to population.missing with drop = true"
        )
    return np.array(numbers, dtype=np.uint8)


def numbered_classes(
    asked: tuple[str, Classes | None], table: ColumnTable, kept: Rows
) -> tuple[NDArray[np.uint8], list[str]]:
    """Number of each kept row's class (m,), and the classes' names: as stated, else those that occur, sorted.

    Args:
        asked: column of the label, and all classes in their order, if they are stated. table: the file.
        kept: (m,) indices of its rows that are used.
    """
    label, classes = asked
    values = complete_values(table, label, "label", kept)
    if classes is not None:
        return stated_places((label, classes), table, kept, values), [name_of(value) for value in classes]
    found, labels = np.unique(values, return_inverse=True)
    if not 2 <= len(found) <= 256:
        kind = "; a label is a class, so divide its numbers into a few ranges first" if len(found) > 256 else ""
        kind += ", or give population.label_range" if kind and values.dtype.kind in "biuf" else ""
        raise InputError(
            f"population.label = {label!r}: {len(found)} distinct values in {table.path}; 2 to 256 are allowed{kind}"
        )
    return labels.astype(np.uint8), [name_of(value) for value in found.tolist()]


def name_of(value: object) -> str:
    """A class as messages show it."""
    return f"{value:g}" if isinstance(value, float) else str(value)
