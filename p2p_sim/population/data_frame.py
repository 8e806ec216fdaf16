"""Turns a data frame of Python into a population: writes a file that is named by a hash of the content."""

import atexit
import hashlib
import os
import shutil
import warnings
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from p2p_sim.base import InputError, refusal, write_whole
from p2p_sim.population.data_files import FRAME, frames
from p2p_sim.population.table import TableConfig
from p2p_sim.population.table_survey import look_at


def table(frame: Any, label: str, **keys: Any) -> TableConfig:
    """A data frame as the population of a scenario, with a row for each user.

    Columns are treated as the command `p2p-sim new` proposes. Texts become one-hot, and numbers are standardised.
    Missing values are filled in, and identifiers are left out. The proposal looks at the rows, so a mechanism that
    protects whole rows refuses the table. With `proposed=False`, the caller states that no key (setting) was chosen by
    looking at private rows. The frame's content identifies the population. The frame is kept in a file until this
    process ends. Other processes of the same account on this machine can read the file.

    Args:
        frame: a pandas data frame, or an object with `__dataframe__` (Polars, PyArrow and others).
        label: name of the column of private labels.
        keys: keys of `[population]` with kind = "table"; they replace the proposed keys.

    Raises:
        InputError: `frame` is no data frame or has no such column, or a key does not fit.

    >>> import pandas as pd
    >>> people = pd.DataFrame({"age": [20, 30, 40, 50] * 10, "ill": ["yes", "no"] * 20})
    >>> found = table(people, label="ill")
    >>> found.classes, found.standardise, found == table(people.copy(), label="ill")
    (('no', 'yes'), True, True)
    """
    content = _content(frame)
    name = f"{FRAME}{hashlib.sha256(content).hexdigest()[:16]}.feather"
    path = _own_directory(os.getpid()) / name
    if not path.is_file():
        write_whole(path, content)
    stated = {key: sign for key in ("decimal", "thousands") if isinstance(sign := keys.get(key), str)}
    proposed = look_at(path, label, stated)
    if "features" not in keys and proposed.lost:
        warnings.warn(f"table: {proposed.loss(label)}; choose others by features=[...]", UserWarning, stacklevel=2)
    chosen = proposed.keys | keys
    plain = {key: tuple(value) if isinstance(value, list) else value for key, value in chosen.items()}
    try:
        return TableConfig.model_validate({"path": name, "label": label, **plain})
    except ValidationError as error:
        raise refusal(error, TableConfig) from None


@cache
def _own_directory(process: int) -> Path:
    """The directory for the data frames of this process; `process` is the number of the process.

    The directory is removed when this process ends, but not when a forked process ends.
    """
    directory = frames() / str(process)
    directory.mkdir(mode=0o700, exist_ok=True)
    atexit.register(lambda: shutil.rmtree(directory, ignore_errors=True) if os.getpid() == process else None)
    return directory


def _content(frame: Any) -> bytes:
    """The columns of a data frame as the bytes of an Arrow file. Equal frames give equal bytes.

    Raises:
        InputError: `frame` is no data frame, or two columns have the same name.
    """
    import pandas as pd
    import pyarrow as pa
    from pyarrow.interchange import from_dataframe

    if not hasattr(frame, "__dataframe__"):
        raise InputError(f"frame: must be a data frame, such as one of pandas, not {type(frame).__name__}")
    try:
        if isinstance(frame, pd.DataFrame):
            names = [str(name) for name in frame.columns]
            if len(set(names)) < len(names):
                twice = next(name for i, name in enumerate(names) if name in names[:i])
                raise InputError(f"frame: two columns are called {twice!r}; each needs a name of its own")
            held = pa.Table.from_pandas(frame.set_axis(names, axis="columns"), preserve_index=False)
        else:
            held = from_dataframe(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"frame: {'; '.join(map(str, error.args))}") from None
    # metadata and chunks depend on library versions; without both, equal frames have equal bytes
    sink = pa.BufferOutputStream()
    plain = held.replace_schema_metadata(None).combine_chunks()
    with pa.ipc.new_file(sink, plain.schema) as out:
        out.write_table(plain)
    return bytes(sink.getvalue().to_pybytes())
