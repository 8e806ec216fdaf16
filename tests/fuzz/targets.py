"""All targets, with their shares of the inputs."""

from functools import partial

from tests.fuzz import commands, readers
from tests.fuzz.harness import Target

TARGETS = (
    Target("scenario", readers.scenario, 30.0),
    Target("override", readers.override, 20.0),
    Target("sweep", readers.sweep, 10.0),
    *(Target(kind, partial(readers.data, kind), 3.0) for kind in readers.READERS),
    Target("certificate", readers.certificate, 3.0),
    Target("results", commands.results, 8.0),
    Target("run", commands.run, 0.3, 300.0),
    Target("pages", commands.pages, 0.1, 300.0),
    Target("full-disk", commands.full_disk, 0.1, 300.0),
    Target("destination", commands.destination, 0.1, 300.0),
)
"""One in a hundred inputs or fewer runs a whole command; all others only read."""
