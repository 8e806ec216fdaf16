"""The command that writes a first scenario file: a copy of a scenario, or a scenario for somebody's own table."""

import json
import math
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from p2p_sim.base import InputError, find_scenario, no_file, parsed, read_toml, write_whole
from p2p_sim.cli.options import Quiet

if TYPE_CHECKING:
    from p2p_sim.population import Look


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the scenario.", show_default=False)],
    *,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="SCENARIO", help="Shipped scenario or file to copy.  [default: quickstart]"),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your own table (.csv, .tsv, .csv.gz, .parquet, .feather).")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of --data with the labels to protect.")
    ] = None,
    separator: Annotated[
        str | None, typer.Option(metavar="SIGN", help="Separator of the table's cells, if detection fails.")
    ] = None,
    decimal: Annotated[
        str | None, typer.Option(metavar="SIGN", help="Decimal sign of the table's numbers, if detection fails.")
    ] = None,
    thousands: Annotated[
        str | None, typer.Option(metavar="SIGN", help="Separator of the table's thousands, if detection fails.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="Encoding of the table: utf-8, utf-16, latin-1, ...")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write NAME.toml, a commented scenario, to the current directory: a copy, or a scenario for your own table.

    Example: p2p-sim new mine --from quickstart
    """
    from p2p_sim.cli.printing.numbers import say
    from p2p_sim.replicate import default_directory

    # a scenario is either a copy or made for a table: the options do not mix
    if data is None:
        if label is not None:
            raise InputError(f"--label {label}: names a column of a table; give the table with --data FILE")
        created = copied(name, start or "quickstart")
    elif start is not None:
        raise InputError(f"--from {start}: does not go with --data {data}; choose one")
    else:
        options = {"separator": separator, "decimal": decimal, "thousands": thousands, "encoding": encoding}
        created = from_table(name, data, label, {key: value for key, value in options.items() if value is not None})
    print(created.path)
    if quiet:
        return
    say(*(f"  {note}" for note in created.notes))
    print(f"next: p2p-sim validate {created.path}   p2p-sim run {created.path}")
    if created.identity is not None:
        print(f"then: p2p-sim report {default_directory(created.path.stem, created.identity)}")
    if created.loss:
        say(created.loss)


COMMENTS = {
    "path": "beside this file, in the data directory, or in the working directory",
    "label": "what is to be protected; all else is public",
    "classes": "numbered from 0 in this order",
    "header": "line 1 is data; columns are called by their numbers, from 1",
    "separator": "between two cells",
    "decimal": "decimal sign",
    "thousands": "between thousands",
    "encoding": "of the file",
    "dates": "become days from 1970-01-01",
    "missing": "stands for a missing value",
    "features": "public columns to learn from",
    "drop": "users with a missing value there are left out",
    "impute": "missing numbers become the median, texts the most frequent one",
    "one_hot": "each value of a column of text becomes a feature",
    "standardise": "numbers get mean 0 and standard deviation 1",
    "proposed": "the keys above were chosen by looking at the rows",
}
"""The comment beside each key in the new file, for a population of kind "table"."""
TABLE = """\
# {data}: what does a learner get from exchanged labels, and what does it find out about any one user?
name = "{name}"
seed = 1
replicates = 10                # each with a fresh holdout, fresh clusters and fresh noise
engine = "events"              # messages over a simulated network; "vectorised" is faster

[population]
kind = "table"
{keys}

[clusters]
kind = "balanced"              # groups users by their (public) features; sizes differ by at most one user
count = {count:<23}# fewer clusters: a smaller epsilon; more: users of a cluster are more alike

[mechanism]
kind = "label_exchange"
flip_prob = 0.1                # alpha: each user replaces her label by another with this probability, once
sampling_rate = 0.5            # theta: with this probability she passes on the label she fetched

[learner]
kind = "logistic_regression"

[privacy]
delta = {delta:<23}# far below 1/(number of users)
"""
MOST_CLUSTERS = 100
"""The largest number of clusters proposed; it applies above 10,000 users. Then larger clusters lower ε, and cost little
accuracy.
"""


@dataclass(frozen=True)
class NewScenario:
    """A scenario file that was written.

    notes: lines on what the file was made from. identity: the hash of a scenario for a table; None for a copy. loss:
    advice on the columns that are left out, if these are more than the features; else empty.
    """

    path: Path
    notes: tuple[str, ...] = ()
    identity: str | None = None
    loss: str = ""


def copied(name: str, start: str) -> NewScenario:
    """Copy a scenario, and the files that it names, to the current directory under another name. The result has the new
    scenario's path, and notes on what was copied.

    Args:
        name: name of the new scenario. start: a shipped scenario's name, or a file.

    Raises:
        InputError: `start` cannot be copied, or a file would be overwritten. Then nothing is written.
    """
    from p2p_sim.scenario import Scenario

    # replace the first line that sets a name
    path, source = _target(name), find_scenario(start)
    text, tree = source.read_text(encoding="utf-8"), read_toml(source)
    if "axes" in tree:
        raise InputError(f"--from {start}: is a sweep; give the scenario that it varies")
    text, count = re.subn(r"(?m)^name\s*=.*$", f'name = "{path.stem}"', text, count=1)
    if not count:
        raise InputError(f"--from {start}: has no line that begins with name =")
    Scenario.from_tree(parsed(text), source.parent)
    # Copy the files that the scenario names by relative paths. Files with absolute paths stay where they are.
    files = {Path(named): source.parent / named for named in _paths(tree)}
    files = {into: old for into, old in files.items() if not into.is_absolute() and old.is_file()}
    for into in files:
        if into.exists():
            raise InputError(f"{into}: exists already; {path} needs the file of this name from {source.parent}")
    for into, old in files.items():
        into.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(old, into)
    _write(path, text)
    return NewScenario(path, (f"a copy of {source.name}", *(f"with {into}" for into in files)))


def from_table(name: str, data: Path, label: str | None, stated: Mapping[str, str] | None = None) -> NewScenario:
    """Write a scenario for somebody's own table to the current directory. The result has the path, notes on the table,
    the scenario's hash, and advice if many columns are left out.

    Args:
        name: name of the scenario. data: the table. label: the column of labels. stated: the values of "separator",
        "decimal", "thousands" and "encoding" that were given as options.

    Raises:
        InputError: the table cannot be used, or NAME.toml exists. Then nothing is written.
    """
    from p2p_sim.population import look_at
    from p2p_sim.replicate import Replicate, examined
    from p2p_sim.scenario import Scenario

    path = _target(name)
    if not data.is_file():
        raise InputError(f"--data {data}: {no_file(data)}")
    survey = look_at(data, label, stated)
    text = _text(path.stem, data, str(label), survey)
    replicate = Replicate(Scenario.from_tree(parsed(text)))
    examined(replicate)
    _write(path, text)
    count, users = proposed(survey.rows)
    note = (
        f"clusters: {count}, of about {users // count} users each, chosen from the number of users alone; see the file"
    )
    loss = ""  # set if more columns are left out than used
    if len(survey.lost) > len(survey.keys.get("features", ())):
        loss = (
            f"{survey.loss(str(label))}; correct them in the table, or list the columns to use in population.features"
        )
    return NewScenario(path, (*survey.notes, note), replicate.identity, loss)


def proposed(rows: int) -> tuple[int, int]:
    """The proposed number of clusters for a table, and the number of users. There are √users clusters, but at most 100.

    With √users clusters, a cluster has approximately as many users as there are clusters. The proposal does not use the
    labels, so it costs no privacy.

    Args:
        rows: number of rows with a label. 80% of these are users; the others are held out.
    """
    users = max(2, round(0.8 * rows))
    return min(MOST_CLUSTERS, math.isqrt(users)), users


def _text(name: str, data: Path, label: str, survey: "Look") -> str:
    count, users = proposed(survey.rows)
    delta = f"1e-{len(str(users)) + 1}"
    keys = {"path": str(data), "label": label, **survey.keys}
    lines = [f"{f'{key} = {_toml(keys[key])}':<30} # {comment}" for key, comment in COMMENTS.items() if key in keys]
    heading = data.name if data.name.isprintable() else "A table"
    return TABLE.format(data=heading, name=name, keys="\n".join(lines), count=count, delta=delta)


def _toml(value: Any) -> str:
    """A value in TOML's notation. Texts, numbers, truth values and lists have the same notation in JSON."""
    if isinstance(value, dict):  # an inline table
        return f"{{ {', '.join(f'{_toml(key)} = {_toml(item)}' for key, item in value.items())} }}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _target(name: str) -> Path:
    """The path of a new scenario: NAME.toml in the current directory.

    Raises:
        InputError: the name cannot be used, or the file exists.
    """
    path = Path(f"{name.removesuffix('.toml')}.toml")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", path.stem) or path.name != str(path):
        raise InputError(f"NAME {name}: letters, digits, dots, dashes and underscores, the first a letter or a digit")
    if path.exists():
        raise InputError(f"{path}: exists already; choose another name")
    return path


def _paths(tree: Any) -> Iterator[str]:
    """Yields the values of all keys called `path` in nested tables."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "path" and isinstance(value, str):
                yield value
            yield from _paths(value)


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
