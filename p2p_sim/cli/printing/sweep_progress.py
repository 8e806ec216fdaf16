"""What `p2p-sim sweep` prints: the plan, the progress and the results."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from p2p_sim.base import count, progress_shown
from p2p_sim.cli.printing.numbers import more_on_disk, print_object, show, two_columns, worst_row
from p2p_sim.measures import points_not_above
from p2p_sim.privacy import statement_of, whole
from p2p_sim.results import FAILURES, MANIFEST, ROWS, TABLE, Key, read_terms
from p2p_sim.sweeps import Progress, Report, SweepPlan, SweepResult


def print_plan(plan: SweepPlan, held: set[Key], directory: str) -> None:
    """Print the plan of a sweep on standard error, before the sweep runs. A point is a combination of the axes' values.
    A replicate is a random repetition of a point. The plan has the values of each axis, the number of replicates, and
    how many replicates are on disk.

    Args:
        plan: the sweep. held: the results on disk, as pairs of a point's identifier and a replicate's number. Results
        that the sweep does not ask for are counted separately. directory: where the results go.
    """
    total = plan.size * plan.replicates
    present = sum(plan.asks_for(point, replicate) for point, replicate in held)
    # a line for each axis, with the names and the values; of a long list, the first four values and the last are shown
    lines = []
    for axis, values in zip(plan.axes, plan.steps, strict=True):
        steps = [str(v[0] if len(v) == 1 else v) for v in values] if axis.labels is None else list(axis.labels)
        text = ", ".join(steps)
        if len(steps) > 8:
            text = f"{', '.join(steps[:4])}, ... {steps[-1]} ({len(steps)} values)"
        lines.append((" with ".join(axis.names), text))
    on_disk = f"of which {present:,} are on disk{more_on_disk(len(held) - present)}"
    lines += [
        ("replicates", f"{plan.replicates:,} of each point: {total:,}, {on_disk}"),
        ("results", directory),
    ]
    show(two_columns(f"{plan.name}: a sweep of {count(plan.size, 'point')}", lines), stderr=True)


@contextmanager
def progress(name: str, total: int, quiet: bool = False) -> Iterator[Report]:
    """A context that shows the progress of a sweep. A terminal shows a bar; elsewhere a line appears every ten seconds.
    The context yields a function, which the sweep calls with each new state. The first line with a remaining time is
    printed at once.

    Args:
        name: the sweep's name. total: number of replicates of all points together. quiet: show nothing.
    """
    with progress_shown(name, "replicates", total, estimate=False, quiet=quiet) as show:
        begun = False

        def report(state: Progress) -> None:
            nonlocal begun
            first = state.task_s is not None and not begun
            begun = begun or first
            show(state.finished + state.failed, state.replicates, _rest(state), news=first)

        yield report


def _rest(state: Progress) -> str:
    """The end of a progress line: the numbers of points and of failed replicates, and the remaining time."""
    text = f" of {count(state.points, 'point')}" + (f"; {state.failed:,} failed" if state.failed else "")
    if state.remaining_s is not None:
        each = f"{state.task_s or 0.0:.2g} s each, {state.workers} at a time"
        text += f"; about {duration(state.remaining_s)} to go ({each})"
    return text


def duration(seconds: float) -> str:
    """A duration as text, such as "8 s", "12 min" or "3.5 h". Minutes begin at 100 s, and hours at 100 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def print_sweep(plan: SweepPlan, result: SweepResult, figures: list[str], quiet: bool) -> None:
    """Print the number of rows of results, and the number of points that these rows cover. Then print the paths of
    results and pictures. Failed replicates are always reported on standard error.

    Args:
        plan: the sweep. result: the sweep's results. figures: paths of the pictures. quiet: print the paths alone.
    """
    rows, directory = result.rows, result.directory
    if not quiet:
        points = count(rows["scenario"].nunique(), "point")
        print(f"{plan.name}: {count(len(rows), 'row')} of {points}{more_on_disk(result.more)}")
    if result.failed:
        print(f"p2p-sim: {count(result.failed, 'replicate')} failed; see {directory / FAILURES}", file=sys.stderr)
    # `comparable`: points where the learned model can be compared with the majority class; `low`: the points among
    # these where the model is not clearly more accurate
    low, comparable = points_not_above(rows)
    if low:
        print(
            f"p2p-sim: warning: in {low:,} of {count(comparable, 'point')}, what is learned is not clearly more "
            "accurate than always saying the majority class (column majority_error_rate)",
            file=sys.stderr,
        )
    print(*(directory / name for name in (ROWS, TABLE, MANIFEST)), *figures, sep="\n")
    if not quiet:
        print(f"next: p2p-sim plot {directory}   p2p-sim report {directory}")


def print_sweep_json(plan: SweepPlan, result: SweepResult, figures: list[str]) -> None:
    """Print a sweep's results as one JSON object. The object has the numbers of points, rows and failed replicates, the
    paths of directory and pictures, and the privacy bound (ε, δ, observer, conditions) of the row with the largest ε.

    Args:
        plan: the sweep. result: the sweep's results. figures: paths of the pictures.
    """
    points, worst = int(result.rows["scenario"].nunique()), worst_row(result.rows)
    # the conditions are on disk beside the rows; old directories may have no conditions
    bound = statement_of(worst, read_terms(result.directory).get(str(worst.get("statement")), {}), "epsilon_upper")
    print_object({
        "name": plan.name,
        "directory": str(result.directory),
        "points": points,
        "rows": len(result.rows),
        "more_on_disk": result.more,
        "failed": result.failed,
        "figures": figures,
        "worst_point": str(worst["scenario"]),
        **{name: str(worst[name]) for name in ("observer", "adjacency", "basis")},
        **{name: float(worst[name]) for name in ("delta", "epsilon_lower", "epsilon_upper")},
        **({} if bound is None else whole(bound)),
    })  # fmt: skip
