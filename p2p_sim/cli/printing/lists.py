"""Lists that commands print: data sets, scenarios, references."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from p2p_sim.base import count
from p2p_sim.cli.printing.numbers import Output, say
from p2p_sim.population import Checked, DataSet
from p2p_sim.sweeps import DATA_SET, Entry, is_here, references

DataSetFiles = tuple[DataSet, list[Checked]]


def _address(data_set: DataSet) -> str | None:
    """The web address of a data set; None if it has none."""
    return data_set.source and data_set.source + (data_set.archive or "")


def print_list(chosen: Sequence[DataSet], in_full: bool) -> None:
    """Print each data set with its source and its readers. If `in_full`, also print the files' sizes and checksums."""
    for data_set in chosen:
        size = sum(file.bytes for file in data_set.files)
        say(f"{data_set.kind}: {data_set.title}")
        say(f"  read by {data_set.used}")
        say(f"  {count(len(data_set.files), 'file')}, {size:,} bytes when not compressed; licence: {data_set.licence}")
        say(f"  source: {_address(data_set) or data_set.get}")
        # in full: the SHA-256 of each version known to be right
        for file in data_set.files if in_full else ():
            say(f"  {' or '.join(file.names)}: {file.bytes:,} bytes{' (optional)' * file.optional}")
            for version, figure in file.sha256.items():
                print(f"    {figure} {version}")
            if file.gz_sha256 is not None:
                print(f"    {file.gz_sha256} {file.name}.gz as published")
    if in_full:
        say("Check figures are SHA-256: of the file itself if its name ends in .gz, else of the uncompressed content.")
    else:
        say("`p2p-sim data list NAME` shows files with check figures. `p2p-sim data where` shows where to put files.")


def print_where(checks: Iterable[DataSetFiles], directory: Path | None) -> None:
    """For each file of some data sets, print where the file is, or where to put it.

    checks: each data set with the files that were looked for. directory: where data files are; None: no directory was
    named.
    """
    if directory is None:
        say("No directory is named: name one with --data-dir DIR, or set P2P_SIM_DATA=DIR.")
    for data_set, files in checks:
        print(f"{data_set.kind}:")
        target, address = (directory or Path("DIR")) / data_set.kind, _address(data_set)
        for held in files:
            absent = f"{'optional' if held.file.optional else 'missing'}: put {held.file.name} into {target}"
            print(f"  {held.path or absent}")
        if any(held.path is None for held in files):
            say(f"  from {address}" if address else f"  {data_set.get}")
    say("Each file may be compressed (.gz) or not. `p2p-sim data fetch NAME` gets data sets with an address.")


def print_check(checks: Iterable[DataSetFiles], directory: Path, named: bool) -> int:
    """Print the version of each file that is here, and the fault of each wrong or missing file. A missing optional file
    is no fault. The result is the number of faults.

    Args:
        checks: each data set with the files that were looked for. directory: where the files should be. named: whether
        the command named the data sets. If not, a data set without files here is no fault.
    """
    faults = 0
    for data_set, files in checks:
        here = [held for held in files if held.path is not None]
        if not here and not named:
            print(f"{data_set.kind}: not in {directory}")
            continue
        print(f"{data_set.kind}:")
        for held in files:
            if held.path is not None:
                print(f"  {held.path}: {held.version or held.fault}")
            elif held.fault:
                print(f"  {held.file.name}: {held.fault}")
            faults += bool(held.fault)
    print(count(faults, "fault") if faults else "no faults")
    return faults


def print_fetched(data_set: DataSet, paths: Sequence[Path]) -> None:
    """Print the files that were fetched."""
    fetched = f"{count(len(paths), 'file')} fetched and checked" if paths else "every file is here already"
    print(f"{data_set.kind}: {fetched}")
    for path in paths:
        print(f"  {path}")


def catalogue_output(entries: Sequence[Entry]) -> Output:
    """The output of `p2p-sim scenarios`: the scenarios, then the sweeps, each with a name and a sentence on the
    purpose. The output also says what a scenario or sweep needs, such as a data set or a plug-in, and whether this
    machine has it. entries: the scenarios and sweeps that come with p2p-sim.
    """
    record, parts = {}, list[Table | str]()
    for title, sweep in (("Scenarios: p2p-sim run NAME", False), ("Sweeps: p2p-sim sweep NAME", True)):
        if chosen := [entry for entry in entries if entry.sweep == sweep]:
            table = Table(
                title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, show_header=False
            )
            table.add_column(no_wrap=True)
            for entry in chosen:
                needs = f" (needs {', '.join(map(_state, entry.needs))})" if entry.needs else ""
                table.add_row(entry.name, f"{entry.shows}{needs}")
            parts += [table, ""]
        record["sweeps" if sweep else "scenarios"] = [
            {"name": entry.name, "shows": entry.shows, "needs": list(entry.needs), "papers": list(entry.papers),
             "file": str(entry.path)}
            for entry in chosen
        ]  # fmt: skip
    return Output(
        record, [*parts, "A file NAME.toml in the current directory replaces the scenario or sweep NAME of this list."]
    )


def _state(need: str) -> str:
    """A need of a shipped scenario or sweep, such as "data set adult", "plug-in NAME" or "extra [deep]". The word
    "found" or "missing" after the need says whether this machine has what is needed. For a missing data set, a helpful
    command follows. If only a run can check a need, nothing is added.
    """
    here = is_here(need)
    if here is None:
        return need
    way = f", see `p2p-sim data where {need.removeprefix(DATA_SET)}`" if need.startswith(DATA_SET) else ""
    return f"{need}: found" if here else f"{need}: missing{way}"


def print_citation(cited: Mapping[str, list[str]], packages: Mapping[str, str]) -> None:
    """Print BibTeX entries of references. Comment lines above each entry name the scenario's settings that rest on this
    reference. Comments at the end name each plug-in and its version, and point to the plug-in's own documentation.

    Args:
        cited: for the BibTeX key of each reference, the settings that rest on it, such as "mechanism.kind =
        label_exchange". packages: the version of each plug-in, by its package's name.
    """
    parts = ["\n".join([*(f"% {line}" for line in why), references()[key].bibtex()]) for key, why in cited.items()]
    parts += [f"% Plug-in {name} {version}: see its own documentation" for name, version in packages.items()]
    print("\n\n".join(parts))


def print_citation_json(cited: Mapping[str, list[str]], packages: Mapping[str, str]) -> None:
    """Print references and plug-ins as one JSON object.

    cited: for the BibTeX key of each reference, the settings that rest on it. packages: the version of each plug-in, by
    its package's name.
    """
    entries = [
        {"key": key, "type": references()[key].type, **references()[key].fields, "used": why}
        for key, why in cited.items()
    ]
    print(json.dumps({"references": entries, "plug_ins": dict(packages)}, indent=2, ensure_ascii=False))
