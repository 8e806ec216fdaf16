"""The command line: commands parse options and print results, and the other packages do the work."""

import atexit
import gc
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2p_sim.base import InputError, RunFailed, count, progress_shown, read_toml, write_whole, writing
from p2p_sim.cli.new import new
from p2p_sim.cli.options import (
    FIGURES,
    App,
    AsJson,
    Commands,
    DataDir,
    Note,
    Overrides,
    Quiet,
    ResultsDir,
    ScenarioFile,
    Split,
    Version,
    Workers,
    check_file,
    interruptible,
    one_of,
)
from p2p_sim.cli.points import sweep, tune
from p2p_sim.cli.privacy import audit, calibrate, certify, privacy
from p2p_sim.cli.results import compare, explore, plot, report
from p2p_sim.cli.scenarios import against_randomised_response, cite, data, load, located, scenarios

if TYPE_CHECKING:
    from p2p_sim import Scenario

app = App(
    name="p2p-sim",
    cls=Commands,
    rich_markup_mode=None,
    help="Simulate peer-to-peer label exchange and say exactly how private and how useful it is.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


GREETING = """p2p-sim simulates peer-to-peer label exchange, and says exactly how private and how useful it is. Try:

  p2p-sim run quickstart     the first scenario: a table, a figure, and where the results are
  p2p-sim privacy --cluster-size 200 --flip-prob 0.1 --sampling-rate 0.5 --delta 1e-6
  p2p-sim scenarios          everything that runs by its name

p2p-sim --help lists all commands."""


@app.callback()
def _root(context: typer.Context, version: Version = False) -> None:
    """Print a greeting if no command is named."""
    if context.invoked_subcommand is None:
        print(GREETING)


@app.command()
def run(
    scenario: ScenarioFile,
    *,
    overrides: Overrides = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="events, processes or vectorised; overrides the scenario.",
            autocompletion=one_of("events", "processes", "vectorised"),
        ),
    ] = None,
    data_dir: DataDir = None,
    out: ResultsDir = None,
    json_: AsJson = False,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the releases (.csv, .parquet, .npz).")
    ] = None,
    transcript: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write every delivered message (.csv, .parquet, .npz)."),
    ] = None,
    workers: Workers = None,
    split: Split = None,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="Show all figures: how ε was computed, the papers' bounds, the network."),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run the replicates of a scenario that are not on disk yet, draw a figure and print a summary.

    Example: p2p-sim run quickstart --set mechanism.flip_prob=0.2
    """
    chosen = load(scenario, overrides, engine)

    # show progress before the libraries of a run load
    with interruptible(), progress_shown(chosen.name, "replicates", chosen.replicates, quiet=quiet) as report:
        from p2p_sim.cli.executors import for_run
        from p2p_sim.sweeps import run_point

        exports = _exports(chosen, export, transcript)
        finished = run_point(chosen, out, data_dir, report, for_run(chosen, workers, split))
    from p2p_sim.cli.printing.run_summary import print_json, print_summary

    written = [(path, write(chosen, path, data_dir)) for path, write in exports.items()]
    if json_:
        print_json(chosen, finished)
    else:
        rival = partial(against_randomised_response, chosen, finished, scenario, overrides=overrides, data_dir=data_dir)
        print_summary(chosen, finished, written, quiet=quiet, verbose=verbose, rival=rival)


def _exports(
    scenario: "Scenario", export: Path | None, transcript: Path | None
) -> dict[Path, "Callable[[Scenario, Path, Path | None], int]"]:
    """For each file that the options of `p2p-sim run` name, the function that writes this file. The function takes the
    scenario, the file's path and the directory of data files (None: not named). The function returns the number of rows
    that it wrote.

    Args:
        scenario: what runs. export: file for the labels that the learner receives; None: none. transcript: file for
        every delivered message; None: none.

    Raises:
        InputError: a file cannot be written, or the scenario has nothing to write into it.
    """
    from p2p_sim.results import release_export

    # check the paths first, then whether the scenario has anything to write
    exports: dict[Path, Callable[[Scenario, Path, Path | None], int]] = {}
    for option, path, write in (
        ("--export", export, release_export.export_release),
        ("--transcript", transcript, release_export.export_transcript),
    ):
        if path is not None:
            release_export.check_destination(option, path)
            exports[path] = write
    if export is not None:
        release_export.check_release(scenario)
    if transcript is not None:
        if transcript == export:
            raise InputError(f"--transcript {transcript}: is the file of --export too; choose another name")
        if scenario.engine == "vectorised":
            raise InputError(f"--transcript {transcript}: needs engine = 'events' or 'processes', not 'vectorised'")
        release_export.check_transcript(scenario)
    return exports


# the help lists commands in this order
for command in (new, sweep, tune, plot, compare, report, explore, scenarios, data, cite):
    app.command()(command)


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Scenario or sweep files.", show_default=False)],
    overrides: Overrides = None,
    data_dir: DataDir = None,
    quiet: Quiet = False,
) -> None:
    """Check scenario and sweep files, and the tables that they name, without running them.

    Example: p2p-sim validate scenarios/*.toml
    """
    failed = False
    for file in files:
        try:
            lines = _checked(file, overrides, data_dir)
            if not quiet:
                print("\n  ".join([f"{file}: ok, {lines[0]}", *lines[1:]]))
        except InputError as error:
            failed = True
            print(*error.mistakes, sep="\n", file=sys.stderr)
    if failed:
        raise typer.Exit(2)


@app.command()
def schema(quiet: Quiet = False) -> None:
    """Print the JSON Schema of scenario files, for completion and checks in an editor.

    Example: p2p-sim schema > scenario.schema.json
    """
    import json

    from p2p_sim import Scenario

    print(json.dumps(Scenario.model_json_schema(), indent=2))


for question in (privacy, calibrate, certify, audit):
    app.command()(question)


@app.command()
def network(
    scenario: ScenarioFile,
    *,
    overrides: Overrides = None,
    replicate: Annotated[int, typer.Option(metavar="R", help="Index of the replicate, from 0.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory of the figures.  [default: results/NAME-HASH/network]"),
    ] = None,
    film: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the exchange as a film that a browser plays: one page (.html, .htm)."),
    ] = None,
    data_dir: DataDir = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show what happened on the network in one replicate: a table, and figures that replace earlier ones.

    Example: p2p-sim network quickstart --set network.loss=0.05
    """
    from p2p_sim.cli.printing.network_summary import network_output, oddities
    from p2p_sim.cli.printing.numbers import print_output, warn_of_oddities
    from p2p_sim.film import film_html
    from p2p_sim.replicate import check, directory_of, draw, observe, record
    from p2p_sim.results import NETWORK

    # check the options before the replicate runs
    chosen = load(scenario, overrides, None)
    directory = out or directory_of(chosen, data_dir) / NETWORK
    check(chosen, replicate, directory)
    check_file("--film", film, (".html", ".htm"))
    observed = observe(chosen, replicate, data_dir)
    figures = draw(observed, directory)
    if film is not None:
        with writing(film):
            write_whole(film, film_html(observed).encode())
        figures.append(film)
    output = network_output(record(observed), figures, observed.statement)
    if not json_:
        warn_of_oddities(oddities(output.record))
    print_output(output, json_)


@app.command("check-bounds")
def check_bounds(
    json_: AsJson = False,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw ε against the cluster size (.png, .pdf, .svg).")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Check the papers' numbered claims numerically: print which hold, how loosely, and which fail.

    Example: p2p-sim check-bounds --figure bounds.png
    """
    from p2p_sim.cli.printing.numbers import print_output
    from p2p_sim.cli.printing.privacy_answers import verdicts_output
    from p2p_sim.privacy.claims import all_claims

    check_file("--figure", figure, FIGURES)
    verdicts = [claim.check() for claim in all_claims()]
    if figure is not None:
        from p2p_sim.figures import plot_bounds
        from p2p_sim.privacy.claims.paper_against_exact import bounds_table

        plot_bounds(bounds_table(), figure)
    print_output(verdicts_output(verdicts), json_)
    if figure is not None and not json_:
        print(figure)


def _checked(file: Path, overrides: list[str] | None, data_dir: Path | None) -> list[str]:
    """Lines about a valid scenario or sweep file. For a scenario, the first line has the identifying hash. For a sweep,
    this line has the number of points (combinations of values). Remarks on own tables (not shipped ones) follow.
    Warnings about the file go to standard error.

    Args:
        file: path or name of the file. overrides: texts KEY=VALUE that change keys; None: no changes. data_dir:
        directory of data files; None: not named.

    Raises:
        InputError: the file is not valid.
    """
    from p2p_sim.replicate import Replicate, examined
    from p2p_sim.replicate.advice import advice
    from p2p_sim.sweeps import load_sweep

    file = located(file)
    # advice is given on own tables and on mechanisms of plug-ins, not on shipped ones
    if "axes" not in read_toml(file):
        replicate = Replicate(load(file, overrides, None), data_dir=data_dir)
        uncommon = replicate.scenario.population.own or replicate.scenario.mechanism_claimed_by
        lines, replicates = examined(replicate), [replicate] if uncommon else []
    else:
        plan = load_sweep(file, overrides or (), data_dir)
        lines, replicates = [f"a sweep of {count(plan.size, 'point')}"], plan.own_data()
        lines += [line for each in replicates for line in each.scenario.population.remarks(each.places)]
    for warning in dict.fromkeys(line for each in replicates for line in advice(each)):
        warnings.warn(f"{file}: {warning}", stacklevel=2)
    return lines


def _failure(error: Exception) -> str | None:
    """The reason for a failed run in one line. A `RunFailed`, a plug-in's error (unless P2P_SIM_DEBUG is set), and
    errors of memory or of the system mean a failed run. None for a fault of the simulator, which ends in a traceback.
    """
    from p2p_sim.base import plug_in_failure

    if isinstance(error, RunFailed):
        return str(error)
    text = plug_in_failure(error)
    if text is None and isinstance(error, MemoryError | OSError):  # this machine's limits, not a fault of the code
        return f"{'not enough memory: ' * isinstance(error, MemoryError)}{error}"
    return text


def main() -> None:
    """Run the command line. Bad input ends with one line and exit status 2. A failed run ends with one line and exit
    status 1.
    """
    atexit.register(gc.freeze)  # without this, the process ends with a useless search for garbage
    usage_error: type[Exception] = typer.BadParameter.__bases__[0]  # typer offers no name for this class
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, category, *_, **__: print(
                message if category is Note else f"p2p-sim: warning: {message}", file=sys.stderr
            )
            status = app(prog_name="p2p-sim", standalone_mode=False)
    except (InputError, usage_error) as error:
        text = error.format_message() if hasattr(error, "format_message") else str(error)
        if text:  # the text is empty after a printed help
            print(f"p2p-sim: {text}", file=sys.stderr)
        sys.exit(2)
    except Exception as error:
        if (text := _failure(error)) is None:
            raise
        print(f"p2p-sim: {text}", file=sys.stderr)
        sys.exit(1)
    sys.exit(status)
