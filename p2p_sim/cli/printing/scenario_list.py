"""What `p2p-sim scenarios` shows."""

from collections.abc import Sequence

from rich.table import Table

from p2p_sim.cli.printing.numbers import print_object, show
from p2p_sim.sweeps.catalogue import DATA_SET, Entry, is_here


def print_catalogue(entries: Sequence[Entry]) -> None:
    """Scenarios, then sweeps: name, what it shows, what it needs."""
    for title, sweep in (("Scenarios: p2p-sim run NAME", False), ("Sweeps: p2p-sim sweep NAME", True)):
        if lines := [(entry.name, _told(entry)) for entry in entries if entry.sweep == sweep]:
            table = Table(
                title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, show_header=False
            )
            table.add_column(no_wrap=True)
            for line in lines:
                table.add_row(*line)
            show(table)
            print()
    print("Your own file NAME.toml in the current directory is taken before one of these.")


def print_catalogue_json(entries: Sequence[Entry]) -> None:
    """One JSON object, {"scenarios": [...], "sweeps": [...]}."""
    parts = {"scenarios": False, "sweeps": True}
    print_object({part: [_record(entry) for entry in entries if entry.sweep == sweep] for part, sweep in parts.items()})


def _told(entry: Entry) -> str:
    return f"{entry.shows} (needs {', '.join(map(_state, entry.needs))})" if entry.needs else entry.shows


def _state(need: str) -> str:
    """What a file needs, and whether it is here."""
    here = is_here(need)
    if here is None:
        return need
    name = need.rsplit(" ", 1)[-1]
    way = f", see `p2p-sim data where {name}`" if need.startswith(DATA_SET) else ""
    return f"{need}: found" if here else f"{need}: missing{way}"


def _record(entry: Entry) -> dict[str, object]:
    return {"name": entry.name, "shows": entry.shows, "needs": list(entry.needs), "papers": list(entry.papers),
            "file": str(entry.path)}  # fmt: skip
